"""Tables of Parquet files.

A storage unit is a row group. Folders named ``key=value`` add a column "key" to their files.
"""

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError
from distsvc.job.config import InputConfig
from distsvc.storage.places.location import Location
from distsvc.storage.places.remote import REQUESTS_AT_ONCE
from distsvc.storage.places.store import Store
from distsvc.storage.rows.blocks import Batches, Layout, Span, Table, TableFile, stored_bytes
from distsvc.storage.rows.columns import PANDAS_INDEX, Scan, merge_schemas
from distsvc.storage.tables.files import Files
from distsvc.storage.tables.source import Source

_BUFFER_BYTES = 1 << 20
"""Size in bytes of the part of a column that is read at a time from a store."""

_PANDAS = b"pandas"
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class Piece(NamedTuple):
    """A range of rows of a file."""

    number: int  # position of the file among the table's files
    file: TableFile
    start: int
    stop: int
    n_rows: int  # number of all rows of the file


@dataclass(frozen=True)
class Content:
    """Instructions to convert the rows of a Parquet file to rows of its table."""

    names: Mapping[str, str] = field(default_factory=dict)  # a renamed column's name in the file
    # Constants for columns that the file lacks.
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)  # types of columns to convert
    kept: np.ndarray | None = None  # mask (n,) bool of rows not deleted; None if all are left

    def column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if name in self.values:
            return pa.repeat(self.values[name], len(batch))
        array = batch.column(self.names.get(name, name))
        kind = self.types.get(name)
        return array if kind is None else array.cast(kind, safe=not pa.types.is_temporal(kind))


class Parquet(Source):
    """Files named like Parquet, or without a suffix that names a format."""

    name = "parquet"
    title = "Parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".parq", ".pq")

    def claim(self, found: Files) -> Files:
        named = found.named(self.suffixes)
        others = [name for name in found.infos if name not in named.infos] if named.infos else []
        return found.only({*named.infos, *(n for n in others if _is_parquet(found.folder.join(n)))})

    def scan(self, found: Files, config: InputConfig, staging: Store, categories: Set[str]) -> Scan:
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            footers = list(pool.map(footer, found.places))
        shown = [place.shown for place in found.places]
        types, problems = merge_schemas([schema for schema, _ in footers], shown)
        each = [_partition_keys(name, found.above.get(name, 0)) for name in found.names]
        keys = _partition_types(each, shown)
        held, types = types, keys | types
        indexes = {name for schema, _ in footers for name in _pandas_index(schema)} & held.keys()
        files = [
            TableFile(name, len(groups), values={k: own[k] for k in own if k not in schema.names})
            for name, own, (schema, groups) in zip(found.names, each, footers, strict=True)
        ]
        return Scan(
            layout=Layout(
                path=found.location.address,
                format=Parquet.name,
                extents=tuple(rows for _, groups in footers for rows in groups),
                root=found.folder.path,
                files=tuple(files),
            ),
            types=types,
            problems=problems,
            default=tuple(name for name in types if name not in indexes),
            keys=tuple(key for key in keys if key not in held),
            apart=dict.fromkeys(indexes, PANDAS_INDEX),
        )

    def decoding_bytes(self, table: Table, block_rows: int) -> int:
        widths = stored_bytes(table)
        pages = sum(min(_BUFFER_BYTES, width * max(table.layout.extents)) for width in widths)
        # Each column has a packed page, an unpacked page, a dictionary and its values in memory.
        return 4 * pages + _at_once(block_rows) * sum(widths)

    def batches(self, table: Table, span: Span, columns: list[str]) -> Batches:
        folder = self.folder(table)
        at_once = _at_once(span.block_rows)
        for piece in _pieces(table, span.start, span.stop):
            place = folder.join(piece.file.name)
            with place.naming_errors(), place.open() as handle, _parquet(handle) as file:
                content = self.content(table, piece, file)
                kept = content.kept
                n_rows = file.metadata.num_rows if kept is None else int(kept.sum())
                if n_rows != piece.n_rows:
                    raise DataError(
                        f"{place.shown} has {n_rows} rows, {piece.n_rows} when the table was opened"
                    )
                wanted = [content.names.get(n, n) for n in columns if n not in content.values]
                for batch in _rows(file, piece, wanted, at_once, kept):
                    yield {name: content.column(name, batch) for name in columns}

    def content(self, table: Table, piece: Piece, file: pq.ParquetFile) -> Content:
        """Return the columns that a file provides, and constants for columns that it lacks."""
        lake, values = table.layout.lake, piece.file.values
        types = {one.name: one.type for one in lake.schema} if lake else {}
        constants = {n: scalar(v, types.get(n, pa.string())) for n, v in values.items()}
        return Content(piece.file.names, constants)


def scalar(value: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return a value from its text, or null."""
    return pa.array([value], pa.string()).cast(kind)[0]


def _is_parquet(place: Location) -> bool:
    if place.is_local and not os.path.isfile(place.path):
        return False  # a pipe would never answer
    with suppress(Exception), place.open() as handle:
        return bool(handle.read(4) == b"PAR1")
    return False


def _at_once(block_rows: int) -> int:
    # Few enough rows to be small beside a block, and enough to make the cost of a call negligible.
    return min(max(block_rows, 1024), 65_536)


def _pieces(table: Table, start: int, stop: int) -> Iterator[Piece]:
    """Yield the pieces of files that hold a range of rows."""
    extents = iter(table.layout.extents)
    first = 0
    for number, file in enumerate(table.layout.files):
        n_rows = sum(itertools.islice(extents, file.n_units))
        begin, end = max(start - first, 0), min(stop - first, n_rows)
        if begin < end:
            yield Piece(number, file, begin, end, n_rows)
        first += n_rows


def _rows(
    file: pq.ParquetFile, piece: Piece, columns: list[str], at_once: int, kept: np.ndarray | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece, whose `start` and `stop` are counted without deleted rows.

    `kept` is the mask of rows that are not deleted; None if all rows are left.
    """
    metadata = file.metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    units = live_rows(sizes, kept)
    borders = list(itertools.accumulate(units, initial=0))
    groups = [
        i for i in range(len(units)) if borders[i] < piece.stop and borders[i + 1] > piece.start
    ]
    skip, wanted = piece.start - borders[groups[0]], piece.stop - piece.start
    starts, mask = list(itertools.accumulate(sizes, initial=0)), None
    if kept is not None:
        mask = np.concatenate([kept[starts[i] : starts[i + 1]] for i in groups])
    seen = 0
    for batch in file.iter_batches(
        batch_size=at_once, row_groups=groups, columns=columns, use_threads=False
    ):
        n_rows = batch.num_rows
        if mask is not None:
            batch = batch.filter(pa.array(mask[seen : seen + n_rows]))
        seen += n_rows
        part = batch.slice(min(skip, batch.num_rows), wanted)
        skip -= min(skip, batch.num_rows)
        wanted -= part.num_rows
        if part.num_rows:
            yield part
        if not wanted:
            return
    raise pa.ArrowInvalid(f"row groups end {wanted} rows early")


def live_rows(sizes: list[int], kept: np.ndarray | None) -> list[int]:
    """Return the number of rows of each row group that are in the mask `kept`."""
    if kept is None:
        return sizes
    edges = np.concatenate([[0], np.cumsum(kept)])[np.cumsum([0, *sizes])]
    return [int(n) for n in np.diff(edges)]


def _parquet(handle: object) -> pq.ParquetFile:
    # Without pre_buffer and with a small buffer, the reader holds only a page of each column,
    # however large the row group is. Requests to a disk are cheap, so its buffer is smaller.
    at_once = 1 << 16 if isinstance(handle, pa.OSFile) else _BUFFER_BYTES
    # INT96, which Spark and Hive write, exceeds the range of timestamps in nanoseconds.
    return pq.ParquetFile(
        handle,
        pre_buffer=False,
        buffer_size=at_once,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def footer(place: Location) -> tuple[pa.Schema, list[int]]:
    """Return the schema of a file, and the number of rows of each row group that is not empty."""
    with place.naming_errors(), place.open() as handle, _parquet(handle) as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        schema = file.schema_arrow
        pandas = {key: text for key, text in (schema.metadata or {}).items() if key == _PANDAS}
        return schema.with_metadata(pandas or None), [rows for rows in groups if rows]


def _pandas_index(schema: pa.Schema) -> set[str]:
    """Return the columns that were the index of a pandas table, from the metadata of a file."""
    try:
        found = json.loads((schema.metadata or {}).get(_PANDAS, b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError):
        return set()
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _partition_keys(name: str, depth: int) -> dict[str, str | None]:
    """Return the partition keys in a file's folder names, after the first `depth` folders."""
    pairs = [folder.partition("=") for folder in name.split("/")[depth:-1] if "=" in folder]
    return {
        unquote(key): None if value == _HIVE_NULL else unquote(value) for key, _, value in pairs
    }


def _partition_types(
    found: list[dict[str, str | None]], shown: list[str]
) -> dict[str, pa.DataType]:
    for keys, path in zip(found, shown, strict=True):
        if keys.keys() != found[0].keys():
            raise DataError(
                f"{path} has the keys {list(keys)} in its folder names; "
                f"expected {list(found[0])}, as for {shown[0]}"
            )
    return {key: _narrowest([keys[key] for keys in found]) for key in (found or [{}])[0]}


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
