"""The export of all published nights of a job to one table, for SQL and data frames."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError, JobFileError, TemporaryError, one_line
from distsvc.errors.extras import required
from distsvc.errors.faults import classify_error
from distsvc.errors.urls import bare_text, checked_url, lake_url
from distsvc.inputs.given import type_words
from distsvc.report.sections.names import cluster_names
from distsvc.run.reporting.files import read_report
from distsvc.storage.places.arrays import write_whole
from distsvc.storage.places.remote import delta_options
from distsvc.storage.publishing.formats import label_parts
from distsvc.storage.publishing.manifest import REPORT, Manifest
from distsvc.storage.publishing.publication import Output
from distsvc.storage.publishing.retention import each_below

TABLE = "nights"
"""The name of the table in a DuckDB file."""

_COLUMNS = {
    "night": pa.date32(), "cluster": pa.int32(), "name": pa.string(), "outlier": pa.bool_(),
    "score": pa.float32(), "run": pa.string(),
}  # fmt: skip
"""Types of the columns of an exported table, except ``id``."""


class ExportedNights(NamedTuple):
    """The numbers of nights and rows that an export wrote, and the table with them."""

    nights: int
    rows: int
    table: str  # in words, such as "table nights of all.duckdb"


@dataclass(frozen=True)
class _Night:
    output: Output
    manifest: Manifest
    names: dict[int, str]

    @property
    def id(self) -> str:
        return next(iter(self.manifest.columns))

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        return label_parts(self.manifest, self.output.store, columns)

    def table(self, part: pa.Table, schema: pa.Schema) -> pa.Table:
        n, labels = len(part), part["label"].combine_chunks()
        clusters = labels.unique()
        names = [self.names.get(label) or None for label in clusters.to_pylist()]
        index = labels.dictionary_encode().indices
        columns = {
            "id": part[self.id],
            "night": pa.repeat(self.manifest.run_date, n),
            "cluster": labels,
            "name": pa.array(names, pa.string()).take(index),
            "outlier": part["outlier"],
            "score": part["score"],
            "run": pa.repeat(self.manifest.run_id, n),
        }
        return pa.table(columns).cast(schema)


def export(path: str, to: str) -> ExportedNights:
    """Write all published nights below the folder `path` to one table, which is replaced.

    Runs that were held back or replaced, and the labels of ``distsvc predict``, are left out. The
    target `to` is a ``.parquet`` file; a ``.duckdb`` file, whose table ``nights`` is replaced; or
    ``delta://`` with the folder or URL of a Delta table. One file of labels is in memory at a time.
    `JobFileError` is raised if `to` is none of these, or if the nights belong to several jobs.
    `InputNotFoundError` is raised if there are no nights.
    """
    write, table = _target(to)
    nights = _nights(path)
    schema = pa.schema({"id": _id_type(nights)} | _COLUMNS)
    failed: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for night in nights:
                for part in night.parts([night.id, "label", "score", "outlier"]):
                    yield from night.table(part, schema).to_batches()
        except Exception as error:  # the writer wraps it in an error of its own
            failed.append(error)
            raise

    try:
        write(pa.RecordBatchReader.from_batches(schema, batches()))
    except Exception as error:
        raise (failed or [error])[0] from None
    return ExportedNights(len(nights), sum(night.manifest.rows for night in nights), table)


def _nights(path: str) -> list[_Night]:
    """Return the published nights below a folder, by date; raise if they are of several jobs."""
    found = each_below(checked_url(path), _night)
    jobs = sorted({night.manifest.job_name for night in found})
    if len(jobs) > 1:
        named = ", ".join(job or "a job without a name" for job in jobs)
        raise JobFileError(
            f"{path}: expected the nights of one job, found nights of {len(jobs)} jobs: "
            f"{named}; give the folder of one job"
        )
    by_date = attrgetter("manifest.run_date", "manifest.created", "output.shown")
    return sorted(found, key=by_date)


def _night(output: Output) -> _Night | None:
    """Return the night that is published at an output; None for predictions and empty outputs."""
    manifest = output.manifest()
    if manifest is None or not any(file.name == REPORT for file in manifest.files):
        return None
    return _Night(output, manifest, cluster_names(read_report(output)))


def _id_type(nights: Sequence[_Night]) -> pa.DataType:
    kinds = [next(night.parts([night.id])).column(0).type for night in nights]
    schemas = [pa.schema([("id", kind)]) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("id").type
    except pa.ArrowException:
        first = kinds[0]
        pairs = zip(nights, kinds, strict=True)
        night, other = next((night, kind) for night, kind in pairs if kind != first)
        raise DataError(
            f"expected ids of one type in all nights, found {type_words(first, other)} at "
            f"{nights[0].output.shown} and {type_words(other, first)} at {night.output.shown}"
        ) from None


def _target(to: str) -> tuple[Callable[[pa.RecordBatchReader], None], str]:
    """Return a function that writes rows to `to`, and words such as "table nights of a.duckdb"."""
    shown, lake = checked_url(to), lake_url(to)
    if lake.kind == "delta" and not lake.pin:
        required("deltalake", "delta", shown)
        return partial(_write_delta, lake.path), shown
    suffix = Path(to).suffix.lower()
    if lake.kind or "://" in to or suffix not in (".parquet", ".duckdb", ".ddb", ".db"):
        raise JobFileError(
            f"--to: expected a local file, NAME.parquet or NAME.duckdb, or a Delta "
            f"table, delta://PATH, found {shown}"
        )
    file = Path(to).absolute()
    if not file.parent.is_dir() or file.is_dir():
        raise JobFileError(f"--to: expected a file in an existing folder, found {shown}")
    if suffix == ".parquet":
        return partial(_write_parquet, file), shown
    required("duckdb", "duckdb", shown)
    return partial(_write_duckdb, file), f"table {TABLE} of {shown}"


def _write_parquet(file: Path, rows: pa.RecordBatchReader) -> None:
    def write(stream: BinaryIO) -> None:
        with pq.ParquetWriter(stream, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)

    write_whole(file, write)


def _write_duckdb(file: Path, rows: pa.RecordBatchReader) -> None:
    """Write rows to the table `TABLE` of a DuckDB file, in one transaction; other tables stay."""
    import duckdb

    try:
        with duckdb.connect(file) as connection:
            connection.register("part", rows)
            connection.execute(f"CREATE OR REPLACE TABLE {TABLE} AS SELECT * FROM part")
    except duckdb.Error as error:
        words = f"{file}: {one_line(bare_text(str(error)))}"
        locked = "lock" in str(error).lower()
        raise (TemporaryError if locked else DataError)(words) from None


def _write_delta(path: str, rows: pa.RecordBatchReader) -> None:
    """Write rows as a new version of a Delta table, or create the table."""
    import deltalake

    options = delta_options(path) if "://" in path else None
    try:
        deltalake.write_deltalake(
            path, rows, mode="overwrite", schema_mode="overwrite", storage_options=options
        )
    except Exception as error:
        words = f"delta://{path}: {one_line(bare_text(str(error)))}"
        raise classify_error(error, writing=path) or DataError(words) from error
