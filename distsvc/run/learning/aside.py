"""Extreme rows, which are left out of learning and labelled like any other row.

A single value of 10^9 would decide the scale of its column and the bandwidth of kernels. Such rows
are found after the survey, which is then repeated without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from distsvc.models.rows import sampling
from distsvc.models.rows.aside import (
    MIN_OUTLIER_RANGES,
    Reach,
    how_many_aside,
    most_aside,
)
from distsvc.models.rows.scaling import ColumnSums
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.usable import select_rows

ASIDE, REACH = "aside", "reach"


class OutlierRow(NamedTuple):
    """An extreme row, with its most extreme column and the value there."""

    distance: float
    row: int
    column: int
    value: float


def far_rows(
    steps: Steps, sums: ColumnSums, pilot: np.ndarray, found_by: Phase
) -> list[OutlierRow]:
    """Return the rows to leave out of learning, ordered by their numbers.

    They are few, and far outside the `Reach` of the pilot (m, d) in some column. The partitions
    whose results of the phase `found_by` contain extreme values are read again.
    """
    reach, most = Reach.of(pilot), most_aside(len(pilot))
    if not _reaches_out(reach, sums.least, sums.most):
        return []
    steps.run.write(REACH, Result({"most": most, "phase": found_by.name}, vars(reach)))
    rows = [OutlierRow(*row) for result in steps.map(FIND_FAR_ROWS) for row in result.facts["rows"]]
    rows = _farthest(rows, most + 1)
    rows = rows[: how_many_aside(np.array([far.distance for far in rows]), most)]
    return sorted(rows, key=lambda far: far.row)


def set_aside(run: RunDirectory, rows: Sequence[OutlierRow]) -> None:
    """Write the numbers of the rows to leave out of learning, for all tasks."""
    run.write(ASIDE, Result({"rows": [far.row for far in rows]}))


def rows_aside(run: RunDirectory) -> np.ndarray:
    """Return the numbers (m,) int64, ascending, of the rows left out of learning."""
    return np.array(run.read(ASIDE).facts["rows"] if run.has(ASIDE) else [], np.int64)


def learned_blocks(
    run: RunDirectory, number: int, aside: np.ndarray | None = None
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks of a partition without the rows `aside` (m,) int64, and keys (n,) uint64.

    Keys are computed as if the table never had these rows. The default of `aside` is read from
    the run.
    """
    aside = rows_aside(run) if aside is None else aside
    for block in run.plan.blocks(number):
        if aside.size:
            block = select_rows(block, ~np.isin(block.rows, aside))
        numbers = block.rows - np.searchsorted(aside, block.rows)
        yield block, sampling.row_keys(run.plan.seed, numbers)


def numbers_of(run: RunDirectory, keys: np.ndarray) -> np.ndarray:
    """Return the row numbers (n,) int64 in the table for keys (n,) of `learned_blocks`."""
    numbers = sampling.rows_of(run.plan.seed, keys)
    for row in rows_aside(run):
        numbers += numbers >= row
    return numbers


def find_far_rows(run: RunDirectory, number: int) -> Result:
    """Return the extreme rows of a partition: at most one more than may be left out."""
    found = run.read(REACH)
    reach, most = Reach(**found.arrays), found.facts["most"] + 1
    reached = run.load(f"{found.facts['phase']}/{number:05d}").arrays
    if not _reaches_out(reach, reached["least"], reached["most"]):
        return Result({"rows": []})
    rows: list[OutlierRow] = []
    for block in run.plan.blocks(number):
        distances = reach.distances(block.X)
        columns = distances.argmax(axis=1)
        farthest = distances[np.arange(len(columns)), columns]
        for place in np.argsort(-farthest, kind="stable")[:most].tolist():
            if farthest[place] > MIN_OUTLIER_RANGES:
                column = int(columns[place])
                value = float(block.X[place, column])
                rows.append(
                    OutlierRow(float(farthest[place]), int(block.rows[place]), column, value)
                )
    rows = _farthest(rows, most)
    return Result({"rows": rows})


FIND_FAR_ROWS = Phase("far-rows", find_far_rows)


def _reaches_out(reach: Reach, least: np.ndarray, most: np.ndarray) -> bool:
    """Return True if columns with these least and most values (d,) have extreme rows."""
    return bool((reach.distances(np.stack([least, most])) > MIN_OUTLIER_RANGES).any())


def _farthest(rows: list[OutlierRow], most: int) -> list[OutlierRow]:
    """Return the farthest rows, the farthest first."""
    return sorted(rows, key=lambda far: (-far.distance, far.row))[:most]
