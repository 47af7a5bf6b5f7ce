"""Forecast of the memory of a run, as sums of named terms.

It is arithmetic on the sizes of the job. The constants of processes were measured on jobs of a few
rows; `python -m benchmarks forecast` compares sums with measured peaks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from distsvc.errors import JobFileError, ParameterError
from distsvc.job.config import Job, OutputConfig, with_key
from distsvc.report.content.report import ForecastPart, TermPart
from distsvc.run.algorithms.algorithm import Forecastable, kept_rows
from distsvc.run.algorithms.begin import begin
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

DASK: Terms = {"Dask": 32 * MB}
FIGURE_BYTES = 15 * MB
ARROW_BYTES = 25 * MB
"""Freed memory that Arrow's allocator keeps for reuse."""

MAX_FREED_BYTES = 64 * MB
"""Maximum size of freed arrays that C's allocator keeps; it returns larger ones."""

PART_BYTES = 4000
"""Bytes of a partition in the plan, of its task, and of its file in the manifest."""

LABELLED_BYTES = 40
"""Bytes of a row's id, label, score and outlier flag, twice, for their encoding."""

SHARE_OF_LIMIT = 0.95
"""Share of a worker's memory limit at which Dask ends it."""

COMPARED_BYTES = 40
"""Bytes of a value in a column that is compared by cluster, as read and as a number."""

MIN_SETTINGS = {
    "cluster": {"partition_rows": 10_000, "block_rows": 1_000, "threads": 1, "workers": 1},
    "model": {"memory_rows": 1_000, "max_samples": 1_000, "size": 100, "budget": 10},
}
"""Settings that are lowered, in this order, if a job does not fit; and their minimum."""


@dataclass(frozen=True)
class Memory:
    """Terms of the driver and, if there is one, of the largest worker."""

    driver: Terms
    worker: Terms

    def part(self) -> ForecastPart:
        """Return the part of the report."""
        return ForecastPart(driver=_parts(self.driver), worker=_parts(self.worker))


def sizes_of(job: Job, table: Table, algorithm: Forecastable | None) -> Sizes:
    """Return the sizes of a job, which only labels if there is no algorithm."""
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


def forecast_memory(job: Job, table: Table, workers: Workers, algorithm: Forecastable) -> Memory:
    """Return the memory of driver and workers."""
    sizes = sizes_of(job, table, algorithm)
    held, pilot = algorithm.held(sizes), float(sizes.row_bytes * sizes.pilot_rows)
    tasks = _tasks(sizes, held.worker, algorithm.rules[0].float64, job.output)
    if table.compared:
        rows = min(sizes.block_rows, sizes.partition_rows)
        compared = float(COMPARED_BYTES * len(table.compared) * rows)
        tasks[-1]["columns by which clusters are compared"] = compared
    steps: list[Terms] = [
        {"the pilot": 4.0 * pilot},
        {"the pilot": 2.0 * pilot} | held.driver,
        {"the pilot": 2.0 * pilot, "the page's figures": FIGURE_BYTES},
    ]
    return _memory(sizes, table, workers, steps, tasks)


def _memory(
    sizes: Sizes, table: Table, workers: Workers, steps: list[Terms], tasks: list[Terms]
) -> Memory:
    """Return the memory of driver and workers, for the largest of `steps` and `tasks`."""
    process = process_terms()
    plan: Terms = {"plan and tasks": 1.0 * PART_BYTES * sizes.parts}
    if not workers.each:
        before, largest = sorted([*steps, *tasks], key=_sum)[-2:]
        kept: Terms = {
            "freed memory that is kept": ARROW_BYTES + min(_sum(before), MAX_FREED_BYTES)
        }
        return Memory(_joined(process, plan, kept, _decoding(table, sizes.block_rows), largest), {})
    driver = _joined(process, DASK, plan, _decoding(table, 1), max(steps, key=_sum))
    task = _joined(_decoding(table, sizes.block_rows), max(tasks, key=_sum))
    threads = max(threads for threads, _ in workers.each)
    if threads > 1:
        task = {f"{threads} times {name}": threads * size for name, size in task.items()}
    return Memory(driver, _joined(process, {"freed memory that is kept": ARROW_BYTES}, task))


def process_terms() -> Terms:
    """Return the memory of an idle process, driver or worker.

    The resident size of mapped libraries depends on the system and the installation, so that of
    this process is used.
    """
    mapped = mapped_memory_mb()
    n_bytes = MAPPED_BYTES if mapped is None else min(mapped * MB, MAX_MAPPED_BYTES)
    return PROCESS | {MAPPED: n_bytes}


def check_memory(job: Job, table: Table, workers: Workers, algorithm: Forecastable) -> Memory:
    """Return the memory of driver and workers.

    `JobFileError` if it does not fit; names a setting that makes it fit, if there is one.
    """
    memory = forecast_memory(job, table, workers, algorithm)
    lacking = _lacking(memory, workers)
    if lacking:
        now = _settings(job, sizes_of(job, table, algorithm), workers)
        raise JobFileError(f"{lacking}; {_remedy(job, table, workers, now)}")
    return memory


def check_labelling(job: Job, table: Table, workers: Workers, wide: bool) -> None:
    """Raise JobFileError if a job that only labels does not fit; `wide` rules take float64."""
    sizes = sizes_of(job, table, None)
    tasks = _tasks(sizes, {}, wide, job.output)[-1:]
    lacking = _lacking(_memory(sizes, table, workers, [{}], tasks), workers)
    if lacking:
        raise JobFileError(
            f"{lacking}; smaller cluster.block_rows or cluster.partition_rows need less"
        )


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
    label = LABELLED_BYTES + 2 * sum(of.row_bytes(output) for of in OPTIONAL_COLUMNS)
    labels = {"labels of a partition": 1.0 * label * sizes.partition_rows}
    for of in OPTIONAL_COLUMNS:
        labels |= of.held(output)
    return [blocks | survey, blocks | block | learning, blocks | block | labels]


def _lacking(memory: Memory, workers: Workers) -> str:
    """Return a sentence on a process that does not fit, or an empty text."""
    for _, limit in workers.each:
        if limit and _sum(memory.worker) > SHARE_OF_LIMIT * limit:
            return (
                f"a worker needs {terms_text(memory.worker)}, more than {SHARE_OF_LIMIT:.0%} of "
                f"its limit of {_size(limit)}"
            )
    here = len(workers.each) if workers.here else 0
    if _sum(memory.driver) + here * _sum(memory.worker) <= machine_bytes():
        return ""
    beside = (
        f" and each of the {here} workers beside it {terms_text(memory.worker)}" if here else ""
    )
    return (
        f"the driver needs {terms_text(memory.driver)}{beside}, "
        f"more than this machine's {_size(machine_bytes())}"
    )


def _remedy(job: Job, table: Table, workers: Workers, now: dict[str, int]) -> str:
    """Name the first setting that makes a job fit, when halved from its value `now`."""
    for section, least in MIN_SETTINGS.items():
        for key in least:
            value = now.get(key, 0) // 2
            while value >= least[key]:
                fewer, changed = _fewer(workers, key, value), with_key(job, section, key, value)
                with suppress(ParameterError):
                    memory = forecast_memory(changed, table, fewer, begin(changed, table))
                    if not _lacking(memory, fewer):
                        return f"{section}.{key} = {value} makes it fit"
                value //= 2
    return "no single setting makes it fit: give it machines with more memory"


def _settings(job: Job, sizes: Sizes, workers: Workers) -> dict[str, int]:
    """Return the present values of the job's settings in `MIN_SETTINGS`."""
    now = {"partition_rows": sizes.partition_rows, "block_rows": sizes.block_rows}
    if workers.here and workers.each:
        now |= {"threads": workers.each[0][0], "workers": len(workers.each)}
    sample = dict.fromkeys(("memory_rows", "max_samples"), sizes.sample_rows)
    own = [key for key in MIN_SETTINGS["model"] if key in type(job.model).model_fields]
    return now | {key: getattr(job.model, key) or sample.get(key, 0) for key in own}


def _fewer(workers: Workers, key: str, value: int) -> Workers:
    """Return the workers with another setting; a worker's limit is proportional to its threads."""
    if key == "workers":
        return Workers(workers.each[:value])
    if key == "threads":
        threads, limit = workers.each[0]
        return Workers(((value, limit * value // threads),) * len(workers.each))
    return workers


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
