"""What a run will hold in memory, as sums of named terms, and whether that fits.

Nothing is read: it is arithmetic on the sizes of the job. What processes hold from the start was
measured on jobs of a few rows; `python -m benchmarks forecast` compares sums with measured peaks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from distsvc.errors import JobFileError, ParameterError
from distsvc.job.config import Job, OutputConfig, with_key
from distsvc.models.rules.membership import PIECE_BYTES
from distsvc.report.content.report import ForecastPart, TermPart
from distsvc.run.algorithms import begin as rooms
from distsvc.run.algorithms.algorithm import Room, kept_rows
from distsvc.run.learning.sizes import MB, Sizes, Terms
from distsvc.run.work.cluster import Workers
from distsvc.run.work.partitions import choose_block_rows
from distsvc.run.work.plan import cut, pilot_rows
from distsvc.run.work.progress import mapped_memory_mb
from distsvc.storage.tables.opening import Table, decoding_bytes

PROCESS: Terms = {"Python and libraries": 175 * MB, "compiled kernels": 65 * MB}
MAPPED = "libraries' files"
MAPPED_BYTES, MOST_MAPPED_BYTES = 130 * MB, 300 * MB
"""Of the files of libraries, where the system does not tell it; and at most, since a program that
runs jobs may have mapped others."""

DASK: Terms = {"Dask": 32 * MB}
FIGURES = 15 * MB
KEPT = 25 * MB
"""Freed memory that Arrow's allocator keeps for more."""

KEPT_SMALL = 64 * MB
"""Freed arrays that the allocator of C keeps, at most; larger ones it gives back."""

A_PARTITION = 4000
"""Bytes of a partition's entry in the plan, of its task, and of what is told of its file."""

A_LABEL = 40
"""Bytes of a row's id, label, score and outlier flag, twice, as they are encoded when written."""

A_SHARE, ANOTHER = 8, 16
"""Bytes of the share of its own cluster, and of another cluster with its share, twice."""

SHARE_OF_LIMIT = 0.95
"""Of a worker's memory limit, at which Dask ends it."""

FEWEST = {"partition_rows": 10_000, "block_rows": 1_000, "threads": 1, "workers": 1}
"""Least values of ``[cluster]`` that are proposed."""

LEARNED = {"memory_rows": 1_000, "max_samples": 1_000, "size": 100, "budget": 10}
"""Keys of ``[model]`` that decide how much learning holds, and their least values."""


@dataclass(frozen=True)
class Memory:
    """The terms of the driver, and of a worker with the most threads; none without workers."""

    driver: Terms
    worker: Terms

    def part(self) -> ForecastPart:
        """Return what the report says of it."""
        return ForecastPart(driver=_parts(self.driver), worker=_parts(self.worker))


def sizes_of(job: Job, table: Table, room: Room | None) -> Sizes:
    """Return the sizes of a job on a table; without a room, nothing is learned from a sample."""
    d, partitions = len(table.columns), cut(job, table)
    return Sizes(
        n_rows=table.n_rows,
        n_columns=d,
        partitions=len(partitions),
        partition_rows=max(stop - start for start, stop in partitions),
        block_rows=job.cluster.block_rows or choose_block_rows(d),
        sample_rows=kept_rows(room, table.n_rows) if room else 0,
        pilot_rows=min(pilot_rows(d), table.n_rows),
        value_bytes=table.dtype.itemsize,
    )


def forecast_memory(job: Job, table: Table, workers: Workers) -> Memory:
    """Return what driver and workers will hold; errors as in `rooms.begin`."""
    room = rooms.begin(job, table)
    sizes = sizes_of(job, table, room)
    held, pilot = room.held(sizes), float(sizes.row * sizes.pilot_rows)
    tasks = _tasks(sizes, table, held.worker, room.rules[0].float64, job.output)
    steps: list[Terms] = [
        {"the pilot": 4.0 * pilot},
        {"the pilot": 2.0 * pilot} | held.driver,
        {"the pilot": 2.0 * pilot, "the page's figures": FIGURES},
    ]
    return _memory(sizes, table, workers, steps, tasks)


def _memory(
    sizes: Sizes, table: Table, workers: Workers, steps: list[Terms], tasks: list[Terms]
) -> Memory:
    """Return what driver and workers hold at most of `steps`, the driver's, and of `tasks`."""
    process = process_terms()
    plan: Terms = {"plan and tasks": 1.0 * A_PARTITION * sizes.partitions}
    if not workers.each:
        before, largest = sorted([*steps, *tasks], key=_sum)[-2:]
        kept: Terms = {"freed memory that is kept": KEPT + min(_sum(before), KEPT_SMALL)}
        return Memory(_said(process, plan, kept, _decoding(table, sizes.block_rows), largest), {})
    driver = _said(process, DASK, plan, _decoding(table, 1), max(steps, key=_sum))
    task = _said(_decoding(table, sizes.block_rows), max(tasks, key=_sum))
    threads = max(threads for threads, _ in workers.each)
    if threads > 1:
        task = {f"{threads} times {name}": threads * size for name, size in task.items()}
    return Memory(driver, _said(process, {"freed memory that is kept": KEPT}, task))


def process_terms() -> Terms:
    """Return what a process holds before it works, driver or worker.

    How much of a library's file becomes resident when a page of it is used is up to the system: on
    one machine it was 125 MB with one installation, and 235 MB with another of the same versions.
    So this process, which has loaded them, is asked.
    """
    mapped = mapped_memory_mb()
    n_bytes = MAPPED_BYTES if mapped is None else min(mapped * MB, MOST_MAPPED_BYTES)
    return PROCESS | {MAPPED: n_bytes}


def check_memory(job: Job, table: Table, workers: Workers) -> Memory:
    """Return what driver and workers will hold, if that fits.

    Raises
    ------
    JobFileError
        It does not fit; names the setting that makes it fit, if one does.

    """
    memory = forecast_memory(job, table, workers)
    lacking = _lacking(memory, workers)
    if lacking:
        raise JobFileError(f"{lacking}; {_remedy(job, table, workers)}")
    return memory


def check_labelling(job: Job, table: Table, workers: Workers, wide: bool) -> None:
    """Check that a job fits that only labels its table; errors as in `check_memory`.

    `wide` is whether its rule takes rows of float64.
    """
    sizes = sizes_of(job, table, None)
    tasks = _tasks(sizes, table, {}, wide, job.output)[-1:]
    lacking = _lacking(_memory(sizes, table, workers, [{}], tasks), workers)
    if lacking:
        raise JobFileError(
            f"{lacking}; smaller cluster.block_rows or cluster.partition_rows need less"
        )


def machine_bytes() -> int:
    """Return the memory of this machine, or of the container that this process is in."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes":
        with suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits)


def shown(terms: Terms) -> str:
    """Return a sum and its terms, the largest first: "0.5 GB: the sample 0.3 GB + ..."."""
    parts = sorted(terms.items(), key=lambda term: -term[1])
    return f"{_size(sum(terms.values()))}: " + " + ".join(f"{n} {_size(b)}" for n, b in parts)


def _decoding(table: Table, block_rows: int) -> Terms:
    return {f"decoding {table.format}": float(decoding_bytes(table, block_rows))}


def _tasks(
    sizes: Sizes, table: Table, learning: Terms, float64: bool, output: OutputConfig
) -> list[Terms]:
    """Return what a task holds in the survey, while the algorithm learns, and while it labels."""
    blocks = {"blocks of rows": 2.125 * sizes.block}
    wide = 16 * sizes.n_columns if float64 else 8 * sizes.n_columns
    block = {"prepared rows": 1.0 * wide * min(sizes.block_rows, sizes.partition_rows)}
    rows = sizes.sample_rows * sizes.partition_rows / sizes.n_rows
    survey = {
        "the pilot": sizes.block + 2.0 * sizes.row * sizes.pilot_rows,
        "a partition's rows of the sample": 2.0 * sizes.part + 32.0 * rows,
    }
    label = A_LABEL + A_SHARE * output.shares + ANOTHER * output.top
    labels = {"labels of a partition": 1.0 * label * sizes.partition_rows}
    labels["shares of clusters"] = 2.0 * PIECE_BYTES * output.shares
    return [blocks | survey, blocks | block | learning, blocks | block | labels]


def _lacking(memory: Memory, workers: Workers) -> str:
    """Say what does not fit, if anything."""
    for _, limit in workers.each:
        if limit and _sum(memory.worker) > SHARE_OF_LIMIT * limit:
            return (
                f"a worker needs {shown(memory.worker)}, more than {SHARE_OF_LIMIT:.0%} of its "
                f"limit of {_size(limit)}"
            )
    here = len(workers.each) if workers.here else 0
    if _sum(memory.driver) + here * _sum(memory.worker) <= machine_bytes():
        return ""
    beside = f" and each of the {here} workers beside it {shown(memory.worker)}" if here else ""
    return (
        f"the driver needs {shown(memory.driver)}{beside}, "
        f"more than this machine's {_size(machine_bytes())}"
    )


def _remedy(job: Job, table: Table, workers: Workers) -> str:
    """Name the first setting that makes a job fit, with the largest value that was tried."""
    for name, changed, fewer in _smaller(job, table, workers):
        with suppress(ParameterError):
            if not _lacking(forecast_memory(changed, table, fewer), fewer):
                return f"{name} makes it fit"
    return "no single setting makes it fit: give it machines with more memory"


def _smaller(job: Job, table: Table, workers: Workers) -> Iterator[tuple[str, Job, Workers]]:
    """Yield settings, each halved again and again, with the job and the workers they make."""
    now = sizes_of(job, table, rooms.begin(job, table))
    rows = {"partition_rows": now.partition_rows, "block_rows": now.block_rows}
    for key, value in _halved(rows, FEWEST):
        yield f"cluster.{key} = {value}", with_key(job, "cluster", key, value), workers
    if workers.here and workers.each:
        threads, _ = workers.each[0]
        counts = {"threads": threads, "workers": len(workers.each)}
        for key, value in _halved(counts, FEWEST):
            fewer = _fewer(workers, key, value)
            yield f"cluster.{key} = {value}", with_key(job, "cluster", key, value), fewer
    learned = dict.fromkeys(("memory_rows", "max_samples"), now.sample_rows)
    known = {key: getattr(job.model, key, None) or learned.get(key, 0) for key in LEARNED}
    keys = {key: known[key] for key in LEARNED if key in type(job.model).model_fields}
    for key, value in _halved(keys, LEARNED):
        yield f"model.{key} = {value}", with_key(job, "model", key, value), workers


def _halved(values: dict[str, int], least: dict[str, int]) -> Iterator[tuple[str, int]]:
    for key, value in values.items():
        while value // 2 >= least[key]:
            value //= 2
            yield key, value


def _fewer(workers: Workers, key: str, value: int) -> Workers:
    """Return the workers that would be started here with another setting.

    A worker's limit is its threads' share of the machine.
    """
    threads, limit = workers.each[0]
    if key == "workers":
        return Workers(workers.each[:value])
    return Workers(((value, limit * value // threads),) * len(workers.each))


def _sum(*several: Terms) -> float:
    return float(sum(sum(terms.values()) for terms in several))


def _said(*several: Terms) -> Terms:
    """Join terms, without those of less than a tenth of a MB."""
    joined: Terms = {}
    for terms in several:
        joined |= terms
    return {name: size for name, size in joined.items() if size >= 0.1 * MB}


def _parts(terms: Terms) -> list[TermPart]:
    largest = sorted(terms.items(), key=lambda term: -term[1])
    return [TermPart(name=name, mb=round(size / MB, 1)) for name, size in largest]


def _size(n_bytes: float) -> str:
    return f"{n_bytes / MB:,.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:,.2f} GB"
