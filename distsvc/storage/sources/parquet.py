"""Parquet: row groups are the storage units, folders named ``key=value`` are columns."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.config import InputConfig
from distsvc.errors import DataError
from distsvc.storage.blocks import Batches, Block, Span, Table, arrow_blocks, stored_bytes
from distsvc.storage.columns import Scan, merge_schemas
from distsvc.storage.files import Files, key_of
from distsvc.storage.location import Location
from distsvc.storage.place import Place
from distsvc.storage.source import Source
from distsvc.storage.versions import unchanged

# Rows decoded in one go: few enough to stay small beside a block, enough to hide the call's cost.
_FEWEST_ROWS, _MOST_ROWS = 1024, 65_536
_BUFFER_BYTES = 1 << 20
_FOOTER_THREADS = 16
_PAGES = 4
"""Pieces of the size of a page, at most a buffer, that are in memory for each column."""

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class Parquet(Source):
    """Files named like Parquet, or without a name that says what they are."""

    name = "parquet"
    title = "Parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".parq", ".pq")

    def scan(
        self, found: Files, config: InputConfig, staging: Place, categories: Collection[str] = ()
    ) -> Scan:
        """Read every file's footer.

        Raises
        ------
        DataError
            A file is not Parquet, is damaged or may not be read, or its folders name other keys
            than those of the first file.

        """
        # Waiting for a store, not computing, is what takes the time.
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            footers = list(pool.map(_footer, found.places))
        shown = [place.shown for place in found.places]
        types, problems = merge_schemas([schema for schema, _ in footers], shown)
        depths = tuple(found.above.get(name, 0) for name in found.names)
        types = _partition_types(found.names, depths, shown) | types
        return Scan(
            format=Parquet.name,
            path=found.location.address,
            types=types,
            shown={name: str(kind) for name, kind in types.items()},
            problems=problems,
            default=tuple(types),
            extents=tuple(rows for _, groups in footers for rows in groups),
            root=found.folder.path,
            files=found.names,
            file_units=tuple(len(groups) for _, groups in footers),
            file_depths=depths,
        )

    def blocks(self, table: Table, span: Span) -> Iterator[Block]:
        """Yield blocks; a worker opens only the files that hold its rows."""
        return arrow_blocks(table, span, lambda columns: self.batches(table, span, columns))

    def decoding_bytes(self, table: Table, block_rows: int) -> int:
        """Return the bytes of the pages of all columns, and of the rows decoded in one go.

        Of each column there are a page as it is read, one unpacked, the dictionary, and its values.
        """
        widths = stored_bytes(table)
        pages = sum(min(_BUFFER_BYTES, width * max(table.extents)) for width in widths)
        return _PAGES * pages + _at_once(block_rows) * sum(widths)

    def batches(self, table: Table, span: Span, columns: list[str]) -> Batches:
        """Yield the rows of a span, some thousands at a time.

        Raises
        ------
        DataError
            A file is damaged, may not be read, or changed since the table was opened.

        """
        folder = Location.of(table.path).at(table.root)
        at_once = _at_once(span.block_rows)
        for name, depth, start, stop, n_rows in _pieces(table, span.start, span.stop):
            place = folder.join(name)
            keys = _partition_keys(name, depth)
            recorded = table.versions.get(key_of(folder, place))
            with (
                unchanged(place, recorded),
                place.reading(),
                place.open() as handle,
                _parquet(handle) as file,
            ):
                if file.metadata.num_rows != n_rows:
                    raise DataError(
                        f"{place.shown} has {file.metadata.num_rows} rows, "
                        f"{n_rows} when the table was opened"
                    )
                for batch in _rows(file, start, stop, columns, at_once):
                    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
                    for key, value in keys.items():
                        arrays.setdefault(key, pa.repeat(pa.scalar(value, pa.string()), len(batch)))
                    yield {column: arrays[column] for column in columns}


def _at_once(block_rows: int) -> int:
    return min(max(block_rows, _FEWEST_ROWS), _MOST_ROWS)


def _pieces(table: Table, start: int, stop: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield (file, depth, first row, row after the last, rows) of files with rows of a range."""
    extents = iter(table.extents)
    first = 0
    each = zip(table.files, table.file_units, table.file_depths, strict=True)
    for name, units, depth in each:
        n_rows = sum(itertools.islice(extents, units))
        begin, end = max(start - first, 0), min(stop - first, n_rows)
        if begin < end:
            yield name, depth, begin, end, n_rows
        first += n_rows


def _rows(
    file: pq.ParquetFile, start: int, stop: int, columns: list[str], at_once: int
) -> Iterator[pa.RecordBatch]:
    metadata = file.metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    borders = list(itertools.accumulate(sizes, initial=0))
    groups = [i for i in range(len(sizes)) if borders[i] < stop and borders[i + 1] > start]
    skip = start - borders[groups[0]]
    wanted = stop - start
    held = set(file.schema_arrow.names)
    for batch in file.iter_batches(
        batch_size=at_once,
        row_groups=groups,
        columns=[name for name in columns if name in held],
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


def _footer(place: Location) -> tuple[pa.Schema, list[int]]:
    with place.reading(), place.open() as handle, _parquet(handle) as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        return file.schema_arrow.remove_metadata(), [rows for rows in groups if rows]


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
