"""Forecast of a job: rows, tasks, bytes, memory, and time from two trials on part of the table.

The first trial, on a few rows, measures what happens once: loading libraries and compiled code. The
second one, on more rows, measures the time of a row. The time of a phase that reads the table is
proportional to the rows of the busiest thread. The time of a phase that learns is proportional to
`AlgorithmJob.work`.
Other phases take the same time for every table.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, TemporaryError
from distsvc.job.config import Job, with_key
from distsvc.report.content.report import PhaseCost
from distsvc.run.algorithms import begin
from distsvc.run.algorithms.algorithm import AlgorithmJob, kept_rows, sample_rows
from distsvc.run.fitting.clustering import cluster_table
from distsvc.run.forecast.memory import Memory, check_memory, terms_text
from distsvc.run.labelling.columns import OPTIONAL_COLUMNS
from distsvc.run.labelling.phase import fill_output
from distsvc.run.nights.comparison import compare_and_check
from distsvc.run.reporting.files import write_report
from distsvc.run.starting.opening import naming_the_section
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps, steps_on
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Meter, Progress
from distsvc.storage.places.process import scratch
from distsvc.storage.tables.opening import open_table
from distsvc.storage.tables.sources import check_ready

FIRST_TRIAL_ROWS = 2_000

READINGS = ("survey", "label", "fill")
SECOND_READING = "sample"
"""Second reading, done if some rows are not used. Trials always do it: they use a part."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Forecast:
    """Size, memory and time of a job.

    Attributes
    ----------
    sample_rows : int
        Approximate number of rows that are learned from.
    bytes_read : int or None
        Bytes of all readings of the table, all columns as stored, if known.
    bytes_written : int
        Bytes of labels and of the run's folder, before compression.
    seconds : dict of float
        Seconds by phase; empty if the trial failed for the reason `because`.
    waits_for : str
        The missing part of an input that is not ready yet.

    """

    rows: int
    columns: int
    partitions: int
    tasks: int
    sample_rows: int
    bytes_read: int | None
    bytes_written: int
    memory: Memory
    seconds: dict[str, float] = field(default_factory=dict)
    because: str = ""
    waits_for: str = ""

    def dumped(self) -> dict[str, object]:
        """Return the forecast as JSON values: bytes and seconds, with their totals."""
        sums = {name: sum(terms.values()) for name, terms in asdict(self.memory).items()}
        total = round(sum(self.seconds.values()), 2) if self.seconds else None
        return asdict(self) | {"memory_bytes": sums, "seconds_in_all": total}

    def lines(self) -> list[str]:
        """Return the lines that the command prints."""
        read = "unknown" if self.bytes_read is None else f"{self.bytes_read / 1e6:,.0f} MB"
        lines = [f"{self.waits_for}; this is of what is there now"] if self.waits_for else []
        lines += [
            f"{self.rows:,} rows of {self.columns} columns in {self.partitions:,} partitions; "
            f"{self.tasks:,} tasks; {self.sample_rows:,} rows to learn from",
            f"reads {read}, writes {self.bytes_written / 1e6:,.0f} MB",
            f"driver {terms_text(self.memory.driver)}",
        ]
        if self.memory.worker:
            lines.append(f"each worker {terms_text(self.memory.worker)}")
        if not self.seconds:
            why = f"a trial with some of the rows failed: {self.because}"
            return [*lines, f"time: not known; {why}"]
        phases = ", ".join(f"{name} {took:.1f} s" for name, took in self.seconds.items())
        return [*lines, f"time {sum(self.seconds.values()):.1f} s: {phases}"]


def forecast_job(job: Job) -> Forecast:
    """Forecast a job; nothing is left behind.

    All rows of a small table are tried, so the errors are those of a run. If a trial on part of a
    larger table fails, the forecast has no time. An input that is not ready is forecast as it is.

    Raises
    ------
    DistsvcError
        As `open_table`, the algorithm and `check_memory`.
    TemporaryError
        The input is not ready, and nothing can be read.

    """
    waits_for = ""
    try:
        check_ready(job.input)
    except TemporaryError as error:
        waits_for = str(error)
    try:
        with naming_the_section():
            return replace(_forecast(job), waits_for=waits_for)
    except (InputNotFoundError, DataError) as error:
        if waits_for:
            raise TemporaryError(waits_for) from error
        raise


def _forecast(job: Job) -> Forecast:
    with scratch("plan") as folder:
        began = time.perf_counter()
        staging = folder / "staging"
        table = open_table(
            job.input, staging, job.preprocess, kinds=job.columns, mixed=job.is_mixed
        )
        plan = Plan.of(job, table)
        algorithm = begin(job, plan.table)
        opened = time.perf_counter()
        run = RunDirectory(folder)
        run.write_plan(plan)
        with steps_on(run, Progress(quiet=True), job.cluster) as steps:
            seconds = {"open": opened - began, "cluster": time.perf_counter() - opened}
            memory = check_memory(job, plan.table, steps.workers, algorithm)
            readings = _readings(job, algorithm)
            forecast = _without_time(job, plan, algorithm, memory)
            most = busiest(plan.partitions, steps.workers.threads)
            try:
                first, second = trials(job, algorithm, steps, folder)
            except DistsvcError as error:
                if plan.table.n_rows <= FIRST_TRIAL_ROWS:  # all rows were read, as in a run
                    raise
                return replace(forecast, because=str(error))
    seconds |= extrapolated(first, second, plan.table.n_rows, most, readings)
    tasks = sum(
        len(plan.partitions) if first_name(phase) in readings else n
        for phase, n in second.tasks.items()
        if first_name(phase) in seconds
    )
    return replace(forecast, tasks=tasks, seconds=seconds)


def _readings(job: Job, algorithm: AlgorithmJob) -> tuple[str, ...]:
    """Return the phases that read the table."""
    skips = job.input.where is not None or job.preprocess.missing == "drop"
    return (*READINGS, *algorithm.readings, *((SECOND_READING,) if skips else ()))


def _without_time(job: Job, plan: Plan, algorithm: AlgorithmJob, memory: Memory) -> Forecast:
    """Return the forecast that follows from the sizes of table and sample."""
    table, readings = plan.table, _readings(job, algorithm)
    stored = [version.size for version in table.versions.values()]
    sizes = [size for size in stored if size is not None]
    times = len(readings) - (job.output.format == "parquet")
    row = table.dtype.itemsize * len(table.columns) + 8
    label = 17 + sum(  # number, label, score and outlier flag
        of.row_bytes(plan.output) for of in OPTIONAL_COLUMNS
    )
    return Forecast(
        rows=table.n_rows,
        columns=len(table.columns),
        partitions=len(plan.partitions),
        tasks=len(plan.partitions) * len(readings),
        sample_rows=sample_rows(algorithm, table.n_rows),
        bytes_read=times * sum(sizes) if len(sizes) == len(stored) else None,
        bytes_written=label * table.n_rows + row * kept_rows(algorithm, table.n_rows),
        memory=memory,
    )


@dataclass(frozen=True)
class Trial:
    """Costs and numbers of tasks of a job's phases on part of the table.

    Attributes
    ----------
    n_rows, busiest : int
        Rows with a label, and rows of the busiest thread.
    algorithm : AlgorithmJob
        The fitted algorithm.

    """

    n_rows: int
    busiest: int
    algorithm: AlgorithmJob
    phases: list[PhaseCost]
    tasks: dict[str, int]

    def seconds(self, name: str) -> float:
        """Return the seconds of a phase, with its repetitions (``pass-00``, ``pass-01``)."""
        return sum(phase.seconds for phase in self.phases if first_name(phase.name) == name)


class _Counting(Progress):
    """Displays nothing, and counts the tasks of phases."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.tasks: dict[str, int] = {}

    def update(self, meter: Meter) -> None:
        self.tasks[meter.name] = meter.total


def first_name(phase: str) -> str:
    """Return the name of a phase without its number."""
    return phase.partition("-")[0]


def trials(job: Job, algorithm: AlgorithmJob, steps: Steps, folder: Path) -> tuple[Trial, Trial]:
    """Run both trials on the workers of `steps`, in a temporary folder; errors are those of a run.

    They are the same trial if the first one already has all rows.
    """
    plan, threads = steps.run.plan, steps.workers.threads
    n_learned = sample_rows(algorithm, plan.table.n_rows)
    most = min(400_000, max(8_000_000 // len(plan.table.columns), FIRST_TRIAL_ROWS))
    few = pieces(plan.partitions, FIRST_TRIAL_ROWS, threads)
    more = pieces(plan.partitions, most, threads)
    first = _trial(job, n_learned, steps, few, folder / "first")
    return first, first if more == few else _trial(job, n_learned, steps, more, folder / "second")


def pieces(partitions: Sequence[Range], rows: int, threads: int) -> list[Range]:
    """Return row ranges of about `rows` rows in all, spread over the whole table.

    They are all partitions if these have no more rows, else the beginning of one for each thread.
    """
    if sum(stop - start for start, stop in partitions) <= rows:
        return list(partitions)
    n = min(threads, len(partitions))
    chosen = [partitions[len(partitions) * k // n] for k in range(n)]
    return [(start, min(stop, start + rows // n)) for start, stop in chosen]


def busiest(partitions: Sequence[Range], threads: int) -> int:
    """Return the rows of the busiest thread, if each takes the next partition in turn."""
    done = [0] * threads
    for start, stop in partitions:
        heapq.heapreplace(done, done[0] + stop - start)
    return max(done)


def extrapolated(
    first: Trial, second: Trial, n_rows: int, most: int, readings: Sequence[str]
) -> dict[str, float]:
    """Return the seconds of every phase of a job, by the first part of its name.

    The table has `n_rows` rows, its busiest thread `most` of them; `readings` are the phases that
    read the table.
    """
    work, done = second.algorithm.work(n_rows), second.algorithm.work(second.n_rows)
    seconds = dict[str, float]()
    for name in dict.fromkeys(first_name(phase.name) for phase in second.phases):
        if name == SECOND_READING and name not in readings:
            continue
        seconds[name] = first.seconds(name)
        if first is second:
            continue
        if name in readings:
            seconds[name] += second.seconds(name) * most / second.busiest
        elif name in work:
            seconds[name] += second.seconds(name) * work[name] / done[name]
    return seconds


def _trial(job: Job, n_learned: int, steps: Steps, ranges: list[Range], folder: Path) -> Trial:
    """Run the phases of a job, which learns from `n_learned` rows, on the rows of some ranges."""
    plan, n_rows = steps.run.plan, sum(stop - start for start, stop in ranges)
    part = with_key(job, "output", "path", str(folder / "out"))
    part = with_key(part, "continuity", "previous", ())
    if "memory_rows" in type(job.model).model_fields and n_learned < plan.table.n_rows:
        rows = max(n_rows * n_learned // plan.table.n_rows, 1_000)
        part = with_key(part, "model", "memory_rows", rows)  # passes, as on the whole table
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
