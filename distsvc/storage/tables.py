"""Tables that are read in row ranges: Parquet and Zarr; CSV and svmlight text are converted.

A table is opened once, on the driver. What `open_table` returns is small and goes to the workers as
JSON; each of them reads its own rows with `read_blocks` and opens only the files that hold them.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from distsvc.config import InputConfig
from distsvc.errors import DataError
from distsvc.storage import csv_tables, files, parquet_tables, svmlight_tables, zarr_tables
from distsvc.storage.columns import Scan, choose_features
from distsvc.storage.where import Condition, parse_where, where_columns

# Rows decoded in one go: few enough to stay small beside a block, enough to hide the call's cost.
_PARQUET_ROWS = 65_536
_ZARR_ROWS = 262_144
_TILE_ROWS = 8_192


@dataclass(frozen=True)
class Table:
    """Everything a worker needs to read row ranges again: small, and JSON by way of `to_dict`.

    Attributes
    ----------
    path : str
        The Parquet path or Zarr store to read; absolute if local. For CSV the staged Parquet file,
        for svmlight text the staged sparse arrays.
    format : {"parquet", "zarr", "svmlight"}
    columns : tuple of str
        The feature columns, in order.
    id, label, where : str or None
        As in the job.
    extents : tuple of int
        Rows of each storage unit in table order: Parquet row groups, Zarr shards or chunks.
    source : str
        The path that the job names; differs from `path` for CSV.
    root, files, file_units
        Parquet: the folder, the files in it and the number of row groups of each.
    schema : str
        Arrow types of the id, label and ``where`` columns, serialised.

    """

    path: str
    format: Literal["parquet", "zarr", "svmlight"]
    columns: tuple[str, ...]
    id: str | None
    label: str | None
    where: str | None
    extents: tuple[int, ...]
    source: str
    root: str
    files: tuple[str, ...]
    file_units: tuple[int, ...]
    schema: str

    @property
    def n_rows(self) -> int:
        """Rows of the whole table, before `where`."""
        return sum(self.extents)

    @property
    def nbytes(self) -> int:
        """Bytes of all features as float64, before `where`."""
        return self.n_rows * len(self.columns) * 8

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as what JSON can hold."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in fields.items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Table:
        """Return the table that `to_dict` described."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content.items()
        }
        return cls(**fields)


@dataclass(frozen=True)
class Block:
    """Some consecutive rows, less those that `where` drops.

    Attributes
    ----------
    rows : ndarray of shape (n,), int64
        Position of each row in the whole table, before `where`, from 0.
    X : ndarray of shape (n, d), float64, C order
        The features; NaN where a value is missing.
    ids, labels : pyarrow.Array of length n, or None
        The id and label columns, if the table has them and they were asked for.

    """

    rows: np.ndarray
    X: np.ndarray
    ids: pa.Array | None
    labels: pa.Array | None


def open_table(config: InputConfig, staging: Path) -> Table:
    """Find a table, read its metadata and choose its features.

    A path that ends in ``.zarr`` or holds Zarr's metadata is Zarr, files named ``.csv`` or
    ``.csv.gz`` are CSV, those named ``.svm``, ``.svmlight`` or ``.libsvm``, packed by gzip or bzip2
    or not, are svmlight text, all else is Parquet: a file, a folder (see `files.find_files`) or a
    glob.
    Folders named ``key=value`` below the path are columns. `columns.choose_features` says which
    columns become features.

    Parameters
    ----------
    config
        The ``[input]`` section.
    staging
        Where CSV is converted to Parquet; a folder that the workers see too.

    Raises
    ------
    InputNotFoundError
        There is nothing at the path.
    DataError
        The table is empty or damaged, its files differ, or a column is missing or not numeric.
    JobFileError
        ``where`` can't be parsed, or the protocol of the path is unknown.
    OutputPermissionError, TemporaryError
        CSV can't be staged; the store does not answer.

    """
    apart = where_columns(config.where)
    others = [name for name in (config.id, config.label, *apart) if name is not None]
    fs, inner = files.locate(config.path)
    source = path = inner if files.is_local(fs) else config.path
    is_zarr = zarr_tables.is_zarr(fs, inner)
    if is_zarr:
        scan = zarr_tables.scan(path, others)
        root = ""
    else:
        found = files.find_files(config.path)
        if found.are_csv:
            features = set(config.columns or ())
            staged = csv_tables.convert_csv(found, set(others), features, staging)
            path = str(staged)
            found = files.find_files(path)
        if found.are_svmlight:
            staged = svmlight_tables.convert_svmlight(found, config, staging)
            path, scan, root = str(staged), svmlight_tables.scan(staged, config.columns or ()), ""
        else:
            scan = parquet_tables.scan(found)
            root = found.root
    if not sum(scan.extents):
        raise DataError(f"{files.shown(config.path)} has no rows")
    columns = choose_features(config, scan, apart)
    return Table(
        path=path,
        format="parquet" if scan.files else "zarr" if not root and is_zarr else "svmlight",
        columns=columns,
        id=config.id,
        label=config.label,
        where=config.where,
        extents=scan.extents,
        source=source,
        root=root,
        files=scan.files,
        file_units=scan.file_units,
        schema=_other_types(config, scan),
    )


def read_blocks(
    table: Table,
    start: int,
    stop: int,
    block_rows: int,
    *,
    with_ids: bool = False,
    with_labels: bool = False,
) -> Iterator[Block]:
    """Yield storage rows [start, stop) in order, in blocks of at most `block_rows` of them.

    Rows that ``where`` drops make a block shorter; a block without rows is not yielded. Together
    the blocks hold the same rows, whatever `block_rows` is. Memory is that of one block, besides a
    page of each column (Parquet) or one row of chunks (Zarr).

    Parameters
    ----------
    table
        From `open_table`.
    start, stop
        Storage rows, 0 <= start <= stop <= ``table.n_rows``.
    block_rows
        Storage rows in a block, at least 1.
    with_ids, with_labels
        Whether to read these columns too.

    Raises
    ------
    ValueError
        A range or `block_rows` out of bounds.
    DataError
        The data is damaged, may not be read, or changed since the table was opened.
    TemporaryError
        The store does not answer.

    """
    if not 0 <= start <= stop <= table.n_rows:
        raise ValueError(f"rows [{start}, {stop}) are not within the table's {table.n_rows} rows")
    if block_rows < 1:
        raise ValueError(f"block_rows must be at least 1, found {block_rows}")
    if table.format == "svmlight":
        return _svmlight_blocks(table, start, stop, block_rows, with_labels)
    condition = parse_where(table.where) if table.where is not None else None
    return _blocks(table, start, stop, block_rows, condition, with_ids, with_labels)


def fingerprint(table: Table) -> str:
    """Return a SHA-256 that changes when the table's data does.

    It covers the format, the feature columns, the extents, and of each file of the source its
    name relative to the input, size and ETag or modification time, where the file system tells.
    Errors as in `open_table`.
    """
    find = files.find_everything if table.format == "zarr" else files.find_files
    content = [table.format, table.columns, table.extents, find(table.source).versions()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _other_types(config: InputConfig, scan: Scan) -> str:
    """Serialise the types of the columns that are not features, checking `where` against them."""
    condition = parse_where(config.where) if config.where is not None else None
    names = [config.id, config.label, *(condition.columns if condition else ())]
    types = {name: scan.types[name] for name in names if name is not None}
    if condition is not None:
        condition.mask({name: pa.array([], types[name]) for name in condition.columns})
    return base64.b64encode(pa.schema(list(types.items())).serialize()).decode()


def sparse_rows(table: Table) -> Any:
    """Return all rows of svmlight text as CSR, or None for another table or some of its columns."""
    if table.format != "svmlight":
        return None
    path = Path(table.path)
    whole = table.columns == svmlight_tables.feature_names(path)
    return svmlight_tables.matrix(path) if whole else None


def _svmlight_blocks(
    table: Table, start: int, stop: int, block_rows: int, with_labels: bool
) -> Iterator[Block]:
    path = Path(table.path)
    for rows, X, labels in svmlight_tables.blocks(path, table.columns, start, stop, block_rows):
        yield Block(rows, X, None, pa.array(labels) if with_labels and table.label else None)


def _blocks(
    table: Table,
    start: int,
    stop: int,
    block_rows: int,
    condition: Condition | None,
    with_ids: bool,
    with_labels: bool,
) -> Iterator[Block]:
    id_name = table.id if with_ids else None
    label_name = table.label if with_labels else None
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(table.schema)))
    others = dict.fromkeys([id_name, label_name, *(condition.columns if condition else ())])
    types = {name: schema.field(name).type for name in others if name is not None}
    wanted = list(dict.fromkeys([*table.columns, *types]))
    row = start
    block: _Block | None = None
    for batch in _batches(table, start, stop, block_rows, wanted):
        n_rows = len(batch[wanted[0]])
        offset = 0
        while offset < n_rows:
            if block is None:
                block = _Block(table.columns, min(block_rows, stop - row), id_name, label_name)
            size = min(n_rows - offset, block.room)
            arrays = {name: array.slice(offset, size) for name, array in batch.items()}
            with files.reading(table.source):
                block.add(row, arrays, types, condition)
            offset += size
            row += size
            if not block.room:
                if block.n_rows:
                    yield block.done()
                block = None


def _batches(
    table: Table, start: int, stop: int, block_rows: int, columns: list[str]
) -> Iterator[dict[str, pa.Array]]:
    if table.format == "zarr":
        at_once = min(block_rows, _ZARR_ROWS)
        return zarr_tables.batches(table.path, columns, start, stop, table.n_rows, at_once)
    fs, _ = files.locate(table.path)
    at_once = min(max(block_rows, 1024), _PARQUET_ROWS)
    pieces = _pieces(table, start, stop)
    return parquet_tables.batches(fs, table.root, pieces, columns, at_once)


def _pieces(table: Table, start: int, stop: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield (file, first row, row after the last, rows) of each file that holds rows of a range."""
    extents = iter(table.extents)
    first = 0
    for name, units in zip(table.files, table.file_units, strict=True):
        n_rows = sum(itertools.islice(extents, units))
        begin, end = max(start - first, 0), min(stop - first, n_rows)
        if begin < end:
            yield name, begin, end, n_rows
        first += n_rows


class _Block:
    """A block in the making: features are put in place at once, so Arrow's copy stays small."""

    def __init__(
        self, columns: tuple[str, ...], room: int, id_name: str | None, label_name: str | None
    ) -> None:
        self.room = room
        self.n_rows = 0
        self.columns = columns
        self.X = np.empty((room, len(columns)))
        self.rows: list[np.ndarray] = []
        self.others: dict[str, list[pa.Array]] = {n: [] for n in (id_name, label_name) if n}
        self.names = (id_name, label_name)

    def add(
        self,
        row: int,
        arrays: dict[str, pa.Array],
        types: dict[str, pa.DataType],
        condition: Condition | None,
    ) -> None:
        """Add consecutive rows, the first of which is storage row `row`."""
        size = len(next(iter(arrays.values())))
        self.room -= size
        rows = np.arange(row, row + size, dtype=np.int64)
        arrays = {name: _plain(array) for name, array in arrays.items()}
        others = {name: arrays[name].cast(kind) for name, kind in types.items()}
        if condition is not None:
            mask = condition.mask(others)
            rows = rows[mask.to_numpy(zero_copy_only=False)]
            if len(rows) < size:
                arrays = {name: array.filter(mask) for name, array in arrays.items()}
                others = {name: array.filter(mask) for name, array in others.items()}
        _fill(self.X[self.n_rows : self.n_rows + len(rows)], [arrays[n] for n in self.columns])
        self.n_rows += len(rows)
        self.rows.append(rows)
        for name, chunks in self.others.items():
            chunks.append(others[name])

    def done(self) -> Block:
        """Return the block; what `where` left unused is given back."""
        X = self.X if self.n_rows == len(self.X) else self.X[: self.n_rows].copy()
        joined = {name: pa.concat_arrays(chunks) for name, chunks in self.others.items()}
        ids, labels = (joined[name] if name else None for name in self.names)
        return Block(np.concatenate(self.rows), X, ids, labels)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _fill(X: np.ndarray, arrays: Sequence[pa.Array]) -> None:
    """Write Arrow columns into a matrix, nulls as NaN."""
    columns = []
    for array in arrays:
        kind = array.type
        if array.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            array = array.cast(pa.float64(), safe=False)
        columns.append(array.to_numpy(zero_copy_only=False))
    # A tile of X stays in the cache while the columns are written into it one after another.
    for first in range(0, len(X), _TILE_ROWS):
        tile = X[first : first + _TILE_ROWS]
        for j, column in enumerate(columns):
            tile[:, j] = column[first : first + _TILE_ROWS]


def id_type(table: Table) -> pa.DataType:
    """Return the type of the id column, or of row numbers; a partition without rows shows none."""
    if table.id is None:
        return pa.int64()
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(table.schema)))
    return schema.field(table.id).type


def same_columns(table, names, columns):
    """Interim."""
    if table.format == "svmlight" and set(names) <= set(columns):
        return True  # the text does not say what its rows all lack
    return tuple(names) == tuple(columns)
