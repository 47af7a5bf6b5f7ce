"""CSV, which has no row ranges: streamed once into a Parquet file, and from then on Parquet."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from distsvc.config import InputConfig
from distsvc.errors import DataError
from distsvc.storage.arrays import make_folder, write_whole
from distsvc.storage.columns import Scan, merge_schemas, other_columns
from distsvc.storage.files import Files, find_files
from distsvc.storage.location import Location
from distsvc.storage.sources.parquet import Parquet

_GROUP_ROWS = 262_144
_BLOCK_BYTES = 16 << 20


class Csv(Parquet):
    """CSV with a header, packed by gzip or not.

    Types come from the first 16 MiB of each file. A column of whole numbers there becomes float64,
    as a fraction may follow, unless it is the id, the label or one of ``where``; so does a feature
    that the job names and that is empty at first. A file that an earlier call made from the same
    files is used again.
    """

    name = "csv"
    title = "CSV"
    suffixes = (".csv", ".csv.gz")

    def scan(self, found: Files, config: InputConfig, staging: Path) -> Scan:
        """Write the files, in the order of their names, as one Parquet file, and scan that.

        Raises
        ------
        DataError
            A file is not UTF-8 or gzip, has no header, another header than the first file, a line
            with too few or too many fields, or a value that does not fit its column's type.
        OutputPermissionError
            The staging folder may not be written.
        TemporaryError
            It can't be written for another reason, such as a full disk.

        """
        as_is, features = set(other_columns(config)), set(config.columns or ())
        digest = _digest(found, as_is, features)
        target = Path(os.path.abspath(staging)) / f"csv-{digest}.parquet"
        known = all(version for _, _, version in found.versions())
        if not (known and target.exists()):
            schema = _schema(found, as_is, features)
            # Faults of reading are no OSError by then: whose fault one is stays clear.
            _convert(found, schema, target)
        return super().scan(find_files(Location.of(str(target))), config, staging)


def _convert(found: Files, schema: pa.Schema, target: Path) -> None:
    def write(stream: BinaryIO) -> None:
        with pq.ParquetWriter(stream, schema) as writer:
            for table in _row_groups(found, schema):
                writer.write_table(table, row_group_size=_GROUP_ROWS)

    make_folder(target.parent)
    write_whole(target, write)


def _row_groups(found: Files, schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in _batches(found, schema):
        held.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            table = pa.Table.from_batches(held, schema)
            whole = rows - rows % _GROUP_ROWS
            yield table.slice(0, whole)
            held = table.slice(whole).to_batches()
            rows -= whole
    if rows:
        yield pa.Table.from_batches(held, schema)


def _batches(found: Files, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for place in found.places:
        with place.reading(), _open(place, schema) as reader:
            for batch in reader:
                yield batch.select(schema.names)


def _schema(found: Files, as_is: set[str], features: set[str]) -> pa.Schema:
    schemas = []
    for place in found.places:
        with place.reading(), _open(place) as reader:
            schemas.append(reader.schema)
        _check_header(place.shown, schemas[-1].names, schemas[0].names)
    types, problems = merge_schemas(schemas, [place.shown for place in found.places])
    if problems:
        raise DataError(next(iter(problems.values())))
    return pa.schema([(n, _widened(n, t, as_is, features)) for n, t in types.items()])


def _check_header(shown: str, names: list[str], expected: list[str]) -> None:
    if names != expected:
        raise DataError(f"the header of {shown} is {names}, expected {expected} as in the first")
    with suppress(ValueError):
        raise DataError(f"{shown} has no header: its first line is {[float(n) for n in names]}")


def _widened(name: str, kind: pa.DataType, as_is: set[str], features: set[str]) -> pa.DataType:
    whole = pa.types.is_integer(kind) and name not in as_is
    empty = pa.types.is_null(kind) and name in features
    return pa.float64() if whole or empty else kind


@contextmanager
def _open(place: Location, schema: pa.Schema | None = None) -> Iterator[Any]:
    types = {field.name: field.type for field in schema} if schema is not None else None
    with place.open(cache="readahead") as handle:
        stream = pa.CompressedInputStream(handle, "gzip") if place.is_named([".gz"]) else handle
        with pc.open_csv(
            stream,
            read_options=pc.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=pc.ConvertOptions(column_types=types),
        ) as reader:
            yield reader


def _digest(found: Files, as_is: set[str], features: set[str]) -> str:
    content = [found.folder.path, found.versions(), sorted(as_is), sorted(features)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
