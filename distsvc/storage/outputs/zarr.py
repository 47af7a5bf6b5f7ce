"""Zarr: a group with an array for each column, made from the parts."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError, JobFileError
from distsvc.storage.arrays import writing
from distsvc.storage.output_format import OutputFormat
from distsvc.storage.published import COLUMNS, published_columns

CHUNK_ROWS = 1_048_576
_OPENING = threading.Lock()


class Zarr(OutputFormat):
    """Arrays in chunks of about a million rows, one task for each chunk.

    The id's array is named ``row``; the attribute ``id`` of the group has the id's own name. Fill
    values are ones that no row takes, and chunks that hold nothing else are stored too: with Zarr's
    defaults a chunk of fill values would not exist.
    """

    name = "zarr"
    publishes_parts = False

    def check(self, id_name: str, id_type: pa.DataType, names: Sequence[str]) -> None:
        """Check that ids are whole numbers, and that every column has a fill value."""
        for column in published_columns(names):
            if column.fill is None:
                raise JobFileError(
                    f"output.{column.name} needs output.format = 'parquet', found 'zarr'"
                )
        if not pa.types.is_integer(id_type):
            raise DataError(
                f"output.format 'zarr' needs whole numbers as ids; column {id_name!r} is {id_type}"
            )

    def begin(self, folder: Path, source: Path, parts: Sequence[tuple[str, int]]) -> int:
        """Create the arrays, unless they are there, and return their number of chunks."""
        n_rows = sum(rows for _, rows in parts)
        if not (folder / "zarr.json").exists():
            new = source / f"zarr-{secrets.token_hex(4)}"
            with writing(folder):
                _create(new, pq.read_schema(source / parts[0][0]), n_rows)
                new.rename(folder)  # all at once
        return -(-n_rows // CHUNK_ROWS)

    def fill(
        self, folder: Path, source: Path, parts: Sequence[tuple[str, int]], number: int
    ) -> None:
        """Fill one chunk of every array from the parts that hold its rows."""
        import zarr

        start = number * CHUNK_ROWS
        stop = min(start + CHUNK_ROWS, sum(rows for _, rows in parts))
        table = _read_rows(source, parts, start, stop)
        names = [COLUMNS[0].name, *table.column_names[1:]]
        with _OPENING, zarr.config.set({"array.write_empty_chunks": True}):  # not in the metadata
            group = zarr.open_group(folder, mode="r+")
            arrays = [group[name] for name in names]
        for array, column in zip(arrays, table.columns, strict=True):
            with writing(folder / array.basename):
                array[start:stop] = column.combine_chunks().to_numpy(zero_copy_only=False)


def _create(new: Path, schema: pa.Schema, n_rows: int) -> None:
    import zarr  # 0.4 s that other jobs need not spend

    with writing(new):
        group = zarr.create_group(new, overwrite=False, attributes={"id": schema.names[0]})
        for column in (COLUMNS[0], *published_columns(schema.names[1:])):
            group.create_array(
                column.name,
                shape=(n_rows,),
                chunks=(min(CHUNK_ROWS, n_rows),),
                dtype=column.type.to_pandas_dtype(),
                fill_value=column.fill,
            )


def _read_rows(source: Path, parts: Sequence[tuple[str, int]], start: int, stop: int) -> pa.Table:
    tables, first = [], 0
    for name, rows in parts:
        begin, end = max(start - first, 0), min(stop - first, rows)
        if begin < end:
            tables.append(pq.read_table(source / name).slice(begin, end - begin))
        first += rows
    return pa.concat_tables(tables)
