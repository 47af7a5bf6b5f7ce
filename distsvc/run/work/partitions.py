"""Cutting a table into parts, partitions and blocks: pure arithmetic on row numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

FEWEST = 64
"""Partitions that a table keeps, so that all workers have some, where small parts are joined."""

BLOCK_BYTES = 32 * 2**20
MAX_BLOCK_ROWS = 65_536


def plan_parts(extents: Sequence[int], partition_rows: int) -> list[tuple[int, int]]:
    """Return row ranges [start, stop) that cover a table in order, about `partition_rows` each.

    Borders fall between storage units (`extents`, the rows of each), several of which are joined
    while together they have at most `partition_rows` rows. A unit of more than twice that is cut
    evenly, at the price of decoding a part of it more than once.
    """
    parts: list[tuple[int, int]] = []
    start = stop = 0
    for rows in extents:
        if start < stop and stop + rows - start > partition_rows:
            parts.append((start, stop))
            start = stop
        stop += rows
        if rows > 2 * partition_rows:
            pieces = -(-rows // partition_rows)
            edges = [start + rows * i // pieces for i in range(pieces + 1)]
            parts.extend(itertools.pairwise(edges))
            start = stop
    if start < stop:
        parts.append((start, stop))
    return parts


def joined(parts: Sequence[tuple[int, int]], n_columns: int) -> list[tuple[int, int]]:
    """Return partitions, row ranges [start, stop): neighbouring parts that are small, joined.

    A partition of several parts has no more rows than a block, and no more than one of `FEWEST`
    equal partitions of the table would have.
    """
    if not parts:
        return []
    rows = min(choose_block_rows(n_columns), (parts[-1][1] - parts[0][0]) // FEWEST)
    partitions = [parts[0]]
    for start, stop in parts[1:]:
        first, _ = partitions[-1]
        if stop - first <= rows:
            partitions[-1] = first, stop
        else:
            partitions.append((start, stop))
    return partitions


def choose_block_rows(n_columns: int) -> int:
    """Return how many rows of float64 are read at a time: at most 32 MiB and 65,536 rows."""
    return max(1, min(MAX_BLOCK_ROWS, BLOCK_BYTES // (8 * n_columns)))
