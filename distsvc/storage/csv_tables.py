"""CSV: streamed once into one Parquet file, and from then on a Parquet table."""

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

from distsvc.errors import DataError, OutputPermissionError, TemporaryError
from distsvc.storage import files
from distsvc.storage.arrays import write_whole
from distsvc.storage.columns import merge_schemas

_GROUP_ROWS = 262_144
_BLOCK_BYTES = 16 << 20


def convert_csv(found: files.Files, as_is: set[str], features: set[str], staging: Path) -> Path:
    """Write CSV files, in the order of their names, as one Parquet file, and return its path.

    Types come from the first 16 MiB of each file. A column of whole numbers there becomes float64,
    as a fraction may follow, unless it is in `as_is`. A file that an earlier call made from the
    same files is used again.

    Parameters
    ----------
    found
        The CSV files.
    as_is
        Columns whose values must not change: id, label and those of ``where``.
    features
        The columns that the job names as features; one without a value at first becomes float64.
    staging
        The folder to write to; made if need be.

    Raises
    ------
    DataError
        A file is not UTF-8 or gzip, has no header, another header than the first file, a line with
        too few or too many fields, or a value that does not fit its column's type.
    OutputPermissionError
        The staging folder may not be written.
    TemporaryError
        It can't be written for another reason, such as a full disk.

    """
    target = Path(os.path.abspath(staging)) / f"csv-{_digest(found, as_is, features)}.parquet"
    known = all(version for _, _, version in found.versions())
    if known and target.exists():
        return target
    schema = _schema(found, as_is, features)

    def write(stream: BinaryIO) -> None:
        with pq.ParquetWriter(stream, schema) as writer:
            for table in _row_groups(found, schema):
                writer.write_table(table, row_group_size=_GROUP_ROWS)

    # Faults of reading are no OSError by then: whose fault one is stays clear.
    with _writing(staging):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, write)
    return target


def _row_groups(found: files.Files, schema: pa.Schema) -> Iterator[pa.Table]:
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


def _batches(found: files.Files, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for name in found.names:
        path = files.join(found.root, name)
        with files.reading(path), _open(found.fs, path, schema) as reader:
            for batch in reader:
                yield batch.select(schema.names)


def _schema(found: files.Files, as_is: set[str], features: set[str]) -> pa.Schema:
    schemas = []
    for name in found.names:
        path = files.join(found.root, name)
        with files.reading(path), _open(found.fs, path) as reader:
            schemas.append(reader.schema)
        _check_header(files.shown(path), schemas[-1].names, schemas[0].names)
    shown = [files.shown(files.join(found.root, name)) for name in found.names]
    types, problems = merge_schemas(schemas, shown)
    if problems:
        raise DataError(next(iter(problems.values())))
    return pa.schema([(n, _widened(n, t, as_is, features)) for n, t in types.items()])


def _check_header(path: str, names: list[str], expected: list[str]) -> None:
    if names != expected:
        raise DataError(f"the header of {path} is {names}, expected {expected} as in the first")
    with suppress(ValueError):
        raise DataError(f"{path} has no header: its first line is {[float(n) for n in names]}")


def _widened(name: str, kind: pa.DataType, as_is: set[str], features: set[str]) -> pa.DataType:
    whole = pa.types.is_integer(kind) and name not in as_is
    empty = pa.types.is_null(kind) and name in features
    return pa.float64() if whole or empty else kind


@contextmanager
def _open(fs: Any, path: str, schema: pa.Schema | None = None) -> Iterator[Any]:
    types = {field.name: field.type for field in schema} if schema is not None else None
    with files.open_input(fs, path, cache="readahead") as handle:
        packed = path.partition("?")[0].lower().endswith(".gz")
        stream = pa.CompressedInputStream(handle, "gzip") if packed else handle
        with pc.open_csv(
            stream,
            read_options=pc.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=pc.ConvertOptions(column_types=types),
        ) as reader:
            yield reader


def _digest(found: files.Files, as_is: set[str], features: set[str]) -> str:
    content = [found.root, found.versions(), sorted(as_is), sorted(features)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@contextmanager
def _writing(staging: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise OutputPermissionError(f"no permission to write {staging}") from None
    except OSError as error:
        raise TemporaryError(f"can't write {staging}: {error}") from error
