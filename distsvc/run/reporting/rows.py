"""The part of the report on the rows of a cluster: a query, and the labels of a small table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow.parquet as pq

from distsvc.job.config import Job
from distsvc.report.content.explained_parts import RowsPart
from distsvc.run.labelling.columns import ROW, parts_place
from distsvc.run.labelling.counts import Counts
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.publishing.formats import output_format

MAX_LISTED_ROWS = 5_000
"""Maximum number of rows of a table whose labels are in the page."""

READERS = {"parquet": ("read_parquet", "**/*.parquet"), "csv": ("read_csv", "**/*.csv")}
"""DuckDB's function for each format of input, and the files of a folder."""


def rows_part(run: RunDirectory, job: Job, counts: Counts, label: int) -> RowsPart:
    """Return the query for the rows of a cluster, and the labels of a small table."""
    table, output = run.plan.table, job.output.path.rstrip("/")
    name = table.id or ROW
    if output_format(job.output.format).publishes_parts:
        query = _sql(output, label, table.id, table.layout.format, job)
    else:
        query = (
            f'distsvc.load({output!r}).labels(filter="label == {label}")  # or: "outlier == true"'
        )
    listed = _csv(run, name, counts) if counts.n_rows <= MAX_LISTED_ROWS else ""
    return RowsPart(query=query, csv=listed)


def _sql(output: str, label: int, id: str | None, layout: str, job: Job) -> str:
    """Return the query of DuckDB: rows with their columns if ids and one file name allow that."""
    labels = f"read_parquet({_text(f'{output}/labels/*/*.parquet')})"
    where = f"WHERE l.label = {label} -- or: l.outlier\nORDER BY l.score"
    path = job.input.model_dump(mode="json")["path"]
    if Path(job.input.paths[0]).parent.name.startswith("distsvc-frame-"):
        id = None  # a temporary copy of a table in memory
    if id is None or layout not in READERS or not isinstance(path, str) or "***" in path:
        return f"SELECT l.* FROM {labels} l\n{where}"
    function, files = READERS[layout]
    if Path(path).is_dir():
        path = f"{path.rstrip('/')}/{files}"
    column = '"' + id.replace('"', '""') + '"'
    return (
        f"SELECT t.*, l.label, l.score, l.outlier\nFROM {labels} l\n"
        f"JOIN {function}({_text(path)}) t USING ({column})\n{where}"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _csv(run: RunDirectory, name: str, counts: Counts) -> str:
    """Return id, label, score and outlier flag of every row as CSV."""
    columns = [name, "label", "score", "outlier"]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for part in counts.parts:
        found = pq.ParquetFile(parts_place(run).local(part["stored"])).read(columns=columns)
        for row, label, score, outlier in zip(
            *(found[column].to_pylist() for column in columns), strict=True
        ):
            writer.writerow([row, label, f"{score:.6g}", str(outlier).lower()])
    return stream.getvalue()
