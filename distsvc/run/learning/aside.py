"""Rows so far from all others that nothing is learned from them.

One value of 10^9 decides the scale of its column, the directions that models see rows along and
the width of their kernels. Rows like that are found after the survey, which is then taken again
without them. What is learned is what it would be if the table did not have them. They are labelled
like any other row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from distsvc.models.rows import sampling
from distsvc.models.rows.aside import (
    MIN_OUTLIER_RANGES,
    ColumnEnds,
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


class RowAside(NamedTuple):
    """The distance of a row, its number, the column where it is so far, and its value there."""

    distance: float
    row: int
    column: int
    value: float


def far_rows(
    steps: Steps, sums: ColumnSums, pilot: np.ndarray, ends: ColumnEnds | None, found_by: Phase
) -> list[RowAside]:
    """Return the rows that nothing should be learned from, by their numbers.

    They lie far outside the `Reach` of pilot rows (m, d) in some column, and are few. The `ends` of
    the columns tell which they are. Without them, those partitions are read again that reach out by
    the results of the phase `found_by`.
    """
    reach, most = Reach.of(pilot), most_aside(len(pilot))
    if not _reaches_out(reach, sums.least, sums.most):
        return []
    if ends is not None:
        rows = [RowAside(*row) for row in ends.farthest(reach)]
    else:
        facts = {"most": most, "phase": found_by.name}
        steps.run.write(REACH, Result(facts, vars(reach)))
        rows = [RowAside(*row) for result in steps.map(FAR) for row in result.facts["rows"]]
    rows = _farthest(rows, most + 1)
    rows = rows[: how_many_aside(np.array([far.distance for far in rows]), most)]
    return sorted(rows, key=lambda far: far.row)


def set_aside(run: RunDirectory, rows: Sequence[RowAside]) -> None:
    """Keep which rows nothing is learned from, for all tasks."""
    run.write(ASIDE, Result({"rows": [far.row for far in rows]}))


def rows_aside(run: RunDirectory) -> np.ndarray:
    """Return the numbers (m,) int64, ascending, of the rows that nothing is learned from."""
    return np.array(run.read(ASIDE).facts["rows"] if run.has(ASIDE) else [], np.int64)


def learned_blocks(
    run: RunDirectory, number: int, aside: np.ndarray | None = None
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks of a partition that is learned from, with the keys (n,) uint64 of the rows.

    The keys are those of a table without the rows `aside` (m,) int64, which are the run's where
    none are given.
    """
    aside = rows_aside(run) if aside is None else aside
    for block in run.plan.blocks(number):
        if aside.size:
            block = select_rows(block, ~np.isin(block.rows, aside))
        numbers = block.rows - np.searchsorted(aside, block.rows)
        yield block, sampling.row_keys(run.plan.seed, numbers)


def numbers_of(run: RunDirectory, keys: np.ndarray) -> np.ndarray:
    """Return the numbers (n,) int64 in the table of rows with the keys (n,) of `learned_blocks`."""
    numbers = sampling.rows_of(run.plan.seed, keys)
    for row in rows_aside(run):
        numbers += numbers >= row
    return numbers


def find_far_rows(run: RunDirectory, number: int) -> Result:
    """Return a partition's rows that lie far out, one more of them at most than may be."""
    found = run.read(REACH)
    reach, most = Reach(**found.arrays), found.facts["most"] + 1
    reached = run.load(f"{found.facts['phase']}/{number:05d}").arrays
    if not _reaches_out(reach, reached["least"], reached["most"]):
        return Result({"rows": []})
    rows: list[RowAside] = []
    for block in run.plan.blocks(number):
        distances = reach.distances(block.X)
        columns = distances.argmax(axis=1)
        farthest = distances[np.arange(len(columns)), columns]
        for place in np.argsort(-farthest, kind="stable")[:most].tolist():
            if farthest[place] > MIN_OUTLIER_RANGES:
                column = int(columns[place])
                value = float(block.X[place, column])
                rows.append(RowAside(float(farthest[place]), int(block.rows[place]), column, value))
    rows = _farthest(rows, most)
    return Result({"rows": rows})


FAR = Phase("far-rows", find_far_rows)


def _reaches_out(reach: Reach, least: np.ndarray, most: np.ndarray) -> bool:
    """Return whether a table with these ends of its columns (d,) has rows that lie far out."""
    return bool((reach.distances(np.stack([least, most])) > MIN_OUTLIER_RANGES).any())


def _farthest(rows: list[RowAside], most: int) -> list[RowAside]:
    """Return the rows that lie farthest, the farthest first."""
    return sorted(rows, key=lambda far: (-far.distance, far.row))[:most]
