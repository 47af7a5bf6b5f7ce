"""The survey: one reading of the table for its statistics, the pilot and the sample.

Which rows the sample has follows from their number. Where rows are left out, that is known only
afterwards, and the sample takes another reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from distsvc.errors import DataError
from distsvc.models import sampling
from distsvc.models.sampling import Ranges
from distsvc.models.scaling import ColumnSums
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.phases import Phase, Steps

KeyRanges = Callable[[int], Ranges]
"""The ranges of the sample that a table of so many rows has."""


@dataclass(frozen=True)
class Survey:
    """What one reading tells of a table.

    Attributes
    ----------
    n_rows : int
        Rows that are used.
    sums : ColumnSums
    pilot : ndarray of shape (m, d), float64
        The raw rows with the lowest keys.

    """

    n_rows: int
    sums: ColumnSums
    pilot: np.ndarray


def survey_table(steps: Steps, key_ranges: KeyRanges) -> Survey:
    """Read the table once, and a second time where the sample needs it."""
    plan = steps.run.plan
    keys_of_sample = _write_keys(steps, SURVEY, key_ranges(plan.table.n_rows))
    sums = ColumnSums.empty(plan.shift.copy())
    pilot, keys = np.zeros((0, plan.shift.size)), np.zeros(0, np.uint64)
    n_rows = 0
    for result in steps.map(SURVEY):
        facts, arrays = result.facts, result.arrays
        n_rows += facts["n_rows"]
        bounds = arrays["least"], arrays["most"], arrays["counts"]
        sums.merge(ColumnSums(plan.shift, facts["first"], facts["second"], *bounds))
        keys = np.concatenate([keys, arrays["keys"]])
        kept = sampling.lowest(keys, plan.pilot_rows)
        pilot, keys = np.concatenate([pilot, arrays["pilot"]])[kept], keys[kept]
    if n_rows < 2:
        raise DataError(f"expected at least 2 rows to cluster, found {n_rows} that can be used")
    ranges = key_ranges(n_rows)
    if _range(ranges) != keys_of_sample:
        _write_keys(steps, SAMPLE, ranges)
        steps.map(SAMPLE)
    return Survey(n_rows, sums, pilot)


def sampling_phase(run: RunDirectory) -> Phase:
    """Return the phase whose results have the sample."""
    return SAMPLE if run.has(_keys_of(SAMPLE)) else SURVEY


def survey_partition(run: RunDirectory, number: int) -> Result:
    """Sum up a partition's columns; keep its rows with the lowest keys and those of the sample."""
    plan = run.plan
    sums = ColumnSums.empty(plan.shift.copy())
    pilot, pilot_keys = np.zeros((0, plan.shift.size)), np.zeros(0, np.uint64)
    sample, n_rows = _Sample(run, SURVEY), 0
    for block in plan.blocks(number):
        too_far = sums.add(block.X)
        if too_far:
            raise plan.unusable(block, *too_far)
        n_rows += len(block.rows)
        keys = sampling.row_keys(plan.seed, block.rows)
        sample.add(block.X, keys)
        full = pilot_keys.size == plan.pilot_rows
        low = np.flatnonzero(keys < pilot_keys[-1]) if full else slice(None)
        pilot_keys = np.concatenate([pilot_keys, keys[low]])
        kept = sampling.lowest(pilot_keys, plan.pilot_rows)
        pilot, pilot_keys = np.concatenate([pilot, block.X[low]])[kept], pilot_keys[kept]
    return Result(
        facts={"n_rows": n_rows, "first": sums.first, "second": sums.second},
        arrays={
            "pilot": pilot,
            "keys": pilot_keys,
            "least": sums.least,
            "most": sums.most,
            "counts": sums.counts,
        },
        large=sample.arrays(),
        rows=n_rows,
    )


def sample_partition(run: RunDirectory, number: int) -> Result:
    """Keep a partition's rows of the sample, where the survey could not know which they are."""
    sample, n_rows = _Sample(run, SAMPLE), 0
    for block in run.plan.blocks(number):
        n_rows += len(block.rows)
        sample.add(block.X, sampling.row_keys(run.plan.seed, block.rows))
    return Result(large=sample.arrays(), rows=n_rows)


SURVEY = Phase("survey", survey_partition)
SAMPLE = Phase("sample", sample_partition)


class _Sample:
    """Collects a partition's rows of the sample, raw."""

    def __init__(self, run: RunDirectory, phase: Phase):
        facts = run.read(_keys_of(phase)).facts
        self.low, self.last = np.uint64(facts["low"]), np.uint64(facts["high"] - 1)
        self.n_features = run.plan.shift.size
        self.rows: list[np.ndarray] = []
        self.keys: list[np.ndarray] = []

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Take what belongs to the sample of a block's rows (n, d) float64 with their keys."""
        chosen = (keys >= self.low) & (keys <= self.last)
        self.rows.append(X[chosen])
        self.keys.append(keys[chosen])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return X (n, d) float64 and keys (n,) uint64 in the order of keys, and let go of them.

        They are put in place block by block, which needs little memory.
        """
        keys = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        order = np.argsort(keys)
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        X = np.empty((len(keys), self.n_features))
        first = 0
        while self.rows:
            rows = self.rows.pop(0)
            X[place[first : first + len(rows)]] = rows
            first += len(rows)
        return {"X": X, "keys": keys[order]}


def _keys_of(phase: Phase) -> str:
    return f"{phase.name}-keys"


def _range(ranges: Ranges) -> dict[str, int]:
    return {"low": ranges[0][0], "high": ranges[-1][1]}


def _write_keys(steps: Steps, phase: Phase, ranges: Ranges) -> dict[str, int]:
    """Tell the tasks of a phase which keys [low, high) the rows of the sample have."""
    steps.run.write(_keys_of(phase), Result(_range(ranges)))
    return _range(ranges)
