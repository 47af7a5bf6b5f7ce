"""The survey: one reading of the table for its statistics, the pilot and the sample.

Every row has a pseudorandom key. The rows with the lowest keys are the pilot, which stays in
memory. The rows with keys in given ranges are the sample, from which an algorithm learns.

The number of rows decides the key ranges of the sample. If rows are dropped, this number is known
only after the survey, and the sample needs a second reading. If there are many partitions, their
parts of the sample are gathered into fewer files.

Extreme rows are left out of learning, and labelled like any other row. A single value of 10^9 would
decide the scale of its column and the bandwidth of kernels. If the survey finds such rows, it is
repeated without them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from distsvc.errors import DataError, EmptyInputError
from distsvc.models.rows import sampling
from distsvc.models.rows.aside import (
    MIN_OUTLIER_RANGES,
    ColumnEnds,
    Reach,
    how_many_aside,
    most_aside,
)
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rows.scaling import ColumnSums
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.plan import Plan
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.usable import infinite_value_error, select_rows

MAX_SAMPLE_PARTS = 50
"""Maximum number of parts of the sample; a learner keeps two open files for each part."""

LAST_KEY = 2**64 - 1
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Survey:
    """Statistics of a table."""

    n_rows: int  # rows to learn from
    sums: ColumnSums
    lowest: "Pilot"  # the raw rows with the lowest keys
    extreme_rows: "Sequence[ExtremeRow]" = ()  # left out of learning

    @property
    def pilot(self) -> np.ndarray:
        """Raw rows (m, d) float64 with the lowest keys."""
        return self.lowest.X


def survey_table(
    steps: Steps, key_ranges: Callable[[int], Ranges], all_rows: bool = True
) -> Survey:
    """Return a table's statistics, and store a sample of its rows.

    The sample has the rows whose keys are in ``key_ranges(n_rows)``. The table is read twice if
    rows are dropped or extreme rows are left out. With `all_rows`, extreme rows are not left out.
    """
    guessed = key_ranges(steps.run.plan.table.n_rows)
    survey, ends = _surveyed(steps, SURVEY, guessed)
    ranges = key_ranges(survey.n_rows)
    extreme = () if all_rows else find_extreme_rows(ends, survey.pilot)
    if extreme:
        steps.run.write(EXTREME, Result({"rows": [far.row for far in extreme]}))
        ranges = key_ranges(survey.n_rows - len(extreme))
        survey = replace(_surveyed(steps, AGAIN, ranges)[0], extreme_rows=extreme)
    elif _ends(ranges) != _ends(guessed):
        _write_keys(steps, SAMPLE, ranges)
        steps.do(SAMPLE)
    gather(steps, GATHER)
    return survey


def _surveyed(steps: Steps, phase: Phase, ranges: Ranges) -> tuple[Survey, ColumnEnds]:
    """Read the table once; return its statistics, and the most extreme values of each column.

    The rows whose keys are in `ranges` are stored as the sample.
    """
    plan = steps.run.plan
    _write_keys(steps, phase, ranges, {"pilot": pilot_limit(plan)})
    sums, pilot, n_rows = ColumnSums.empty(plan.shift.copy()), Pilot(plan), 0
    ends = ColumnEnds.empty(plan.shift.size)
    for result in steps.map(phase):
        facts, arrays = result.facts, result.arrays
        n_rows += facts["n_rows"]
        bounds = arrays["least"], arrays["most"], arrays["counts"]
        sums.merge(ColumnSums(plan.shift, facts["first"], facts["second"], *bounds))
        pilot.add(arrays["pilot"], arrays["keys"])
        ends = ends.merged(ColumnEnds(arrays["ends"], arrays["rows_of_ends"]))
    if not n_rows:
        raise EmptyInputError(
            f"{plan.table.shown}: no row can be used, since each has a missing value; add "
            "--set preprocess.missing=median"
        )
    if n_rows < 2:
        raise too_few_rows(n_rows)
    return Survey(n_rows, sums, pilot), ends


def too_few_rows(n_rows: int) -> DataError:
    """Return the error for a table with too few usable rows."""
    return DataError(f"expected at least 2 usable rows, found {n_rows}")


def sampling_phase(run: RunDirectory) -> Phase:
    """Return the phase that stored the sample."""
    return next((phase for phase in (AGAIN, SAMPLE) if run.has(keys_of(phase))), SURVEY)


def survey_partition(run: RunDirectory, number: int, again: bool = False) -> Result:
    """Return a partition's column sums, pilot and sample.

    `again` is True if the survey is repeated, without the extreme rows.
    """
    plan, phase = run.plan, AGAIN if again else SURVEY
    sums, ends = ColumnSums.empty(plan.shift.copy()), ColumnEnds.empty(plan.shift.size)
    facts = run.read(keys_of(phase)).facts
    pilot, sample, n_rows = Pilot(plan, facts["pilot"]), SampleBuffer.of(run, phase), 0
    for block, keys in learned_blocks(run, number, extreme_row_numbers(run) if again else NONE):
        too_far = sums.add(block.X, block.rows, ends)
        if too_far:
            raise infinite_value_error(block, *too_far, plan.table.shown, plan.table.features)
        n_rows += len(block.rows)
        sample.add(block.X, keys)
        pilot.add(block.X, keys)
    return Result(
        facts={"n_rows": n_rows, "first": sums.first, "second": sums.second},
        arrays={
            "pilot": pilot.X,
            "keys": pilot.keys,
            "least": sums.least,
            "most": sums.most,
            "counts": sums.counts,
            "ends": ends.values,
            "rows_of_ends": ends.rows,
        },
        large=sample.arrays(),
        rows=n_rows,
    )


def sample_partition(run: RunDirectory, number: int) -> Result:
    """Return a partition's part of the sample, now that the number of rows is known."""
    sample, n_rows = SampleBuffer.of(run, SAMPLE), 0
    for block, keys in learned_blocks(run, number, NONE):
        n_rows += len(block.rows)
        sample.add(block.X, keys)
    return Result(large=sample.arrays(), rows=n_rows)


def gather_sample(run: RunDirectory, number: int) -> Result:
    """Join the samples of neighbouring partitions, in the order of keys."""
    phase = sampling_phase(run)
    return gathered(run, phase, number, SampleBuffer.of(run, phase))


SURVEY = Phase("survey", survey_partition)
AGAIN = Phase("survey-again", partial(survey_partition, again=True))
SAMPLE = Phase("sample", sample_partition)
GATHER = Phase("gather", gather_sample)


def pilot_limit(plan: Plan) -> int:
    """Return the highest key that a row of the pilot can have.

    If rows are dropped, their number is not known yet. Then any key is possible.
    """
    # The pilot is the m lowest of n random keys. The lowest (m + 12 sqrt(m)) / n of the range of
    # keys has at least m of them, except in one table of 10^18. So all partitions together send
    # little more than one pilot.
    n_rows, m = sum(stop - start for start, stop in plan.partitions), plan.pilot_rows
    share = (m + 12.0 * math.sqrt(m)) / n_rows
    all_rows = plan.table.where is None and plan.missing != "drop"
    return int(share * 2.0**64) if all_rows and share < 1.0 else LAST_KEY


class Pilot:
    """Rows with the lowest keys of all rows that were added.

    `X` (m, d) are the rows, and `keys` (m,) their keys in ascending order. Rows with a key
    above `limit` are ignored.
    """

    def __init__(self, plan: Plan, limit: int = LAST_KEY):
        self.most, self.limit = plan.pilot_rows, np.uint64(limit)
        self.X, self.keys = np.zeros((0, plan.shift.size)), np.zeros(0, np.uint64)

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Add the rows X (n, d) float64 whose keys (n,) are among the lowest."""
        full = self.keys.size == self.most
        low = np.flatnonzero(keys < self.keys[-1] if full else keys <= self.limit)
        keys = np.concatenate([self.keys, keys[low]])
        kept = sampling.lowest(keys, self.most)
        self.X, self.keys = np.concatenate([self.X, X[low]])[kept], keys[kept]


class SampleBuffer:
    """Rows with keys from `low` to `last`, collected block by block."""

    def __init__(self, n_columns: int, dtype: str, low: int = 0, last: int = LAST_KEY):
        self.low, self.last = np.uint64(low), np.uint64(last)
        self.rows, self.keys = [np.empty((0, n_columns), dtype)], [np.empty(0, np.uint64)]

    @classmethod
    def of(cls, run: RunDirectory, phase: Phase) -> Self:
        """Return an empty buffer for raw rows of the sample, with the phase's range of keys."""
        facts = run.read(keys_of(phase)).facts
        plan = run.plan
        return cls(plan.shift.size, plan.table.dtype.name, facts["low"], facts["high"] - 1)

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Add the rows X (n, d) whose keys (n,) uint64 are in range."""
        chosen = self.wants(keys)
        self.rows.append(X[chosen])
        self.keys.append(keys[chosen])

    def wants(self, keys: np.ndarray) -> np.ndarray:
        return (keys >= self.low) & (keys <= self.last)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return X (n, d) and keys (n,) uint64 in the order of keys; free the rows."""
        X, keys = sampling.in_order_of_keys(self.rows, self.keys)
        return {"X": X, "keys": keys}


def gathered(run: RunDirectory, phase: Phase, number: int, buffer: SampleBuffer) -> Result:
    """Join the rows that a phase stored for neighbouring partitions, in the order of keys."""
    share = shared_parts(run.plan)
    for partition in range(len(run.plan.partitions))[number * share : (number + 1) * share]:
        keys, X = keyed_rows(run, phase.result(partition))
        buffer.add(X, keys)
    arrays = buffer.arrays()
    return Result(large=arrays, rows=len(arrays["keys"]))


def gather(steps: Steps, phase: Phase) -> None:
    """If there are many partitions, join their parts of the sample into fewer results.

    The tasks of `phase` do the work: each calls the function `gathered`.
    """
    if steps.n_partitions > MAX_SAMPLE_PARTS:
        steps.do(phase, -(-steps.n_partitions // shared_parts(steps.run.plan)))


def parts(run: RunDirectory, phase: Phase, gathering: Phase) -> list[str]:
    """Return the names of the results, at most `MAX_SAMPLE_PARTS`, that contain a sample.

    The phase `phase` stored the sample. If it has more results, `gathering` has joined them.
    """
    share, n = shared_parts(run.plan), len(run.plan.partitions)
    phase = phase if share == 1 else gathering
    return [phase.result(number) for number in range(-(-n // share))]


def keyed_rows(run: RunDirectory, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys (n,) uint64 and the rows (n, d) of a result, mapped into memory."""
    return run.map_large(name, "keys"), run.map_large(name, "X")


def shared_parts(plan: Plan) -> int:
    """Return the number of partitions that are gathered into one part."""
    return -(-len(plan.partitions) // MAX_SAMPLE_PARTS)


def keys_of(phase: Phase) -> str:
    """Return the name of the result with a phase's range of keys, such as ``sample-keys``."""
    return f"{phase.name}-keys"


def _write_keys(
    steps: Steps, phase: Phase, ranges: Ranges, more: dict[str, int] | None = None
) -> None:
    """Store the range of keys [low, high) of a phase's sample, and the numbers in `more`."""
    low, high = _ends(ranges)
    steps.run.write(keys_of(phase), Result({"low": low, "high": high} | (more or {})))


def _ends(ranges: Ranges) -> tuple[int, int]:
    return ranges[0][0], ranges[-1][1]


EXTREME = "aside"


class ExtremeRow(NamedTuple):
    """An extreme row, with its most extreme column and the value there."""

    distance: float  # distance of the value from the column's `Reach`, in widths of this range
    row: int
    column: int
    value: float


def find_extreme_rows(ends: ColumnEnds, pilot: np.ndarray) -> list[ExtremeRow]:
    """Return the few rows with values so extreme that they would harm learning.

    A value is extreme if it lies far outside the range of nearly all pilot rows. The rows are
    in ascending order.
    """
    # Such a row is among the most extreme rows of the column that decides its distance.
    most, known = most_aside(len(pilot)), dict[int, ExtremeRow]()
    distances = np.where(ends.rows < 0, 0.0, Reach.of(pilot).distances(ends.values))
    for place in zip(*np.nonzero(distances > MIN_OUTLIER_RANGES), strict=True):
        row, column, distance = int(ends.rows[place]), int(place[-1]), float(distances[place])
        far = ExtremeRow(distance, row, column, float(ends.values[place]))
        known[row] = max(far, known.get(row, far), key=lambda one: (one.distance, -one.column))
    rows = sorted(known.values(), key=lambda far: (-far.distance, far.row))[: most + 1]
    rows = rows[: how_many_aside(np.array([far.distance for far in rows]), most)]
    return sorted(rows, key=lambda far: far.row)


def extreme_row_numbers(run: RunDirectory) -> np.ndarray:
    """Return the ascending numbers (m,) int64 of the rows that are left out of learning."""
    return np.array(run.read(EXTREME).facts["rows"] if run.has(EXTREME) else [], np.int64)


def learned_blocks(
    run: RunDirectory, number: int, extreme: np.ndarray | None = None
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks of a partition without extreme rows, each with its keys (n,) uint64.

    `extreme` (m,) are the numbers of the rows to leave out, by default `extreme_row_numbers`.
    """
    extreme = extreme_row_numbers(run) if extreme is None else extreme
    for block in run.plan.blocks(number):
        if extreme.size:
            block = select_rows(block, ~np.isin(block.rows, extreme))
        yield block, keys_of_rows(run, block.rows, extreme)


def keys_of_rows(run: RunDirectory, rows: np.ndarray, extreme: np.ndarray) -> np.ndarray:
    """Return the keys (n,) uint64 of the rows with numbers `rows` (n,).

    A key is computed from the row's number if the rows `extreme` (m,) are not counted.
    """
    return sampling.row_keys(run.plan.seed, rows - np.searchsorted(extreme, rows))


def numbers_of(run: RunDirectory, keys: np.ndarray) -> np.ndarray:
    """Return the row numbers (n,) int64 in the table of the rows with `keys` (n,) uint64.

    Rows that are left out of learning have no keys. The numbers count these rows, too.
    """
    numbers = sampling.rows_of(run.plan.seed, keys)
    for row in extreme_row_numbers(run):
        numbers += numbers >= row
    return numbers
