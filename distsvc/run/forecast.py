"""Forecast of a job: rows, tasks, memory, and time from a trial on part of the table.

The time of a phase that reads the table is proportional to the number of rows. The time of a phase
that learns is proportional to `AlgorithmJob.work`. Other phases take the same time for every table.

Memory is computed from the sizes of the job, and from constants for processes, which were measured
on small jobs. `python -m benchmarks forecast` compares forecasts with measured peaks.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from distsvc.errors import (
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    TemporaryError,
    things,
)
from distsvc.job.config import Job, OutputConfig, with_key
from distsvc.report.content.report import ForecastPart, TermPart
from distsvc.report.formats import megabytes
from distsvc.run.algorithms import begin
from distsvc.run.algorithms.algorithm import AlgorithmJob, rows_between, sample_rows
from distsvc.run.fitting import cluster_table
from distsvc.run.labelling.columns import label_memory
from distsvc.run.labelling.phase import FILL, fill_output
from distsvc.run.learning.stream import MB, Memory, Sizes, Terms
from distsvc.run.nights.comparison import compare_and_check
from distsvc.run.reporting.files import write_report
from distsvc.run.starting import kept_results, naming_the_section
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps, steps_on
from distsvc.run.work.plan import Plan, Range
from distsvc.run.work.progress import Progress, mapped_memory_mb
from distsvc.run.work.workers.cluster import Workers
from distsvc.storage.places.process import scratch
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.opening import open_table
from distsvc.storage.tables.sources import check_ready, source_of

WHOLE_TRIAL_ROWS = 2_000
"""Minimum number of rows of a trial; a smaller table is read in full."""

READINGS = ("survey", "label")
SECOND_READING = "sample"
"""Phase in which workers read the table a second time, to draw the sample.

A job has this phase only if it leaves rows out; a trial always has it.
"""


@dataclass(frozen=True)
class Forecast:
    """Size, memory and time of a job."""

    rows: int
    columns: int
    partitions: int
    tasks: int
    sample_rows: int  # approximate rows to learn from
    memory: Memory
    seconds: dict[str, float]  # by phase; empty if the trial failed
    because: str  # reason of the failure
    waits_for: str  # the missing part of an input that is not ready

    def dumped(self) -> dict[str, object]:
        """Return the forecast as JSON values, with the totals of bytes and seconds."""
        sums = {name: sum(terms.values()) for name, terms in asdict(self.memory).items()}
        total = round(sum(self.seconds.values()), 2) if self.seconds else None
        return asdict(self) | {"memory_bytes": sums, "seconds_in_all": total}

    def lines(self) -> list[str]:
        lines = [f"{self.waits_for}; the forecast uses the present files"] if self.waits_for else []
        lines += [
            f"{things(self.rows, 'row')} of {things(self.columns, 'column')} in "
            f"{things(self.partitions, 'partition')}; {things(self.tasks, 'task')}; "
            f"{things(self.sample_rows, 'row')} to learn from",
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
    """Return the forecast of a job, after a trial in a temporary folder."""
    # All rows of a small table are tried, so errors are the same as in a run.
    waits_for = ""
    try:
        check_ready(job.input)
    except TemporaryError as error:
        waits_for = str(error)
    try:
        with naming_the_section(), scratch("plan") as folder:
            return _forecast(job, folder, waits_for)
    except (InputNotFoundError, DataError) as error:
        if waits_for:
            raise TemporaryError(waits_for) from error
        raise


def _forecast(job: Job, folder: Path, waits_for: str) -> Forecast:
    began = time.perf_counter()
    staging = folder / "staging"
    table = open_table(job.input, staging, job.preprocess, kinds=job.columns, mixed=job.is_mixed)
    plan = Plan.of(job, table)
    algorithm = begin(job, plan.table)
    opened = time.perf_counter()
    run = RunDirectory(folder)
    run.write_plan(plan)
    skips = plan.table.where is not None or plan.missing == "drop"
    readings = (*READINGS, *algorithm.readings, *((SECOND_READING,) if skips else ()))
    tasks, because = len(plan.partitions) * len(readings), ""
    with steps_on(run, Progress(quiet=True), job.cluster) as steps:
        seconds = {"open": opened - began, "cluster": time.perf_counter() - opened}
        memory = check_memory(plan, steps.workers, algorithm)
        try:
            tasks = _add_trial(seconds, job, algorithm, steps, readings, folder / "trial")
        except DistsvcError as error:
            if plan.table.n_rows <= WHOLE_TRIAL_ROWS:  # all rows were read, as in a run
                raise
            seconds, because = {}, str(error)
    return Forecast(
        rows=plan.table.n_rows,
        columns=len(plan.table.columns),
        partitions=len(plan.partitions),
        tasks=tasks,
        sample_rows=sample_rows(algorithm, plan.table.n_rows),
        memory=memory,
        seconds=seconds,
        because=because,
        waits_for=waits_for,
    )


def pieces(partitions: Sequence[Range], rows: int, threads: int) -> list[Range]:
    """Return the ranges of rows that a trial reads.

    If the partitions have at most `rows` rows, the trial reads all of them. Otherwise it reads
    about `rows` rows in total, at the beginning of one partition for each thread.
    """
    if sum(stop - start for start, stop in partitions) <= rows:
        return list(partitions)
    n = min(threads, len(partitions))
    chosen = [partitions[len(partitions) * k // n] for k in range(n)]
    return [(start, min(stop, start + rows // n)) for start, stop in chosen]


def _add_trial(
    seconds: dict[str, float],
    job: Job,
    algorithm: AlgorithmJob,
    steps: Steps,
    readings: Sequence[str],
    folder: Path,
) -> int:
    """Run a trial on some rows; add the whole job's estimated time to `seconds`, by phase.

    Return the whole job's number of tasks.
    """
    plan = steps.run.plan
    n_rows, n_learned = plan.table.n_rows, sample_rows(algorithm, plan.table.n_rows)
    most = min(400_000, max(8_000_000 // len(plan.table.columns), WHOLE_TRIAL_ROWS))
    ranges = pieces(plan.partitions, most, steps.workers.threads)
    n_tried = sum(stop - start for start, stop in ranges)
    part = with_key(job, "output", "path", str(folder / "out"))
    part = with_key(part, "continuity", "previous", ())
    if "memory_rows" in type(job.model).model_fields and n_learned < n_rows:
        rows = max(n_tried * n_learned // n_rows, 1_000)
        part = with_key(part, "model", "memory_rows", rows)  # a trial then has passes, like the job
    run, progress = RunDirectory(folder), Progress(quiet=True)
    run.write_plan(replace(plan, partitions=ranges, output=part.output))
    tried = begin(part, plan.table)
    here = Steps(run, steps.client, progress)
    learned, labelled = cluster_table(here, part, tried)
    fill_output(here, labelled.counts)
    comparison = compare_and_check(run, part, None, labelled, {})
    write_report(run, part, learned, comparison, "", progress)
    done, tried_tasks, tasks = tried.work(n_tried), kept_results(run), 0
    growth = {name: work / done[name] for name, work in tried.work(n_rows).items() if done[name]}
    growth |= dict.fromkeys((*readings, FILL), n_rows / n_tried)
    for phase in progress.phases:
        name = phase.name.partition("-")[0]
        if name == SECOND_READING and name not in readings:
            continue
        seconds[name] = seconds.get(name, 0.0) + phase.seconds * growth.get(name, 1.0)
        n_tasks = tried_tasks.get(phase.name, 0)
        tasks += len(plan.partitions) if name in readings else n_tasks
    return tasks


PROCESS: Terms = {"Python and libraries": 160 * MB, "compiled kernels": 65 * MB}
MAPPED = "libraries' files"
MAPPED_BYTES, MAX_MAPPED_BYTES = 130 * MB, 300 * MB
"""Memory of library files that are mapped into a process, in bytes.

The first value is used if this memory can't be measured. The second is the maximum otherwise.
"""

ARROW_BYTES = 25 * MB
"""Freed memory that Arrow's allocator keeps for reuse, in bytes."""

SHARE_OF_LIMIT = 0.95
"""Share of a worker's memory limit at which Dask ends the worker."""

LESS_MEMORY = (
    "to use less memory, lower cluster.partition_rows, cluster.block_rows, cluster.workers or, for "
    "a linear algorithm, model.memory_rows"
)


def _sizes(plan: Plan, stored_rows: int) -> Sizes:
    return Sizes(
        n_rows=plan.table.n_rows,
        n_columns=len(plan.table.columns),
        partitions=len(plan.partitions),
        partition_rows=max(stop - start for start, stop in plan.partitions),
        block_rows=plan.block_rows,
        sample_rows=stored_rows,
        pilot_rows=min(plan.pilot_rows, plan.table.n_rows),
        value_bytes=plan.table.dtype.itemsize,
    )


def check_memory(plan: Plan, workers: Workers, algorithm: AlgorithmJob) -> Memory:
    """Return the memory that driver and workers need; raise `JobFileError` if they have less."""
    table, n_rows = plan.table, plan.table.n_rows
    sizes = _sizes(plan, rows_between(algorithm.sample_ranges(n_rows), n_rows))
    learning, pilot = algorithm.memory(sizes), float(sizes.row_bytes * sizes.pilot_rows)
    tasks = _tasks(sizes, learning.worker, algorithm.rules[0].float64, plan.output)
    if table.compared:
        rows = min(sizes.block_rows, sizes.partition_rows)
        compared = 40.0 * len(table.compared) * rows  # as read, and as numbers
        tasks[-1]["columns that are not features"] = compared
    steps: list[Terms] = [
        {"the pilot": 4.0 * pilot},
        {"the pilot": 2.0 * pilot} | learning.driver,
        {"the pilot": 2.0 * pilot, "the page's figures": 15 * MB},
    ]
    return _checked(_memory(sizes, table, workers, steps, tasks), workers)


def check_labelling(plan: Plan, workers: Workers, wide: bool) -> None:
    """Raise JobFileError if there is too little memory to label a table.

    `wide` is True if prepared rows are float64, not float32.
    """
    sizes = _sizes(plan, 0)
    tasks = _tasks(sizes, {}, wide, plan.output)[-1:]
    _checked(_memory(sizes, plan.table, workers, [{}], tasks), workers)


def _memory(
    sizes: Sizes, table: Table, workers: Workers, steps: list[Terms], tasks: list[Terms]
) -> Memory:
    """Return the peak memory of the driver and of a worker.

    Steps of the driver, and tasks of a thread, run one at a time, so only the largest counts.
    """
    process = process_terms()
    plan: Terms = {"plan and tasks": 4000.0 * sizes.partitions}  # with their files in the manifest
    if not workers.each:
        before, largest = sorted([*steps, *tasks], key=_sum)[-2:]
        freed = min(_sum(before), 64 * MB)  # malloc returns larger arrays to the system
        kept = {"freed memory that is kept": ARROW_BYTES + freed}
        decoding = _decoding(table, sizes.block_rows)
        return Memory(_stated(process | plan | kept | decoding | largest))
    driver = process | {"Dask": 32 * MB} | plan | _decoding(table, 1) | max(steps, key=_sum)
    task = _stated(_decoding(table, sizes.block_rows) | max(tasks, key=_sum))
    threads = max(threads for threads, _ in workers.each)
    if threads > 1:
        task = {f"{threads} times {name}": threads * size for name, size in task.items()}
    kept = {"freed memory that is kept": ARROW_BYTES}
    return Memory(_stated(driver), _stated(process | kept | task))


def process_terms() -> Terms:
    """Return the memory of an idle process. Mapped libraries are measured in this process."""
    mapped = mapped_memory_mb()
    n_bytes = MAPPED_BYTES if mapped is None else min(mapped * MB, MAX_MAPPED_BYTES)
    return PROCESS | {MAPPED: n_bytes}


def machine_bytes() -> int:
    """Return the memory of this machine or container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes":
        with suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits)


def terms_text(terms: Terms) -> str:
    """Return the sum and its terms, the largest first: "0.5 GB: the sample 0.3 GB + ..."."""
    parts = " + ".join(f"{name} {_shown(size)}" for name, size in _largest_first(terms))
    return f"{_shown(_sum(terms))}: {parts}"


def _decoding(table: Table, block_rows: int) -> Terms:
    source = source_of(table)
    return {f"decoding {source.name}": float(source.decoding_bytes(table, block_rows))}


def _tasks(sizes: Sizes, learning: Terms, float64: bool, output: OutputConfig) -> list[Terms]:
    """Return the memory of three tasks: one that surveys, one that learns, one that labels."""
    blocks = {"blocks of rows": 2.125 * sizes.block}
    wide = 16 * sizes.n_columns if float64 else 8 * sizes.n_columns
    block = {"prepared rows": 1.0 * wide * min(sizes.block_rows, sizes.partition_rows)}
    rows = sizes.sample_rows * sizes.partition_rows / sizes.n_rows
    survey = {
        "the pilot": sizes.block + 2.0 * sizes.row_bytes * sizes.pilot_rows,
        "the sample's rows in a partition": 2.0 * sizes.part + 32.0 * rows,
    }
    labels = label_memory(output, sizes.partition_rows)
    return [blocks | survey, blocks | block | learning, blocks | block | labels]


def _checked(memory: Memory, workers: Workers) -> Memory:
    """Return the memory; raise JobFileError if the driver or a worker has too little."""
    for _, limit in workers.each:
        if limit and _sum(memory.worker) > SHARE_OF_LIMIT * limit:
            raise JobFileError(
                f"a worker needs {terms_text(memory.worker)}, more than {SHARE_OF_LIMIT:.0%} of "
                f"its limit of {_shown(limit)}; {LESS_MEMORY}"
            )
    here = len(workers.each) if workers.here else 0
    if _sum(memory.driver) + here * _sum(memory.worker) <= machine_bytes():
        return memory
    which = "the worker" if here == 1 else f"each of the {here} workers"
    beside = f", and {which} on this machine {terms_text(memory.worker)}" if here else ""
    raise JobFileError(
        f"the driver needs {terms_text(memory.driver)}{beside}; "
        f"this machine has only {_shown(machine_bytes())}; {LESS_MEMORY}"
    )


def _sum(terms: Terms) -> float:
    return float(sum(terms.values()))


def _stated(terms: Terms) -> Terms:
    """Return the terms of at least 0.1 MB."""
    return {name: size for name, size in terms.items() if size >= 0.1 * MB}


def _largest_first(terms: Terms) -> list[tuple[str, float]]:
    return sorted(terms.items(), key=lambda term: -term[1])


def memory_part(memory: Memory) -> ForecastPart:
    """Return the memory forecast for the report, the largest terms first."""
    driver, worker = (
        [TermPart(name=name, mb=round(size / MB, 1)) for name, size in _largest_first(terms)]
        for terms in (memory.driver, memory.worker)
    )
    return ForecastPart(driver=driver, worker=worker)


def _shown(n_bytes: float) -> str:
    return megabytes(n_bytes / MB).replace("\u00a0", " ")
