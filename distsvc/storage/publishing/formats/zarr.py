"""Zarr labels: a group with an array for each column, made from the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError, JobFileError, one_line
from distsvc.errors.forms import Form, parsed
from distsvc.storage.places.arrays import described, read_json, write_whole
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats.columns import (
    PUBLISHED_COLUMNS,
    ParquetLabels,
    published_columns,
)

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer

CHUNK_ROWS = 1_048_576
GROUP_METADATA = "zarr.json"


class GroupAttributes(Form):
    """The attributes of a published group: the name of its id."""

    id: str


class Group(Form):
    """The used metadata of a published group."""

    attributes: GroupAttributes


class ZarrLabels(ParquetLabels):
    """Arrays in chunks of about a million rows, one task for each chunk.

    The id's array is named ``row``; the attribute ``id`` of the group has the id's own name. Chunks
    of fill values are stored, too: with Zarr's defaults they would not exist.
    """

    name = "zarr"
    publishes_parts = False

    def check(self, id_name: str, id_type: pa.DataType, names: Sequence[str]) -> None:
        for column in published_columns(names):
            if column.fill is None:
                raise JobFileError(
                    f"output.{column.key} needs output.format = 'parquet', found 'zarr'"
                )
        if not pa.types.is_integer(id_type):
            raise DataError(
                f"output.format 'zarr' needs whole numbers as ids; column {id_name!r} is {id_type}"
            )

    def begin(self, store: Store, source: Store, parts: Sequence[tuple[str, int]]) -> int:
        n_rows = sum(rows for _, rows in parts)
        _, files = _created(pq.read_schema(source.local(parts[0][0])), n_rows)
        for name in sorted(files, key=lambda name: name == GROUP_METADATA):  # which comes last
            _put(store, name, files[name])
        return -(-n_rows // CHUNK_ROWS)

    def fill(
        self, store: Store, source: Store, parts: Sequence[tuple[str, int]], number: int
    ) -> dict[str, dict[str, int | str]]:
        start = number * CHUNK_ROWS
        n_rows = sum(rows for _, rows in parts)
        stop = min(start + CHUNK_ROWS, n_rows)
        table = _read_rows(source, parts, start, stop)
        arrays, files = _created(table.schema, n_rows)
        metadata = set(files)
        for array, column in zip(arrays, table.columns, strict=True):
            array[start:stop] = column.combine_chunks().to_numpy(zero_copy_only=False)
        return {name: _put(store, name, files[name]) for name in sorted(files.keys() - metadata)}

    def owns(self, files: Sequence[str]) -> bool:
        return any(name.endswith(f"/{GROUP_METADATA}") for name in files)

    def read(
        self, files: Sequence[str], local: Callable[[str], Path], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        root = min((name for name in files if name.endswith(f"/{GROUP_METADATA}")), key=len)
        root = root.removesuffix(GROUP_METADATA)
        group = parsed(Group, read_json(local(root + GROUP_METADATA)), root + GROUP_METADATA)
        arrays = {}
        for column in columns:
            name = PUBLISHED_COLUMNS[0].name if column == group.attributes.id else column
            arrays[column] = _opened(root + name, files, local)
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) > 1:
            raise DataError(f"{root}: expected arrays of one length, found {sorted(shapes)}")
        for (n_rows,) in shapes:
            for start in range(0, n_rows, CHUNK_ROWS):
                yield _chunk(arrays, root, slice(start, min(start + CHUNK_ROWS, n_rows)))


def _opened(folder: str, files: Sequence[str], local: Callable[[str], Path]) -> Any:
    """Return the array of a folder, read from the listed files only."""
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    buffer = default_buffer_prototype().buffer
    own = [name for name in files if name.startswith(f"{folder}/")]
    held = {n.removeprefix(f"{folder}/"): buffer.from_bytes(local(n).read_bytes()) for n in own}
    try:
        array = zarr.open_array(MemoryStore(held), mode="r")
    except Exception as error:  # whatever the metadata leads to
        raise DataError(f"{folder} can't be read: {one_line(str(error))}") from error
    n_chunks = len(own) - 1
    if array.ndim != 1 or array.nchunks != n_chunks:  # what is not listed would be fill values
        raise DataError(
            f"{folder}: expected {array.nchunks:,} chunks of an array of one dimension, found "
            f"{n_chunks:,} of {array.ndim}"
        )
    return array


def _chunk(arrays: Mapping[str, Any], root: str, rows: slice) -> pa.Table:
    """Return rows of the arrays in the folder `root`."""
    try:
        return pa.table({name: array[rows] for name, array in arrays.items()})
    except Exception as error:  # whatever the metadata leads to
        raise DataError(f"{root} can't be read: {one_line(str(error))}") from error


def _created(schema: pa.Schema, n_rows: int) -> tuple[list[Any], dict[str, Buffer]]:
    """Return the arrays of a run, a group in memory, and the group's files by name."""
    import zarr  # 0.4 s that other jobs need not spend
    from zarr.storage import MemoryStore

    files: dict[str, Buffer] = {}
    group = zarr.create_group(MemoryStore(files), attributes={"id": schema.names[0]})
    arrays = [
        group.create_array(
            column.name,
            shape=(n_rows,),
            chunks=(min(CHUNK_ROWS, n_rows),),
            dtype=column.type.to_pandas_dtype(),
            fill_value=column.fill,
            config={"write_empty_chunks": True},  # which is not in the metadata
        )
        for column in (PUBLISHED_COLUMNS[0], *published_columns(schema.names[1:]))
    ]
    return arrays, files


def _put(store: Store, name: str, content: Buffer) -> dict[str, int | str]:
    """Write a file, and return its `described` facts."""
    with store.created(name, again=False) as path:
        write_whole(path, lambda stream: stream.write(content.to_bytes()))
        return described(path)


def _read_rows(source: Store, parts: Sequence[tuple[str, int]], start: int, stop: int) -> pa.Table:
    tables, first = [], 0
    for name, rows in parts:
        begin, end = max(start - first, 0), min(stop - first, rows)
        if begin < end:
            tables.append(pq.read_table(source.local(name)).slice(begin, end - begin))
        first += rows
    return pa.concat_tables(tables)
