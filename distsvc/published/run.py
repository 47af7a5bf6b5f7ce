"""``distsvc.load``: a published run in Python, with its labels, model and report."""

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
    """A published run: its labels, model and report.

    A `Run` does not change if another run is published at its output. When a file is first read,
    its size and checksum are compared with the manifest.

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
        """The numbers of the report page.

        Raises
        ------
        DataError
            The report is damaged, or missing because the run used another run's model.

        """
        path = self._local(self._listed(REPORT))
        return Report.parsed(read_json(path), str(path))

    @cached_property
    def model(self) -> Model:
        """The run's model, which labels further raw rows as the run labelled its table.

        Raises
        ------
        DataError
            The model is damaged, or missing because the run used another run's model.
        JobFileError
            The model was written by another version.

        """
        return read_saved_model(self.model_folder)

    @cached_property
    def model_folder(self) -> Path:
        """Local folder with the model's files; `DataError` if one is missing or damaged."""
        self._listed(FILES[0])
        return checked_model(self._store, self._manifest)

    @property
    def files(self) -> list[str]:
        """The Parquet files with the labels, in order of the rows, as absolute paths or URLs.

        They are for ``polars.read_parquet``, DuckDB's ``read_parquet`` and ``spark.read.parquet``.
        `DataError` is raised if the labels are in Zarr. If another run has replaced this one, the
        files stay until the next publication or ``distsvc gc``.
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
            Names of the published columns to return, in this order; all by default.
        filter : str, pyarrow.compute.Expression or None, default=None
            Condition that the returned rows fulfil: an expression, such as
            ``pc.field("score") < 0``, or a text as in ``input.where``, such as
            ``"outlier == true"``.
        join : bool, default=False
            Add the columns of the job's table before the published columns. The table is read into
            memory (CSV and Zarr: only the columns that the job uses). If a column of the table has
            the name of a published column, the table's column gets the suffix ``_input``.

        Returns
        -------
        pyarrow.Table
            Number or id of the row, ``label`` int32, ``score`` float32, ``outlier`` bool, and
            other columns that the job publishes.

        Raises
        ------
        DataError
            A column is missing, the filter does not suit the types of its columns, or a file is
            damaged. With `join`: the table has changed since the run, or rows share an id.
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
        """Return the local path of a file in the manifest, which is checked at the first call."""
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
        """Return HTML for notebooks: the clusters, the share of outliers, and the page's path."""
        from distsvc.report.formats import template

        report = None
        with suppress(DataError):
            report = self.report
        page = f"{self.path.rstrip('/')}/{PAGE}"
        about = {"path": self.path, "counts": self._counts(), "page": page, "report": report}
        return template("notebook_run.html").render(about)


def load(path: str | os.PathLike[str]) -> Run:
    """Load the run that is published at an output.

    Parameters
    ----------
    path : str or path
        The output: a folder, or ``s3://bucket/prefix``.

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
    run : Runs a job unless it has published already, and loads its run.

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
