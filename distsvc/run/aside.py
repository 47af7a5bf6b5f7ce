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

from distsvc.models import sampling
from distsvc.models.aside import fences, most_aside
from distsvc.models.scaling import ColumnSums
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.phases import Phase, Steps
from distsvc.run.usable import chosen
from distsvc.storage.tables import Block

ASIDE, FENCES = "aside", "fences"


class FarRow(NamedTuple):
    """A row's number, a column in which it lies far from all others, and its value there."""

    row: int
    column: int
    value: float


def far_rows(steps: Steps, sums: ColumnSums, pilot: np.ndarray, found_by: Phase) -> list[FarRow]:
    """Return the rows that nothing should be learned from, by their numbers.

    They have a value beyond the `fences` that pilot rows (m, d) put around its column. They are
    few, or none: more are part of what the table is. Read again are the partitions whose ends,
    in the results of the phase `found_by`, lie beyond a fence.
    """
    low, high = fences(pilot)
    if (sums.least >= low).all() and (sums.most <= high).all():
        return []
    most = most_aside(len(pilot))
    facts = {"most": most, "phase": found_by.name}
    steps.run.write(FENCES, Result(facts, {"low": low, "high": high}))
    rows = [FarRow(*row) for result in steps.map(FAR) for row in result.facts["rows"]]
    return rows if len(rows) <= most else []


def set_aside(run: RunDirectory, rows: Sequence[FarRow]) -> None:
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
            block = chosen(block, ~np.isin(block.rows, aside))
        numbers = block.rows - np.searchsorted(aside, block.rows)
        yield block, sampling.row_keys(run.plan.seed, numbers)


def numbers_of(run: RunDirectory, keys: np.ndarray) -> np.ndarray:
    """Return the numbers (n,) int64 in the table of rows with the keys (n,) of `learned_blocks`."""
    numbers = sampling.rows_of(run.plan.seed, keys)
    for row in rows_aside(run):
        numbers += numbers >= row
    return numbers


def find_far_rows(run: RunDirectory, number: int) -> Result:
    """Return a partition's rows beyond the fences, by their numbers; all, or too many."""
    found = run.read(FENCES)
    low, high = found.arrays["low"], found.arrays["high"]
    ends = run.load(f"{found.facts['phase']}/{number:05d}").arrays
    if (ends["least"] >= low).all() and (ends["most"] <= high).all():
        return Result({"rows": []})
    rows: list[FarRow] = []
    for block in run.plan.blocks(number):
        beyond = (low > block.X) | (high < block.X)
        for place in np.flatnonzero(beyond.any(axis=1)).tolist():
            column = int(beyond[place].argmax())
            rows.append(FarRow(int(block.rows[place]), column, float(block.X[place, column])))
        if len(rows) > found.facts["most"]:
            break
    return Result({"rows": rows})


FAR = Phase("far-rows", find_far_rows)
