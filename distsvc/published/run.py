"""A published run in Python: labels, model and report, of what its manifest lists."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path

import pyarrow as pa

from distsvc.errors import DataError, InputNotFoundError
from distsvc.published.saved_model import Model
from distsvc.report.content.report import Report
from distsvc.run.model.files import FILES, checked_model
from distsvc.run.reporting.files import PAGE, REPORT
from distsvc.storage.places.arrays import read_json
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import Manifest, checked, listed, read_manifest
from distsvc.storage.publishing.reading import Filter, label_files, read_labels


class Run:
    """A published run.

    It is the one that was published when it was loaded: one that replaces it later is another.
    Files are compared with the manifest's sizes and checksums when they are first read.

    Attributes
    ----------
    path : str
        Of the output, as it was given.
    manifest : dict
        The content of ``manifest.json``.

    See Also
    --------
    load : Returns one.
    distsvc.run : Makes and returns one.

    Examples
    --------
    >>> import distsvc
    >>> run = distsvc.load("out/moons")
    >>> run
    <distsvc run out/moons: 2 clusters in 1,000 rows>
    >>> run.manifest["rows"]
    1000

    """

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
            The run has none, since it labelled rows by another's model, or it is damaged.

        """
        path = self._local(self._listed(REPORT))
        return Report.parsed(read_json(path), str(path))

    @cached_property
    def model(self) -> Model:
        """The model, which labels raw rows as this run did.

        Raises
        ------
        DataError
            The run has none, since it labelled rows by another's model, or it is damaged.
        JobFileError
            It was written by another version.

        """
        return Model.read(self.model_folder)

    @cached_property
    def model_folder(self) -> Path:
        """The folder of the model's files, ready to be read; errors as of `model`."""
        self._listed(FILES[0])
        return checked_model(self._store, self._manifest)

    @property
    def files(self) -> list[str]:
        """The Parquet files of the labels, in their order, as absolute paths or URLs.

        Once another run is published, they are the paths that stay until ``distsvc gc`` or the run
        after that.
        For ``polars.read_parquet``, DuckDB's ``read_parquet`` and ``spark.read.parquet``. Labels
        in Zarr are many small files that no such reader takes: `DataError`; see `labels`.
        """
        files = label_files(self._manifest)
        if not all(one.name.endswith(".parquet") for one in files):
            raise DataError(
                f"{self.path} has labels in Zarr, expected Parquet; labels() reads both"
            )
        replaced = bool(files) and not self._store.has(files[0].file)
        names = [one.lasting if replaced else one.file for one in files]
        return [f"{self._store.address}/{name}" for name in names]

    def labels(self, columns: Sequence[str] | str | None = None, filter: Filter = None) -> pa.Table:
        """Return what is published of every row, in the order of the job's table.

        Memory is that of the answer, and of one file besides.

        Parameters
        ----------
        columns : str, list of str or None, default=None
            Published columns, in the order wanted, or one; all when not given.
        filter : str, pyarrow.compute.Expression or None, default=None
            Which rows: an expression, such as ``pc.field("score") < 0``, or a text in the language
            of ``input.where``, such as ``"outlier == true"``.

        Returns
        -------
        pyarrow.Table
            The row's number or its id, ``label`` int32, ``score`` float32, ``outlier`` bool, and
            what else the job publishes.

        Raises
        ------
        DataError
            No column is called so, the filter does not suit its columns, or a file is damaged.
        JobFileError
            The text of the filter can't be parsed.

        See Also
        --------
        files : The names of the files, for other readers.

        Examples
        --------
        >>> import distsvc
        >>> run = distsvc.load("out/moons")
        >>> run.labels(columns=["row", "label"], filter="outlier == true").num_rows
        5

        """
        return read_labels(self._manifest, self._local, columns, filter)

    def _local(self, name: str) -> Path:
        """Return where a listed file can be read; it is compared with the list once."""
        if name not in self._checked:
            file = next(one for one in self._manifest.files if one.file == name)
            self._checked[name] = checked(self._store, file)
        return self._checked[name]

    def _listed(self, name: str) -> str:
        if not any(file.file.endswith(f"/{name}") for file in self._manifest.files):
            raise DataError(
                f"{self.path} has no {name}: the run labelled rows by the model of another"
            )
        return listed(self._store, self._manifest, name).file

    def __repr__(self) -> str:
        return f"<distsvc run {self.path}: {self._told()}>"

    def _told(self) -> str:
        k = self._manifest.clusters
        return f"{k} cluster{'s' * (k != 1)} in {self._manifest.rows:,} rows"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the clusters, the share outside, where the page is."""
        page = f"{self.path.rstrip('/')}/{PAGE}"
        head = f"<p><b>{escape(self.path)}</b>: {self._told()}"
        try:
            report = self.report
        except DataError:
            return head + "</p>"
        if report.outliers.defined:
            head += f", {report.outliers.share:.1%} outside"
        rows = "".join(
            f"<tr><td>{c.label}</td><td>{c.rows:,}</td><td>{c.share:.1%}</td>"
            f"<td>{c.outliers:,}</td></tr>"
            for c in report.clusters[:SHOWN]
        )
        more = len(report.clusters) - SHOWN
        rest = f"<p>and {more} more clusters</p>" if more > 0 else ""
        titles = "".join(f"<th>{name}</th>" for name in ("label", "rows", "share", "outside"))
        table = f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{rest}"
        warnings = "".join(f"<p>{escape(warning)}</p>" for warning in report.warnings)
        return f"{head}; the page is {escape(page)}</p>{table}{warnings}"


SHOWN = 20
"""Clusters that a notebook shows."""


def load(path: str | os.PathLike[str]) -> Run:
    """Return what is published at an output.

    Parameters
    ----------
    path : str or path
        A folder, or ``s3://bucket/prefix``.

    Returns
    -------
    Run
        The one that is published now; one that replaces it later is another.

    Raises
    ------
    InputNotFoundError
        No run is published there.
    JobFileError
        It was published by another version, or the path can be no output's.
    DataError
        The manifest is damaged.

    See Also
    --------
    run : Runs a job first, where that is needed.

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
