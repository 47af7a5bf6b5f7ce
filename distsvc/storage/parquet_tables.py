"""Parquet: row groups are the storage units, folders named ``key=value`` are columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError
from distsvc.storage import files
from distsvc.storage.columns import Scan, merge_schemas

_BUFFER_BYTES = 1 << 20
_FOOTER_THREADS = 16
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def scan(found: files.Files) -> Scan:
    """Read every file's footer.

    Raises
    ------
    DataError
        A file is not Parquet, is damaged or may not be read, or its folders name other keys than
        those of the first file.

    """
    # Waiting for a store, not computing, is what takes the time.
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        paths = [files.join(found.root, name) for name in found.names]
        footers = list(pool.map(lambda path: _footer(found.fs, path), paths))
    names = [files.shown(path) for path in paths]
    types, problems = merge_schemas([schema for schema, _ in footers], names)
    types = _partition_types(found.names, names) | types
    return Scan(
        types=types,
        shown={name: str(kind) for name, kind in types.items()},
        problems=problems,
        default=tuple(types),
        extents=tuple(rows for _, groups in footers for rows in groups),
        files=found.names,
        file_units=tuple(len(groups) for _, groups in footers),
    )


def batches(
    fs: Any,
    root: str,
    pieces: Iterable[tuple[str, int, int, int]],
    columns: list[str],
    at_once: int,
) -> Iterator[dict[str, pa.Array]]:
    """Yield the rows of some files in order, as equally long Arrow arrays.

    Parameters
    ----------
    fs
        An fsspec file system.
    root
        The folder of the files.
    pieces
        (name, first row, row after the last, rows in the file) of each file.
    columns
        The columns to read.
    at_once
        Rows of a batch, at most.

    Raises
    ------
    DataError
        A file is damaged, may not be read, or changed since the table was opened.

    """
    for name, start, stop, n_rows in pieces:
        path = files.join(root, name)
        keys = _partition_keys(name)
        with files.reading(path), files.open_input(fs, path) as handle, _parquet(handle) as file:
            if file.metadata.num_rows != n_rows:
                raise DataError(
                    f"{files.shown(path)} has {file.metadata.num_rows} rows, "
                    f"{n_rows} when the table was opened"
                )
            for batch in _rows(file, start, stop, columns, at_once):
                arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
                for key, value in keys.items():
                    arrays.setdefault(key, pa.repeat(pa.scalar(value, pa.string()), len(batch)))
                yield {column: arrays[column] for column in columns}


def _rows(
    file: pq.ParquetFile, start: int, stop: int, columns: list[str], at_once: int
) -> Iterator[pa.RecordBatch]:
    metadata = file.metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    borders = list(itertools.accumulate(sizes, initial=0))
    groups = [i for i in range(len(sizes)) if borders[i] < stop and borders[i + 1] > start]
    skip = start - borders[groups[0]]
    wanted = stop - start
    for batch in file.iter_batches(
        batch_size=at_once,
        row_groups=groups,
        columns=[name for name in columns if name in file.schema_arrow.names],
        use_threads=False,
    ):
        piece = batch.slice(min(skip, batch.num_rows), wanted)
        skip -= min(skip, batch.num_rows)
        wanted -= piece.num_rows
        if piece.num_rows:
            yield piece
        if not wanted:
            return
    raise pa.ArrowInvalid(f"row groups end {wanted} rows early")


def _parquet(handle: Any) -> pq.ParquetFile:
    # Without pre_buffer and with a small buffer the reader holds a page of each column, however
    # large the row group is.
    return pq.ParquetFile(
        handle, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
    )


def _footer(fs: Any, path: str) -> tuple[pa.Schema, list[int]]:
    with files.reading(path), files.open_input(fs, path) as handle, _parquet(handle) as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        return file.schema_arrow.remove_metadata(), [rows for rows in groups if rows]


def _partition_keys(name: str) -> dict[str, str | None]:
    pairs = [folder.partition("=") for folder in name.split("/")[:-1] if "=" in folder]
    return {
        unquote(key): None if value == _HIVE_NULL else unquote(value) for key, _, value in pairs
    }


def _partition_types(names: tuple[str, ...], paths: list[str]) -> dict[str, pa.DataType]:
    found = [_partition_keys(name) for name in names]
    for keys, path in zip(found, paths, strict=True):
        if keys.keys() != found[0].keys():
            raise DataError(
                f"{path} lies in folders for {list(keys)}, "
                f"{paths[0]} in folders for {list(found[0])}"
            )
    return {key: _narrowest([keys[key] for keys in found]) for key in found[0]}


def _narrowest(values: list[str | None]) -> pa.DataType:
    text = pa.array(values, pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = text.cast(kind)
        except pa.ArrowInvalid:
            continue
        if np.isfinite(numbers.drop_null().to_numpy()).all():
            return kind
    return pa.string()
