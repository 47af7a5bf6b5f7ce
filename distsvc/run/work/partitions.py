"""Cutting a table into partitions and blocks: pure arithmetic on row numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

BLOCK_BYTES = 32 * 2**20
MAX_BLOCK_ROWS = 65_536


def plan_partitions(extents: Sequence[int], partition_rows: int) -> list[tuple[int, int]]:
    """Return row ranges [start, stop) that cover a table in order, about `partition_rows` each.

    Borders fall between storage units (`extents`, the rows of each), several of which are joined
    while together they have at most `partition_rows` rows. A unit of more than twice that is cut
    evenly, at the price of decoding a part of it more than once.
    """
    partitions: list[tuple[int, int]] = []
    start = stop = 0
    for rows in extents:
        if start < stop and stop + rows - start > partition_rows:
            partitions.append((start, stop))
            start = stop
        stop += rows
        if rows > 2 * partition_rows:
            pieces = -(-rows // partition_rows)
            edges = [start + rows * i // pieces for i in range(pieces + 1)]
            partitions.extend(itertools.pairwise(edges))
            start = stop
    if start < stop:
        partitions.append((start, stop))
    return partitions


def choose_block_rows(n_columns: int) -> int:
    """Return how many rows of float64 are read at a time: at most 32 MiB and 65,536 rows."""
    return max(1, min(MAX_BLOCK_ROWS, BLOCK_BYTES // (8 * n_columns)))
