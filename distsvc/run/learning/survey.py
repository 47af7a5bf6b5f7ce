"""The survey: one reading of the table for its statistics, the pilot and the sample.

Which rows the sample has follows from their number. Where rows are left out, that is known only
afterwards, and the sample takes another reading. The ends of the columns tell whether a few rows
lie far from all others; the survey is taken again without these. Where partitions are many, their
parts of the sample are gathered into fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from distsvc.errors import DataError, EmptyInputError
from distsvc.models.rows import sampling
from distsvc.models.rows.aside import ColumnEnds
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rows.scaling import ColumnSums
from distsvc.run.learning.aside import RowAside, far_rows, learned_blocks, rows_aside, set_aside
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.plan import Plan

MOST_PARTS = 50
"""Parts that the sample is left in: a learner keeps two files of each open."""

MOST_COLUMNS = 1000
"""Columns whose ends are kept: 288 bytes of each for a partition. Wider tables are read again."""

LAST_KEY = 2**64 - 1
NONE = np.zeros(0, np.int64)

KeyRanges = Callable[[int], Ranges]
"""The ranges of the sample that a table of so many rows has."""


@dataclass(frozen=True)
class Survey:
    """The statistics of a table after one reading.

    `n_rows` are learned from, `lowest` are the raw rows with the lowest keys, and from the rows
    `aside`, far from all others, nothing is learned. `ends` tell which rows lie farthest, where the
    survey was asked for them.
    """

    n_rows: int
    sums: ColumnSums
    lowest: Pilot
    ends: ColumnEnds | None = None
    aside: Sequence[RowAside] = ()

    @property
    def pilot(self) -> np.ndarray:
        """The raw rows (m, d) float64 with the lowest keys."""
        return self.lowest.X


def survey_table(steps: Steps, key_ranges: KeyRanges, all_rows: bool = True) -> Survey:
    """Read the table once, and a second time where the sample or rows that lie far away need it.

    Unless `all_rows` count, those are left out of all that is learned, as `far_rows` says.
    """
    guessed = key_ranges(steps.run.plan.table.n_rows)
    survey = _surveyed(steps, SURVEY, guessed, keeps_ends=not all_rows)
    ranges = key_ranges(survey.n_rows)
    aside = () if all_rows else far_rows(steps, survey.sums, survey.pilot, survey.ends, SURVEY)
    if aside:
        set_aside(steps.run, aside)
        ranges = key_ranges(survey.n_rows - len(aside))
        survey = replace(_surveyed(steps, AGAIN, ranges), aside=aside)
    elif _ends(ranges) != _ends(guessed):
        _write_keys(steps, SAMPLE, ranges)
        steps.do(SAMPLE)
    gather(steps, GATHER)
    return survey


def _surveyed(steps: Steps, phase: Phase, ranges: Ranges, keeps_ends: bool = False) -> Survey:
    """Read the table, keeping the sample that has these ranges of keys."""
    plan = steps.run.plan
    keeps_ends = keeps_ends and plan.shift.size <= MOST_COLUMNS
    _write_keys(steps, phase, ranges, {"pilot": _limit(plan), "ends": keeps_ends})
    sums, ends = ColumnSums.empty(plan.shift.copy()), _ends_of(plan, keeps_ends)
    pilot, n_rows = Pilot(plan), 0
    for result in steps.map(phase):
        facts, arrays = result.facts, result.arrays
        n_rows += facts["n_rows"]
        bounds = arrays["least"], arrays["most"], arrays["counts"]
        sums.merge(ColumnSums(plan.shift, facts["first"], facts["second"], *bounds))
        pilot.add(arrays["pilot"], arrays["keys"])
        if ends is not None:
            ends.merge(ColumnEnds(arrays["ends"], arrays["end_rows"]))
    if not n_rows:
        raise EmptyInputError(f"{plan.table.shown} has no rows without a missing value")
    if n_rows < 2:
        raise too_few_rows(n_rows)
    return Survey(n_rows, sums, pilot, ends)


def too_few_rows(n_rows: int) -> DataError:
    """Return the error for a table with too few rows that can be used."""
    return DataError(f"expected at least 2 rows to cluster, found {n_rows} that can be used")


def sampling_phase(run: RunDirectory) -> Phase:
    """Return the phase whose results have the partitions' parts of the sample."""
    return next((phase for phase in (AGAIN, SAMPLE) if run.has(_keys_of(phase))), SURVEY)


def sample_parts(run: RunDirectory) -> list[str]:
    """Return the names of the results that have the sample, `MOST_PARTS` at most."""
    return parts(run, sampling_phase(run), GATHER)


def sample_keys(run: RunDirectory) -> tuple[int, int]:
    """Return the first and the last key that a row of the sample may have."""
    facts = run.read(_keys_of(sampling_phase(run))).facts
    return facts["low"], facts["high"] - 1


def survey_partition(run: RunDirectory, number: int, again: bool = False) -> Result:
    """Sum up a partition's columns; keep its rows with the lowest keys and those of the sample.

    The first time all rows count, and `again` those that are not set aside.
    """
    plan, phase = run.plan, AGAIN if again else SURVEY
    sums = ColumnSums.empty(plan.shift.copy())
    asked = run.read(_keys_of(phase)).facts
    ends = _ends_of(plan, asked["ends"])
    pilot, sample, n_rows = Pilot(plan, asked["pilot"]), Collected.sample(run, phase), 0
    for block, keys in learned_blocks(run, number, rows_aside(run) if again else NONE):
        too_far = sums.add(block.X)
        if too_far:
            raise plan.unusable(block, *too_far)
        n_rows += len(block.rows)
        sample.add(block.X, keys)
        pilot.add(block.X, keys)
        if ends is not None:
            ends.add(block.X, block.rows)
    return Result(
        facts={"n_rows": n_rows, "first": sums.first, "second": sums.second},
        arrays={
            "pilot": pilot.X,
            "keys": pilot.keys,
            "least": sums.least,
            "most": sums.most,
            "counts": sums.counts,
            **({} if ends is None else {"ends": ends.values, "end_rows": ends.rows}),
        },
        large=sample.arrays(),
        rows=n_rows,
    )


def sample_partition(run: RunDirectory, number: int) -> Result:
    """Keep a partition's rows of the sample, where the survey could not know which they are."""
    sample, n_rows = Collected.sample(run, SAMPLE), 0
    for block, keys in learned_blocks(run, number, NONE):
        n_rows += len(block.rows)
        sample.add(block.X, keys)
    return Result(large=sample.arrays(), rows=n_rows)


def gather_sample(run: RunDirectory, number: int) -> Result:
    """Put neighbouring partitions' parts of the sample together, in the order of keys."""
    phase = sampling_phase(run)
    return gathered(run, phase, number, Collected.sample(run, phase))


SURVEY = Phase("survey", survey_partition)
AGAIN = Phase("survey-again", partial(survey_partition, again=True))
SAMPLE = Phase("sample", sample_partition)
GATHER = Phase("gather", gather_sample)


def _ends_of(plan: Plan, kept: bool) -> ColumnEnds | None:
    """Return the ends of the columns of no rows, where they are kept."""
    return ColumnEnds.empty(plan.shift.size) if kept else None


def _limit(plan: Plan) -> int:
    """Return a key above which none can be among the lowest, where no row is left out.

    Of n rows, more than m have a key below (m + 12 sqrt(m)) / n, but for one table in 10^18. So
    many partitions together send the driver little more than one pilot.
    """
    n_rows, m = sum(stop - start for start, stop in plan.partitions), plan.pilot_rows
    share = (m + 12.0 * math.sqrt(m)) / n_rows
    all_rows = plan.table.where is None and plan.missing != "drop"
    return int(share * 2.0**64) if all_rows and share < 1.0 else LAST_KEY


class Pilot:
    """The rows X (m, d) with the lowest keys (m,) of those seen, in the order of their keys.

    Keys above `limit` are not looked at.
    """

    def __init__(self, plan: Plan, limit: int = LAST_KEY):
        self.most, self.limit = plan.pilot_rows, np.uint64(limit)
        self.X, self.keys = np.zeros((0, plan.shift.size)), np.zeros(0, np.uint64)

    @classmethod
    def limited(cls, plan: Plan) -> Pilot:
        """Return an empty pilot of a partition, which skips rows that can't be in the table's."""
        return cls(plan, _limit(plan))

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        """See more rows X (n, d) float64 with their keys (n,)."""
        full = self.keys.size == self.most
        low = np.flatnonzero(keys < self.keys[-1] if full else keys <= self.limit)
        keys = np.concatenate([self.keys, keys[low]])
        kept = sampling.lowest(keys, self.most)
        self.X, self.keys = np.concatenate([self.X, X[low]])[kept], keys[kept]


class Collected:
    """Rows with their keys, taken block by block: all, or those with a key from low to last."""

    def __init__(self, n_columns: int, dtype: str, low: int = 0, last: int = LAST_KEY):
        self.low, self.last = np.uint64(low), np.uint64(last)
        self.rows, self.keys = [np.empty((0, n_columns), dtype)], [np.empty(0, np.uint64)]

    @classmethod
    def sample(cls, run: RunDirectory, phase: Phase) -> Collected:
        """Return an empty sample of raw rows, with the keys that a phase of the survey keeps."""
        facts = run.read(_keys_of(phase)).facts
        plan = run.plan
        return cls(plan.shift.size, plan.table.dtype.name, facts["low"], facts["high"] - 1)

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Take rows X (n, d) whose keys (n,) uint64 are in range."""
        chosen = self.wants(keys)
        self.rows.append(X[chosen])
        self.keys.append(keys[chosen])

    def wants(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys (n,) uint64 are in range."""
        return (keys >= self.low) & (keys <= self.last)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return X (n, d) and keys (n,) uint64 in the order of keys, and let go of them."""
        X, keys = sampling.in_order_of_keys(self.rows, self.keys)
        return {"X": X, "keys": keys}


def gathered(run: RunDirectory, phase: Phase, number: int, collected: Collected) -> Result:
    """Put together the rows that a phase kept of neighbouring partitions, in the order of keys."""
    share = shared_parts(run.plan)
    for partition in range(len(run.plan.partitions))[number * share : (number + 1) * share]:
        keys, X = keyed_rows(run, phase.result(partition))
        collected.add(X, keys)
    arrays = collected.arrays()
    return Result(large=arrays, rows=len(arrays["keys"]))


def gather(steps: Steps, phase: Phase) -> None:
    """Gather the rows that partitions kept, if these are many."""
    if steps.n_partitions > MOST_PARTS:
        steps.do(phase, -(-steps.n_partitions // shared_parts(steps.run.plan)))


def parts(run: RunDirectory, phase: Phase, gathering: Phase) -> list[str]:
    """Return the names of the results, `MOST_PARTS` at most, with the rows that a phase kept."""
    share, n = shared_parts(run.plan), len(run.plan.partitions)
    phase = phase if share == 1 else gathering
    return [phase.result(number) for number in range(-(-n // share))]


def keyed_rows(run: RunDirectory, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys (n,) uint64 and the rows (n, d) of a result, mapped."""
    return run.map_large(name, "keys"), run.map_large(name, "X")


def shared_parts(plan: Plan) -> int:
    """Return how many partitions' parts of the sample are put together."""
    return -(-len(plan.partitions) // MOST_PARTS)


def _keys_of(phase: Phase) -> str:
    return f"{phase.name}-keys"


def _write_keys(
    steps: Steps, phase: Phase, ranges: Ranges, more: dict[str, int] | None = None
) -> None:
    """Tell the tasks of a phase which keys [low, high) the rows of the sample have, and `more`."""
    low, high = _ends(ranges)
    steps.run.write(_keys_of(phase), Result({"low": low, "high": high} | (more or {})))


def _ends(ranges: Ranges) -> tuple[int, int]:
    return ranges[0][0], ranges[-1][1]
