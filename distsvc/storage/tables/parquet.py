"""Parquet: row groups are the storage units, folders named ``key=value`` are columns."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError
from distsvc.job.config import InputConfig
from distsvc.storage.places.location import Location
from distsvc.storage.places.store import Store
from distsvc.storage.rows.blocks import Batches, Layout, Span, Table, stored_bytes
from distsvc.storage.rows.columns import PANDAS_INDEX, Scan, merge_schemas
from distsvc.storage.rows.versions import unchanged
from distsvc.storage.tables.files import Files, key_of
from distsvc.storage.tables.source import Source

# Rows decoded in one go: few enough to stay small beside a block, enough to hide the call's cost.
_FEWEST_ROWS, _MOST_ROWS = 1024, 65_536
_BUFFER_BYTES = 1 << 20
_LOCAL_BYTES = 1 << 16
"""Of a column that are read at a time; from a disk less, since asking costs nothing."""

FOOTER_THREADS = 16
_PAGES = 4
"""Pieces of the size of a page, at most a buffer, that are in memory for each column."""

_MAGIC = b"PAR1"
_PANDAS = b"pandas"
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class Piece(NamedTuple):
    """Some rows of a file: its number in the table, its name, and which of its `n_rows` rows."""

    number: int
    name: str
    depth: int
    start: int
    stop: int
    n_rows: int


@dataclass(frozen=True)
class Content:
    """The pieces of a file that are the table's.

    `names` are what the file calls the columns that it calls otherwise, `values` those of
    columns that are not in the file, or are not those of the table, `types` those of columns
    that it holds in another type, and `kept` (bool) which rows are the table's; all where it is
    None.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    kept: np.ndarray | None = None

    def column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        """Return a column of some rows of the file."""
        if name in self.values:
            return pa.repeat(self.values[name], len(batch))
        array = batch.column(self.names.get(name, name))
        kind = self.types.get(name)
        return array if kind is None else array.cast(kind, safe=not pa.types.is_temporal(kind))


class Parquet(Source):
    """Files named like Parquet, or without a name that says what they are."""

    name = "parquet"
    title = "Parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".parq", ".pq")

    def claim(self, found: Files) -> Files:
        """Return the files with the format's suffixes, and others of its content beside these."""
        named = found.named(self.suffixes)
        others = [name for name in found.infos if name not in named.infos] if named.infos else []
        return found.only({*named.infos, *(n for n in others if _is_parquet(found.folder.join(n)))})

    def scan(
        self, found: Files, config: InputConfig, staging: Store, categories: Collection[str] = ()
    ) -> Scan:
        """Read every file's footer."""
        # Waiting for a store, not computing, is what takes the time.
        with ThreadPoolExecutor(FOOTER_THREADS) as pool:
            footers = list(pool.map(footer, found.places))
        shown = [place.shown for place in found.places]
        types, problems = merge_schemas([schema for schema, _ in footers], shown)
        depths = tuple(found.above.get(name, 0) for name in found.names)
        keys = _partition_types(found.names, depths, shown)
        held, types = types, keys | types
        indexes = {name for schema, _ in footers for name in _pandas_index(schema)} & held.keys()
        return Scan(
            layout=Layout(
                path=found.location.address,
                format=Parquet.name,
                extents=tuple(rows for _, groups in footers for rows in groups),
                root=found.folder.path,
                files=found.names,
                file_units=tuple(len(groups) for _, groups in footers),
                file_depths=depths,
            ),
            types=types,
            shown={name: str(kind) for name, kind in types.items()},
            problems=problems,
            default=tuple(name for name in types if name not in indexes),
            keys=tuple(key for key in keys if key not in held),
            apart=dict.fromkeys(indexes, PANDAS_INDEX),
        )

    def decoding_bytes(self, table: Table, block_rows: int) -> int:
        """Return the bytes of the pages of all columns, and of the rows decoded in one go.

        Of each column there are a page as it is read, one unpacked, the dictionary, and its values.
        """
        widths = stored_bytes(table)
        pages = sum(min(_BUFFER_BYTES, width * max(table.layout.extents)) for width in widths)
        return _PAGES * pages + _at_once(block_rows) * sum(widths)

    def batches(self, table: Table, span: Span, columns: list[str]) -> Batches:
        """Yield the rows of a span, some thousands at a time."""
        folder = self.folder(table)
        at_once = _at_once(span.block_rows)
        for piece in _pieces(table, span.start, span.stop):
            place = folder.join(piece.name)
            recorded = table.versions.get(key_of(folder, place))
            with (
                unchanged(place, recorded),
                place.naming_errors(),
                place.open() as handle,
                _parquet(handle) as file,
            ):
                content = self.content(table, piece, file)
                kept = content.kept
                n_rows = file.metadata.num_rows if kept is None else int(kept.sum())
                if n_rows != piece.n_rows:
                    raise DataError(
                        f"{place.shown} has {n_rows} rows, {piece.n_rows} when the table was opened"
                    )
                wanted = [content.names.get(n, n) for n in columns if n not in content.values]
                for batch in _rows(file, piece.start, piece.stop, wanted, at_once, kept):
                    yield {name: content.column(name, batch) for name in columns}

    def content(self, table: Table, piece: Piece, file: pq.ParquetFile) -> Content:
        """Return what of a file is the table's: keys that its folders name are values."""
        keys = _partition_keys(piece.name, piece.depth)
        held = set(file.schema_arrow.names)
        return Content(
            values={k: pa.scalar(v, pa.string()) for k, v in keys.items() if k not in held}
        )


def _is_parquet(place: Location) -> bool:
    """Return whether a file begins like Parquet; not so one that can't be read."""
    if place.is_local and not os.path.isfile(place.path):
        return False  # a pipe would never answer
    with suppress(Exception), place.open() as handle:
        return bool(handle.read(len(_MAGIC)) == _MAGIC)
    return False


def _at_once(block_rows: int) -> int:
    return min(max(block_rows, _FEWEST_ROWS), _MOST_ROWS)


def _pieces(table: Table, start: int, stop: int) -> Iterator[Piece]:
    """Yield the pieces of files that hold a range of rows."""
    extents = iter(table.layout.extents)
    first = 0
    each = zip(table.layout.files, table.layout.file_units, table.layout.file_depths, strict=True)
    for number, (name, units, depth) in enumerate(each):
        n_rows = sum(itertools.islice(extents, units))
        begin, end = max(start - first, 0), min(stop - first, n_rows)
        if begin < end:
            yield Piece(number, name, depth, begin, end, n_rows)
        first += n_rows


def _rows(
    file: pq.ParquetFile,
    start: int,
    stop: int,
    columns: list[str],
    at_once: int,
    kept: np.ndarray | None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows [start, stop) of those of a file that are kept."""
    metadata = file.metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    units = live_rows(sizes, kept)
    borders = list(itertools.accumulate(units, initial=0))
    groups = [i for i in range(len(units)) if borders[i] < stop and borders[i + 1] > start]
    skip, wanted = start - borders[groups[0]], stop - start
    mask = None if kept is None else _of_groups(kept, sizes, groups)
    seen = 0
    for batch in file.iter_batches(
        batch_size=at_once, row_groups=groups, columns=columns, use_threads=False
    ):
        n_rows = batch.num_rows
        if mask is not None:
            batch = batch.filter(pa.array(mask[seen : seen + n_rows]))
        seen += n_rows
        piece = batch.slice(min(skip, batch.num_rows), wanted)
        skip -= min(skip, batch.num_rows)
        wanted -= piece.num_rows
        if piece.num_rows:
            yield piece
        if not wanted:
            return
    raise pa.ArrowInvalid(f"row groups end {wanted} rows early")


def live_rows(sizes: list[int], kept: np.ndarray | None) -> list[int]:
    """Return how many rows of each row group are kept."""
    if kept is None:
        return sizes
    edges = np.concatenate([[0], np.cumsum(kept)])[np.cumsum([0, *sizes])]
    return [int(n) for n in np.diff(edges)]


def _of_groups(kept: np.ndarray, sizes: list[int], groups: list[int]) -> np.ndarray:
    """Return which rows of some row groups are kept."""
    borders = list(itertools.accumulate(sizes, initial=0))
    return np.concatenate([kept[borders[i] : borders[i + 1]] for i in groups])


def _parquet(handle: Any) -> pq.ParquetFile:
    # Without pre_buffer and with a small buffer the reader holds a page of each column, however
    # large the row group is.
    at_once = _LOCAL_BYTES if isinstance(handle, pa.OSFile) else _BUFFER_BYTES
    # INT96, which Spark and Hive write, reaches beyond the years of nanoseconds.
    return pq.ParquetFile(
        handle,
        pre_buffer=False,
        buffer_size=at_once,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def footer(place: Location) -> tuple[pa.Schema, list[int]]:
    """Return the schema of a file and the rows of its row groups, those without any left out."""
    with place.naming_errors(), place.open() as handle, _parquet(handle) as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        return _with_pandas_only(file.schema_arrow), [rows for rows in groups if rows]


def _with_pandas_only(schema: pa.Schema) -> pa.Schema:
    """Return a schema without metadata, but for what pandas writes of its index."""
    known = {key: value for key, value in (schema.metadata or {}).items() if key == _PANDAS}
    return schema.with_metadata(known or None)


def _pandas_index(schema: pa.Schema) -> set[str]:
    """Return the columns that were the index of a table of pandas, by the metadata of a file."""
    try:
        found = json.loads((schema.metadata or {}).get(_PANDAS, b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError):
        return set()
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _partition_keys(name: str, depth: int) -> dict[str, str | None]:
    """Return the keys that the folders of a file name, but for the first `depth` of them."""
    pairs = [folder.partition("=") for folder in name.split("/")[depth:-1] if "=" in folder]
    return {
        unquote(key): None if value == _HIVE_NULL else unquote(value) for key, _, value in pairs
    }


def _partition_types(
    names: tuple[str, ...], depths: tuple[int, ...], shown: list[str]
) -> dict[str, pa.DataType]:
    found = [_partition_keys(*one) for one in zip(names, depths, strict=True)]
    for keys, path in zip(found, shown, strict=True):
        if keys.keys() != found[0].keys():
            raise DataError(
                f"{path} lies in folders for {list(keys)}, "
                f"{shown[0]} in folders for {list(found[0])}"
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
