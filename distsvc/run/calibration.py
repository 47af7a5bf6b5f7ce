"""How long a job takes, from its own phases on some rows of the table.

There are two trials: one on a few rows tells what it costs to begin, with libraries and compiled
code to load, and one on more rows tells what a row costs. A phase that reads the table takes time
with the rows of the busiest thread, one that learns with `Room.work`, and all others take as long
as they took.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from distsvc.config import Job, with_key
from distsvc.report.content import PhaseCost
from distsvc.run import algorithms
from distsvc.run.directory import RunDirectory
from distsvc.run.job import cluster_table
from distsvc.run.phases import Steps
from distsvc.run.progress import Meter, Progress
from distsvc.run.report_files import write_report
from distsvc.run.room import Room, Table, sample_rows

FEW_ROWS = 2_000
MOST_ROWS, MOST_VALUES = 400_000, 8_000_000
"""Of the larger trial."""

REPEATED_SECONDS, MOST_REPEATS = 1.5, 3
"""A larger trial that takes less is repeated, so often at most: other work only takes time."""

FEWEST_IN_MEMORY = 1_000
READINGS = ("survey", "label", "fill")
SECOND_READING = "sample"
"""Of a table whose rows are not all used; a trial, of a part of a table, always has it."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Trial:
    """What a part of the table took.

    Attributes
    ----------
    n_rows, busiest : int
        Rows, and those of the busiest thread.
    room : Room
        After it was fitted.
    phases : list of PhaseCost
    tasks : dict of str to int
        Of each phase.

    """

    n_rows: int
    busiest: int
    room: Room
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


def trials(job: Job, steps: Steps, folder: Path) -> tuple[Trial, Trial]:
    """Do both trials on the workers of `steps`, in a folder that is to be removed.

    Raises what a run raises.
    """
    plan, threads = steps.run.plan, steps.workers.threads
    most = min(MOST_ROWS, max(MOST_VALUES // len(plan.table.columns), FEW_ROWS))
    few, more = (pieces(plan.partitions, rows, threads) for rows in (FEW_ROWS, most))
    first = _trial(job, few, steps, folder / "few")
    repeated: list[Trial] = []
    began = time.perf_counter()
    while not repeated or time.perf_counter() - began < REPEATED_SECONDS * len(repeated):
        repeated.append(_trial(job, more, steps, folder / f"more-{len(repeated)}"))
        if len(repeated) == MOST_REPEATS:
            break
    return first, fastest(repeated)


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


def busiest(partitions: Sequence[Range], threads: int) -> int:
    """Return the rows of the thread that has most, where each takes the next partition in turn."""
    done = [0] * threads
    for start, stop in partitions:
        heapq.heapreplace(done, done[0] + stop - start)
    return max(done)


def extrapolated(
    few: Trial, more: Trial, n_rows: int, most: int, readings: Sequence[str]
) -> dict[str, float]:
    """Return the seconds of every phase of a job, by the first part of its name.

    Parameters
    ----------
    few, more
        The two trials.
    n_rows, most
        Rows of the table, and of the thread that has most of them.
    readings
        The phases that read the table.

    """
    seconds: dict[str, float] = {}
    for name in dict.fromkeys(first_name(phase.name) for phase in more.phases):
        if name == SECOND_READING and name not in readings:
            continue
        before, took = few.seconds(name), more.seconds(name)
        if name in readings:
            a_row = _seconds_of_a_row(more, name)
            beginning = sum(before) - a_row * few.busiest * len(before)
            longer = _seconds_of_a_row(more, name, n_rows) * most * len(took)
        elif name in more.room.learning:
            done, work = more.room.work(more.n_rows), more.room.work
            beginning = sum(before) - sum(took) * work(few.n_rows) / done
            longer = sum(took) * work(n_rows) / done
        else:
            beginning, longer = sum(before) - sum(took), sum(took)
        seconds[name] = max(beginning, 0.0) + longer
    return seconds


def _seconds_of_a_row(trial: Trial, name: str, n_rows: int | None = None) -> float:
    """Return what a phase takes for a row that it reads, in a table of so many rows.

    What it takes beyond the survey grows with `Room.intensity`.
    """
    took = trial.seconds(name)
    a_row = sum(took) / len(took) / trial.busiest
    if n_rows is None or name not in trial.room.readings:
        return a_row
    reading = min(sum(trial.seconds("survey")) / trial.busiest, a_row)
    intensity = trial.room.intensity
    return reading + (a_row - reading) * intensity(n_rows) / intensity(trial.n_rows)


def _trial(job: Job, ranges: list[Range], steps: Steps, folder: Path) -> Trial:
    """Do the phases of a job on the rows of some ranges."""
    plan, n_rows = steps.run.plan, sum(stop - start for start, stop in ranges)
    out = str(folder / "out")
    part = with_key(_in_passes(job, plan.table, n_rows), "output", "path", out)
    run, progress = RunDirectory(folder), _Counting()
    run.write_plan(replace(plan, partitions=ranges, output=out))
    room = algorithms.begin(part, plan.table)
    survey, labelled = cluster_table(Steps(run, steps.client, progress), part, room)
    write_report(run, part, room, survey.pilot, labelled, "", progress)
    rows = busiest(ranges, steps.workers.threads)
    return Trial(survey.n_rows, rows, room, progress.phases, progress.tasks)


def _in_passes(job: Job, table: Table, n_rows: int) -> Job:
    """Return the job for a part of a table, which takes passes where the whole table does."""
    n_learned = sample_rows(algorithms.begin(job, table), table.n_rows)
    if "memory_rows" not in type(job.model).model_fields or n_learned >= table.n_rows:
        return job
    rows = max(n_rows * n_learned // table.n_rows, FEWEST_IN_MEMORY)
    return with_key(job, "model", "memory_rows", rows)
