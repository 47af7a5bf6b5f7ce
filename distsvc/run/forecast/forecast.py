"""The forecast of a job: rows, tasks, bytes, memory, and time by a short calibration."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, TemporaryError
from distsvc.job.config import Job
from distsvc.run.algorithms.algorithm import Forecastable, kept_rows, sample_rows
from distsvc.run.algorithms.begin import begin
from distsvc.run.forecast.calibration import (
    FEW_ROWS,
    READINGS,
    SECOND_READING,
    busiest,
    extrapolated,
    first_name,
    trials,
)
from distsvc.run.forecast.memory import Memory, check_memory, shown
from distsvc.run.labelling.columns import ASKED
from distsvc.run.starting.opening import naming_the_section
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import steps_on
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Progress
from distsvc.storage.places.scratch import scratch
from distsvc.storage.tables.opening import open_table
from distsvc.storage.tables.sources import check_ready

LABEL_BYTES = 17
"""Of a row's number, label, score and outlier flag."""


@dataclass(frozen=True)
class Forecast:
    """Size, memory and time of a job.

    `sample_rows` are those that are learned from, about. `bytes_read` are of all readings of the
    table, all columns as stored, None where that is not known; `bytes_written` of labels and the
    run's folder, before they are packed. `seconds` are by phase, empty where the calibration failed
    for the reason `because`. `waits_for` is what the input lacks of ``input.ready``, if anything.
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
        """Return the content of JSON: bytes, seconds, and sums besides their terms."""
        sums = {name: sum(terms.values()) for name, terms in asdict(self.memory).items()}
        total = round(sum(self.seconds.values()), 2) if self.seconds else None
        return asdict(self) | {"memory_bytes": sums, "seconds_in_all": total}

    def lines(self) -> list[str]:
        """Return the lines that the command prints."""
        read = "unknown" if self.bytes_read is None else f"{self.bytes_read / 1e6:,.0f} MB"
        told = [f"{self.waits_for}; this is of what is there now"] if self.waits_for else []
        told += [
            f"{self.rows:,} rows of {self.columns} columns in {self.partitions:,} partitions; "
            f"{self.tasks:,} tasks; {self.sample_rows:,} rows to learn from",
            f"reads {read}, writes {self.bytes_written / 1e6:,.0f} MB",
            f"driver {shown(self.memory.driver)}",
        ]
        if self.memory.worker:
            told.append(f"each worker {shown(self.memory.worker)}")
        if not self.seconds:
            why = f"a trial with some of the rows failed: {self.because}"
            return [*told, f"time: not known; {why}"]
        phases = ", ".join(f"{name} {took:.1f} s" for name, took in self.seconds.items())
        return [*told, f"time {sum(self.seconds.values()):.1f} s: {phases}"]


def forecast_job(job: Job) -> Forecast:
    """Forecast a job; nothing is left behind.

    Errors are those of `open_table` and the algorithm about a job that can't be done, and of
    `check_memory` about one that does not fit. Of a small table all rows are tried, and what the
    run would raise is raised. If a trial with some of the rows fails, the forecast says so, and so
    it does of an input that is not complete, unless nothing can be read: `TemporaryError`.
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
    """Forecast a job from what is there."""
    with scratch("plan") as folder, ExitStack() as stack:
        clock = time.perf_counter
        began = clock()
        staging, kinds = folder / "staging", job.columns
        table = open_table(job.input, staging, job.preprocess, kinds=kinds, mixed=job.is_mixed)
        plan = Plan.of(job, table)
        table = plan.table
        algorithm = begin(job, table)
        seconds = {"open": clock() - began}
        run = RunDirectory(folder)
        run.write_plan(plan)
        began = clock()
        here = steps_on(run, Progress(quiet=True), job.cluster)
        steps = stack.enter_context(here)
        seconds["cluster"] = clock() - began
        memory = check_memory(job, table, steps.workers, algorithm)
        readings = _readings(job, algorithm)
        forecast = _without_time(job, plan, algorithm, memory)
        threads = steps.workers.threads
        try:
            measured = trials(job, algorithm, steps, folder)
        except DistsvcError as error:
            if table.n_rows <= FEW_ROWS:  # all rows were read: a run ends like this, too
                raise
            return replace(forecast, because=str(error))
    most = busiest(plan.partitions, threads)
    seconds |= extrapolated(measured, table.n_rows, most, readings)
    tasks = sum(
        len(plan.partitions) if first_name(phase) in readings else n
        for phase, n in measured[-1].tasks.items()
        if first_name(phase) in seconds
    )
    return replace(forecast, tasks=tasks, seconds=seconds)


def _readings(job: Job, algorithm: Forecastable) -> tuple[str, ...]:
    """Return the phases that read the table."""
    skips = job.input.where is not None or job.preprocess.missing == "drop"
    return (*READINGS, *algorithm.readings, *((SECOND_READING,) if skips else ()))


def _without_time(job: Job, plan: Plan, algorithm: Forecastable, memory: Memory) -> Forecast:
    """Return the forecast that follows from the sizes of table and sample."""
    table, readings = plan.table, _readings(job, algorithm)
    stored = [version.size for version in table.versions.values()]
    sizes = [size for size in stored if size is not None]
    times = len(readings) - (job.output.format == "parquet")
    row = table.dtype.itemsize * len(table.columns) + 8
    label = LABEL_BYTES + sum(of.row_bytes(plan.output) for of in ASKED)
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
