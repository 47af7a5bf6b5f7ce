"""The duration of a job, from its own phases on some rows of the table.

There are three trials. The first, on a few rows, has libraries and compiled code to load. The
second, on the same rows, and the third, on more, tell what a row costs. A phase that reads the
table takes time with the rows of the busiest thread, one that learns with `Forecastable.work`, and
all others the same for every table.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

from distsvc.job.config import Job, with_key
from distsvc.report.content.report import PhaseCost
from distsvc.run.algorithms.algorithm import Forecastable, sample_rows
from distsvc.run.algorithms.begin import begin
from distsvc.run.fitting.clustering import cluster_table
from distsvc.run.labelling.phase import fill_output
from distsvc.run.nights.comparison import compare_and_check
from distsvc.run.reporting.files import write_report
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.run.work.progress import Meter, Progress

FEW_ROWS = 2_000
MOST_ROWS, MOST_VALUES = 400_000, 8_000_000
"""Of the larger trial."""

REPEATED_SECONDS, MOST_REPEATS = 1.5, 3
"""A trial that takes less is repeated, so often at most: other work only takes time."""

LONGER = 1.5
"""Times the length of a trial that it may become to end where a storage unit ends."""

FEWEST_IN_MEMORY = 1_000
READINGS = ("survey", "label", "fill")
SECOND_READING = "sample"
"""Of a table whose rows are not all used; a trial, of a part of a table, always has it."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Trial:
    """The time of a part of the table: its rows, those of the busiest thread, and its phases.

    The `algorithm` is fitted, and `tasks` are those of each phase.
    """

    n_rows: int
    busiest: int
    algorithm: Forecastable
    phases: list[PhaseCost]
    tasks: dict[str, int]

    def seconds(self, name: str) -> list[float]:
        """Return the seconds of a phase, of each where it is repeated with a number in its name."""
        return [phase.seconds for phase in self.phases if first_name(phase.name) == name]


class _Counting(Progress):
    """Shows nothing, and counts the tasks of phases."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.tasks: dict[str, int] = {}

    def update(self, meter: Meter) -> None:
        """Keep the number of a phase's tasks."""
        self.tasks[meter.name] = meter.total


def first_name(phase: str) -> str:
    """Return the name of a phase without its number."""
    return phase.partition("-")[0]


Trials = tuple[Trial, Trial, Trial]
"""The first, another on the same few rows, and one on more."""


def trials(job: Job, algorithm: Forecastable, steps: Steps, folder: Path) -> Trials:
    """Do the trials on the workers of `steps`, in a folder that is to be removed.

    Raises what a run raises.
    """
    plan, threads = steps.run.plan, steps.workers.threads
    do = partial(_trial, job, sample_rows(algorithm, plan.table.n_rows), steps)
    most = min(MOST_ROWS, max(MOST_VALUES // len(plan.table.columns), FEW_ROWS))
    few = pieces(plan.partitions, FEW_ROWS, threads)
    more = whole_units(pieces(plan.partitions, most, threads), plan.table.layout.extents)
    cold = do(few, folder / "cold")
    return cold, _repeated(do, few, folder / "few"), _repeated(do, more, folder / "more")


def _repeated(do: Callable[[list[Range], Path], Trial], ranges: list[Range], folder: Path) -> Trial:
    """Do a trial, again where it is short, and return it with the least seconds of all."""
    began, done = time.perf_counter(), [do(ranges, folder / "0")]
    while len(done) < MOST_REPEATS and time.perf_counter() - began < REPEATED_SECONDS * len(done):
        done.append(do(ranges, folder / f"{len(done)}"))
    return fastest(done)


def fastest(trials: Sequence[Trial]) -> Trial:
    """Return a trial that was repeated with the least seconds of every phase."""
    several = zip(*(trial.phases for trial in trials), strict=True)
    phases = [min(phase, key=lambda cost: cost.seconds) for phase in several]
    return replace(trials[0], phases=phases)


def pieces(partitions: Sequence[Range], rows: int, threads: int) -> list[Range]:
    """Return row ranges of about so many rows in all, from the table's whole length.

    All partitions where they have no more; else the first rows of one for each thread.
    """
    if sum(stop - start for start, stop in partitions) <= rows:
        return list(partitions)
    n = min(threads, len(partitions))
    chosen = [partitions[len(partitions) * k // n] for k in range(n)]
    return [(start, min(stop, start + rows // n)) for start, stop in chosen]


def whole_units(ranges: Sequence[Range], extents: Sequence[int]) -> list[Range]:
    """Return ranges that end where a storage unit ends, if that makes them not much longer.

    A part of a unit may take as long to read as all of it.
    """
    ends = list(itertools.accumulate(extents))
    found = []
    for start, stop in ranges:
        end = ends[bisect.bisect_left(ends, stop)]
        found.append((start, end if end - start <= LONGER * (stop - start) else stop))
    return found


def busiest(partitions: Sequence[Range], threads: int) -> int:
    """Return the rows of the thread that has most, where each takes the next partition in turn."""
    done = [0] * threads
    for start, stop in partitions:
        heapq.heapreplace(done, done[0] + stop - start)
    return max(done)


def extrapolated(
    trials: Trials, n_rows: int, most: int, readings: Sequence[str]
) -> dict[str, float]:
    """Return the seconds of every phase of a job, by the first part of its name.

    `n_rows` are those of the table, `most` those of the thread that has most of them, and
    `readings` the phases that read the table.
    """
    cold, few, more = trials
    algorithm, seconds = more.algorithm, dict[str, float]()
    works = [algorithm.work(n) for n in (few.n_rows, more.n_rows, n_rows)]
    growth = algorithm.intensity(n_rows) / algorithm.intensity(more.n_rows)
    for name in dict.fromkeys(first_name(phase.name) for phase in more.phases):
        if name == SECOND_READING and name not in readings:
            continue
        first, second, all_units = [work.get(name, 1.0) for work in works]
        if name in readings:
            first, second, all_units = few.busiest, more.busiest, most
        a_unit = _slope(few, more, name, first, second)
        before, longer = cold.seconds(name), a_unit
        if name in algorithm.readings:  # beyond the survey's, the time of a row grows otherwise
            reading = min(_slope(few, more, "survey", few.busiest, more.busiest), a_unit)
            longer = reading + (a_unit - reading) * growth
        beginning = sum(before) - a_unit * first * len(before)
        seconds[name] = max(beginning, 0.0) + longer * all_units * len(more.seconds(name))
    return seconds


def _slope(few: Trial, more: Trial, name: str, first: float, second: float) -> float:
    """Return the seconds of a phase for each of the units that the trials had of its work."""
    less, took = few.seconds(name), fmean(more.seconds(name))
    if less and second > 2 * first:
        return max(took - fmean(less), 0.0) / (second - first)
    return took / second


def _trial(job: Job, n_learned: int, steps: Steps, ranges: list[Range], folder: Path) -> Trial:
    """Do the phases of a job, which learns from `n_learned` rows, on the rows of some ranges."""
    plan, n_rows = steps.run.plan, sum(stop - start for start, stop in ranges)
    out = str(folder / "out")
    part = with_key(_in_passes(job, n_learned, n_rows, plan.table.n_rows), "output", "path", out)
    part = with_key(part, "continuity", "previous", ())
    run, progress = RunDirectory(folder), _Counting()
    run.write_plan(replace(plan, parts=ranges, partitions=ranges, output=part.output))
    algorithm = begin(part, plan.table)
    here = Steps(run, steps.client, progress)
    learned, labelled = cluster_table(here, part, algorithm)
    fill_output(here, labelled.counts)
    comparison = compare_and_check(run, part, None, labelled, {})
    write_report(run, part, learned, labelled, comparison, "", progress)
    rows = busiest(ranges, steps.workers.threads)
    return Trial(labelled.counts.n_rows, rows, algorithm, progress.phases, progress.tasks)


def _in_passes(job: Job, n_learned: int, n_rows: int, n_all: int) -> Job:
    """Return the job for a part of a table, which takes passes where the whole table does."""
    if "memory_rows" not in type(job.model).model_fields or n_learned >= n_all:
        return job
    rows = max(n_rows * n_learned // n_all, FEWEST_IN_MEMORY)
    return with_key(job, "model", "memory_rows", rows)
