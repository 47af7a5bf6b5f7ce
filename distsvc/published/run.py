"""A published run in Python: its labels, model and report."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError, InputNotFoundError, things
from distsvc.job.file import parse_job
from distsvc.published.saved_model import Model, read_saved_model
from distsvc.report.content.report import Report
from distsvc.run.labelling.columns import ROW_NAME
from distsvc.run.model.files import FILES, checked_model, read_model
from distsvc.storage.places.arrays import read_json
from distsvc.storage.places.process import scratch
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.formats import Filter, label_files, read_labels
from distsvc.storage.publishing.manifest import (
    PAGE,
    REPORT,
    Manifest,
    checked,
    listed_file,
    read_manifest,
)
from distsvc.storage.rows.blocks import Span
from distsvc.storage.tables.opening import fingerprint, open_table
from distsvc.storage.tables.parquet import Parquet, footer
from distsvc.storage.tables.sources import source_of


class Run:
    """A published run.

    The object stays the loaded run, even if another run is published at the output. Files are
    compared with the manifest's sizes and checksums when they are first read.

    Attributes
    ----------
    path : str
        The path of the output.
    manifest : dict
        The content of ``manifest.json``.

    See Also
    --------
    load : Loads a run.
    distsvc.run : Runs a job.

    Examples
    --------
    >>> import distsvc
    >>> run = distsvc.load("out/moons")
    >>> run
    <distsvc run out/moons: 2 clusters in 1,000 rows>
    >>> run.manifest["rows"]
    1000

    """

    _frame: pa.Table | None = None

    def __init__(self, path: str, store: Store, manifest: Manifest):
        self.path, self._manifest = path, manifest
        self.manifest = manifest.dumped()
        self._store = store
        self._checked: dict[str, Path] = {}

    @cached_property
    def report(self) -> Report:
        """The numbers of the page.

        Raises
        ------
        DataError
            The report is damaged, or missing, since the run used another run's model.

        """
        path = self._local(self._listed(REPORT))
        return Report.parsed(read_json(path), str(path))

    @cached_property
    def model(self) -> Model:
        """The model, which labels raw rows as this run did.

        Raises
        ------
        DataError
            The model is damaged, or missing, since the run used another run's model.
        JobFileError
            The model was written by another version.

        """
        return read_saved_model(self.model_folder)

    @cached_property
    def model_folder(self) -> Path:
        """The local folder of the model's files; raises the errors of `model`."""
        self._listed(FILES[0])
        return checked_model(self._store, self._manifest)

    @property
    def files(self) -> list[str]:
        """The Parquet files of the labels, in their order, as absolute paths or URLs.

        They are for ``polars.read_parquet``, DuckDB's ``read_parquet`` and ``spark.read.parquet``;
        labels in Zarr raise `DataError`. If another run has replaced this one, the files stay until
        the next publication or ``distsvc gc``.
        """
        files = label_files(self._manifest)
        if not all(one.name.endswith(".parquet") for one in files):
            raise DataError(
                f"{self.path} has labels in Zarr, expected Parquet; labels() reads both"
            )
        replaced = bool(files) and not self._store.has(files[0].file)
        names = [one.stored if replaced else one.file for one in files]
        return [f"{self._store.address}/{name}" for name in names]

    def labels(
        self,
        columns: Sequence[str] | str | None = None,
        filter: Filter = None,
        *,
        join: bool = False,
    ) -> pa.Table:
        """Return the published columns of every row, in the order of the job's table.

        Memory use is the size of the result plus one file.

        Parameters
        ----------
        columns : str, list of str or None, default=None
            Published columns in the order of the result; all by default.
        filter : str, pyarrow.compute.Expression or None, default=None
            Condition of the rows: an expression, such as ``pc.field("score") < 0``, or a text as in
            ``input.where``, such as ``"outlier == true"``.
        join : bool, default=False
            Add the columns of the job's table before the published columns; for CSV and Zarr only
            those that the job uses. The table is read into memory. ``_input`` is appended to the
            name of a table's column if a published column has the same name.

        Returns
        -------
        pyarrow.Table
            The row's number or its id, ``label`` int32, ``score`` float32, ``outlier`` bool, and
            further columns that the job publishes.

        Raises
        ------
        DataError
            A column is missing, the filter does not suit its columns, or a file is damaged; with
            `join`, the table has changed since the run, or rows share an id.
        JobFileError
            The text of the filter can't be parsed.

        Examples
        --------
        >>> import distsvc
        >>> run = distsvc.load("out/moons")
        >>> run.labels(columns=["row", "label"], filter="outlier == true").num_rows
        10

        """
        if not join:
            return read_labels(self._manifest, self._local, columns, filter)
        key = next(iter(self._manifest.columns))
        own = list(self._manifest.columns) if columns is None else columns
        own = [own] if isinstance(own, str) else list(own)
        read = list(dict.fromkeys([key, *own]))
        found = read_labels(self._manifest, self._local, read, filter)
        table = self._table()
        keys = None if key == ROW_NAME else table[key]
        if keys is not None and len(keys.unique()) < len(keys):
            raise DataError(f"join=True: expected each value of the id {key!r} once in the table")
        places = found[key] if keys is None else pc.index_in(found[key], keys.combine_chunks())
        labels = found.select([name for name in own if name != key or keys is None])
        names = [f"{n}_input" if n in labels.column_names else n for n in table.column_names]
        joined = table.rename_columns(names).take(places)
        for name in labels.column_names:
            joined = joined.append_column(name, labels[name])
        return joined

    def _table(self) -> pa.Table:
        """Return the job's table; raise `DataError` if it has changed since the run."""
        if self._frame is not None:
            return self._frame
        known: tuple[str, ...] = ()
        if self._manifest.previous is not None:
            known = tuple(one.column for one in read_model(self.model_folder).learned_from)
        job = parse_job(self._manifest.job, self.path)
        with scratch("staging") as staging:
            kinds, mixed = job.columns, job.is_mixed
            table = open_table(job.input, staging, job.preprocess, (), known, kinds, mixed)
            if fingerprint(table) != self._manifest.input_sha256:
                raise DataError(f"join=True: {table.shown} has changed since the run")
            names = [*table.stored, *table.others.names]
            source = source_of(table)
            if table.layout.format == Parquet.name:
                schema, _ = footer(source.folder(table).join(table.layout.files[0].name))
                names = [*schema.names, *table.left_out, *names]
            names = list(dict.fromkeys(names))
            span = Span(0, table.n_rows, 65_536)
            parts = [pa.table(batch) for batch in source.batches(table, span, names)]
            return pa.concat_tables(parts, promote_options="permissive")

    def _local(self, name: str) -> Path:
        """Return the local path of a file in the manifest; the file is checked once."""
        if name not in self._checked:
            file = next(one for one in self._manifest.files if one.file == name)
            self._checked[name] = checked(self._store, file)
        return self._checked[name]

    def _listed(self, name: str) -> str:
        if not any(file.file.endswith(f"/{name}") for file in self._manifest.files):
            raise DataError(
                f"{self.path} has no {name}: the run labelled rows with another run's model"
            )
        return listed_file(self._store, self._manifest, name).file

    def __repr__(self) -> str:
        return f"<distsvc run {self.path}: {self._counts()}>"

    def _counts(self) -> str:
        return f"{things(self._manifest.clusters, 'cluster')} in {self._manifest.rows:,} rows"

    def _repr_html_(self) -> str:
        """Return the clusters, the share outside and the path of the page, for a notebook."""
        from distsvc.report.formats import template

        report = None
        with suppress(DataError):
            report = self.report
        page = f"{self.path.rstrip('/')}/{PAGE}"
        about = {"path": self.path, "counts": self._counts(), "page": page, "report": report}
        return template("notebook_run.html").render(about)


def load(path: str | os.PathLike[str]) -> Run:
    """Load the published run of an output.

    Parameters
    ----------
    path : str or path
        A folder, or ``s3://bucket/prefix``.

    Returns
    -------
    Run

    Raises
    ------
    InputNotFoundError
        No run is published there.
    JobFileError
        It was published by another version, or the path is not valid for an output.
    DataError
        The manifest is damaged.

    See Also
    --------
    run : Runs a job first, if needed.

    Examples
    --------
    >>> import distsvc
    >>> len(distsvc.load("out/moons").report.clusters)
    2

    """
    store = store_of(path)
    try:
        return Run(os.fspath(path), store, read_manifest(store))
    except InputNotFoundError as error:
        raise InputNotFoundError(f"{error}; expected the output path of a run") from None
