"""Tables that are read in row ranges, whatever their format.

A table is opened once, on the driver. What `open_table` returns is small and goes to the workers as
JSON; each of them reads its own rows with `read_blocks` and opens only the files that hold them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from distsvc.config import InputConfig
from distsvc.errors import DataError
from distsvc.storage.blocks import Block, Span, Table
from distsvc.storage.columns import Scan, choose_features, other_columns
from distsvc.storage.files import find_files
from distsvc.storage.location import Location
from distsvc.storage.sources import find_source, source_named
from distsvc.storage.where import Condition, parse_where

__all__ = [
    "Block",
    "Table",
    "fingerprint",
    "id_type",
    "open_table",
    "read_blocks",
    "sparse_rows",
    "states_width",
]


def open_table(config: InputConfig, staging: Path) -> Table:
    """Find a table, read its metadata and choose its features.

    `sources.find_source` says whose format a path is, `files.find_files` which files belong to it,
    and `columns.choose_features` which columns become features.

    Parameters
    ----------
    config
        The ``[input]`` section.
    staging
        Where formats that have no row ranges are converted; a folder that the workers see too.

    Raises
    ------
    InputNotFoundError
        There is nothing at the path.
    DataError
        The table is empty or damaged, its files differ, or a column is missing or not numeric.
    JobFileError
        ``where`` can't be parsed, the protocol of the path is unknown, or the format can't have
        what the job asks for.
    OutputPermissionError, TemporaryError
        The table can't be staged; the store does not answer.

    """
    condition = parse_where(config.where) if config.where is not None else None
    location = Location.of(config.path)
    source, found = find_source(location)
    scan = source.scan(found, config, staging)
    if not sum(scan.extents):
        raise DataError(f"{location.shown} has no rows")
    return Table(
        path=scan.path,
        format=scan.format,
        columns=choose_features(config, scan),
        id=config.id,
        label=config.label,
        where=config.where,
        extents=scan.extents,
        source=location.address,
        root=scan.root,
        files=scan.files,
        file_units=scan.file_units,
        schema=_other_types(config, scan, condition),
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
    the blocks hold the same rows, whatever `block_rows` is. Memory is that of one block, besides
    what the format decodes in one go.

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
    span = Span(start, stop, block_rows, with_ids, with_labels)
    return source_named(table.format).blocks(table, span)


def fingerprint(table: Table) -> str:
    """Return a SHA-256 that changes when the table's data does.

    It covers the format, the feature columns, the extents, and of each file of the source its
    name relative to the input, size and ETag or modification time, where the file system tells.
    Errors as in `open_table`.
    """
    location = Location.of(table.source)
    _, found = find_source(location)
    files = found if found.infos else find_files(location, hidden=True)
    content = [table.format, table.columns, table.extents, files.versions()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def sparse_rows(table: Table) -> Any:
    """Return all rows as CSR of float64 (n, d), or None for a table that is not kept so."""
    return source_named(table.format).sparse_rows(table)


def states_width(table: Table) -> bool:
    """Return whether the data says which columns a table has; if not, others are there, and 0."""
    return source_named(table.format).states_width


def id_type(table: Table) -> pa.DataType:
    """Return the type of a row's id: that of the id column, or int64 for the row's number."""
    return pa.int64() if table.id is None else table.type_of(table.id)


def _other_types(config: InputConfig, scan: Scan, condition: Condition | None) -> str:
    """Serialise the types of the columns that are not features, checking `where` against them."""
    types = {name: scan.types[name] for name in other_columns(config)}
    if condition is not None:
        condition.mask({name: pa.array([], types[name]) for name in condition.columns})
    return base64.b64encode(pa.schema(list(types.items())).serialize()).decode()
