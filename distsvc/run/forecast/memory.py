"""Forecast of the memory of a run, as sums of named terms.

It is arithmetic on the sizes of the job. The constants of processes were measured on jobs of a few
rows; `python -m benchmarks forecast` compares sums with measured peaks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from distsvc.errors import JobFileError
from distsvc.job.config import Job, OutputConfig
from distsvc.report.content.report import ForecastPart, TermPart
from distsvc.run.algorithms.algorithm import AlgorithmJob, kept_rows
from distsvc.run.labelling.columns import OPTIONAL_COLUMNS
from distsvc.run.learning.sizes import MB, Sizes, Terms
from distsvc.run.work.plan import choose_block_rows, cut, join_parts, pilot_rows
from distsvc.run.work.progress import mapped_memory_mb
from distsvc.run.work.workers.cluster import Workers
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.sources import source_of

PROCESS: Terms = {"Python and libraries": 175 * MB, "compiled kernels": 65 * MB}
MAPPED = "libraries' files"
MAPPED_BYTES, MAX_MAPPED_BYTES = 130 * MB, 300 * MB
"""Assumed size of mapped libraries if it is unknown, and its maximum."""

ARROW_BYTES = 25 * MB
"""Freed memory that Arrow's allocator keeps for reuse."""

SHARE_OF_LIMIT = 0.95
"""Share of a worker's memory limit at which Dask ends it."""

LESS_MEMORY = (
    "to use less memory, lower cluster.partition_rows, cluster.block_rows, cluster.workers or, for "
    "a sample, model.memory_rows"
)


@dataclass(frozen=True)
class Memory:
    """Terms of the driver and, if there is one, of the largest worker."""

    driver: Terms
    worker: Terms

    def part(self) -> ForecastPart:
        """Return the part of the report."""
        return ForecastPart(driver=_parts(self.driver), worker=_parts(self.worker))


def sizes_of(job: Job, table: Table, algorithm: AlgorithmJob | None) -> Sizes:
    """Return the sizes of a job. Without an algorithm, the job only labels."""
    d, parts = len(table.columns), cut(job, table)
    return Sizes(
        n_rows=table.n_rows,
        n_columns=d,
        parts=len(parts),
        partition_rows=max(stop - start for start, stop in join_parts(parts, d)),
        block_rows=job.cluster.block_rows or choose_block_rows(d),
        sample_rows=kept_rows(algorithm, table.n_rows) if algorithm else 0,
        pilot_rows=min(pilot_rows(d), table.n_rows),
        value_bytes=table.dtype.itemsize,
    )


def forecast_memory(job: Job, table: Table, workers: Workers, algorithm: AlgorithmJob) -> Memory:
    """Return the memory of driver and workers."""
    sizes = sizes_of(job, table, algorithm)
    held, pilot = algorithm.held(sizes), float(sizes.row_bytes * sizes.pilot_rows)
    tasks = _tasks(sizes, held.worker, algorithm.rules[0].float64, job.output)
    if table.compared:
        rows = min(sizes.block_rows, sizes.partition_rows)
        compared = 40.0 * len(table.compared) * rows  # as read, and as numbers
        tasks[-1]["columns by which clusters are compared"] = compared
    steps: list[Terms] = [
        {"the pilot": 4.0 * pilot},
        {"the pilot": 2.0 * pilot} | held.driver,
        {"the pilot": 2.0 * pilot, "the page's figures": 15 * MB},
    ]
    return _memory(sizes, table, workers, steps, tasks)


def _memory(
    sizes: Sizes, table: Table, workers: Workers, steps: list[Terms], tasks: list[Terms]
) -> Memory:
    """Return the memory of driver and workers, for the largest of `steps` and `tasks`."""
    process = process_terms()
    plan: Terms = {"plan and tasks": 4000.0 * sizes.parts}  # with their files in the manifest
    if not workers.each:
        before, largest = sorted([*steps, *tasks], key=_sum)[-2:]
        freed = min(_sum(before), 64 * MB)  # C's allocator returns larger arrays to the system
        kept: Terms = {"freed memory that is kept": ARROW_BYTES + freed}
        return Memory(_joined(process, plan, kept, _decoding(table, sizes.block_rows), largest), {})
    driver = _joined(process, {"Dask": 32 * MB}, plan, _decoding(table, 1), max(steps, key=_sum))
    task = _joined(_decoding(table, sizes.block_rows), max(tasks, key=_sum))
    threads = max(threads for threads, _ in workers.each)
    if threads > 1:
        task = {f"{threads} times {name}": threads * size for name, size in task.items()}
    return Memory(driver, _joined(process, {"freed memory that is kept": ARROW_BYTES}, task))


def process_terms() -> Terms:
    """Return the memory of an idle process, driver or worker.

    The resident size of mapped libraries depends on the system and the installation. So the size
    in this process is used.
    """
    mapped = mapped_memory_mb()
    n_bytes = MAPPED_BYTES if mapped is None else min(mapped * MB, MAX_MAPPED_BYTES)
    return PROCESS | {MAPPED: n_bytes}


def check_memory(job: Job, table: Table, workers: Workers, algorithm: AlgorithmJob) -> Memory:
    """Return the memory of driver and workers; `JobFileError` if it does not fit."""
    memory = forecast_memory(job, table, workers, algorithm)
    _check_fit(memory, workers)
    return memory


def check_labelling(job: Job, table: Table, workers: Workers, wide: bool) -> None:
    """Raise JobFileError if a job that only labels does not fit; `wide` rules take float64."""
    sizes = sizes_of(job, table, None)
    tasks = _tasks(sizes, {}, wide, job.output)[-1:]
    _check_fit(_memory(sizes, table, workers, [{}], tasks), workers)


def machine_bytes() -> int:
    """Return the memory of this machine or container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes":
        with suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits)


def terms_text(terms: Terms) -> str:
    """Return a sum with its terms, the largest first: "0.5 GB: the sample 0.3 GB + ..."."""
    parts = sorted(terms.items(), key=lambda term: -term[1])
    return f"{_size(sum(terms.values()))}: " + " + ".join(f"{n} {_size(b)}" for n, b in parts)


def _decoding(table: Table, block_rows: int) -> Terms:
    source = source_of(table)
    return {f"decoding {source.name}": float(source.decoding_bytes(table, block_rows))}


def _tasks(sizes: Sizes, learning: Terms, float64: bool, output: OutputConfig) -> list[Terms]:
    """Return the memory of tasks that survey, learn and label."""
    blocks = {"blocks of rows": 2.125 * sizes.block}
    wide = 16 * sizes.n_columns if float64 else 8 * sizes.n_columns
    block = {"prepared rows": 1.0 * wide * min(sizes.block_rows, sizes.partition_rows)}
    rows = sizes.sample_rows * sizes.partition_rows / sizes.n_rows
    survey = {
        "the pilot": sizes.block + 2.0 * sizes.row_bytes * sizes.pilot_rows,
        "a partition's rows of the sample": 2.0 * sizes.part + 32.0 * rows,
    }
    # Id, label, score and outlier flag, and columns, twice: for their encoding.
    label = 40 + 2 * sum(of.row_bytes(output) for of in OPTIONAL_COLUMNS)
    labels = {"labels of a partition": 1.0 * label * sizes.partition_rows}
    for of in OPTIONAL_COLUMNS:
        labels |= of.held(output)
    return [blocks | survey, blocks | block | learning, blocks | block | labels]


def _check_fit(memory: Memory, workers: Workers) -> None:
    """Raise JobFileError if the driver or a worker does not fit."""
    for _, limit in workers.each:
        if limit and _sum(memory.worker) > SHARE_OF_LIMIT * limit:
            raise JobFileError(
                f"a worker needs {terms_text(memory.worker)}, more than {SHARE_OF_LIMIT:.0%} of "
                f"its limit of {_size(limit)}; {LESS_MEMORY}"
            )
    here = len(workers.each) if workers.here else 0
    if _sum(memory.driver) + here * _sum(memory.worker) <= machine_bytes():
        return
    beside = (
        f" and each of the {here} workers beside it {terms_text(memory.worker)}" if here else ""
    )
    raise JobFileError(
        f"the driver needs {terms_text(memory.driver)}{beside}, "
        f"more than this machine's {_size(machine_bytes())}; {LESS_MEMORY}"
    )


def _sum(*several: Terms) -> float:
    return float(sum(sum(terms.values()) for terms in several))


def _joined(*several: Terms) -> Terms:
    """Join terms, without those below a tenth of a MB."""
    joined: Terms = {}
    for terms in several:
        joined |= terms
    return {name: size for name, size in joined.items() if size >= 0.1 * MB}


def _parts(terms: Terms) -> list[TermPart]:
    largest = sorted(terms.items(), key=lambda term: -term[1])
    return [TermPart(name=name, mb=round(size / MB, 1)) for name, size in largest]


def _size(n_bytes: float) -> str:
    return f"{n_bytes / MB:,.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:,.2f} GB"
