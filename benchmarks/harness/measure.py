"""What every measurement needs: the machine, seconds, whole processes, agreement with classes."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.rows import Row, write_csv
from distsvc import __version__
from distsvc.metrics import contingency_table, indices_from_contingency
from distsvc.run.work.progress import peak_memory_mb

PACKAGES = (
    "numpy", "numba", "scikit-learn", "pyarrow", "distributed", "fast-hdbscan", "genieclust",
    "pyod",
)  # fmt: skip


@lru_cache(maxsize=1)
def machine() -> Row:
    """Return the columns ``cpu``, ``cores``, ``versions`` and ``day``."""
    cpu = platform.processor() or platform.machine()
    try:
        facts = [line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines()]
        known = {fact[0].strip(): fact[1].strip() for fact in facts if len(fact) == 2}
        cpu = f"{known['model name']} (family {known['cpu family']}, model {known['model']})"
    except (OSError, KeyError):
        pass
    versions = [f"python {platform.python_version()}", f"distsvc {__version__}{_commit()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"cpu": cpu, "cores": os.cpu_count(), "versions": ", ".join(versions), "day": today}


def stamp(row: Mapping[str, Any]) -> str:
    """Return ``on DAY with distsvc VERSION (COMMIT)`` of a measured row."""
    return f"on {row['day']} with {re.findall('distsvc [^,]*', row['versions'])[0]}"


def _commit() -> str:
    """Return `` (COMMIT)``, with ``-dirty`` if files differ from it; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({found.stdout.strip()})"


def publish(out: Path, name: str, rows: Sequence[Row]) -> None:
    """Write ``<name>.csv``: the rows, each with the machine unless it has one of an earlier day."""
    write_csv(out / f"{name}.csv", rows, machine())


class Timed(NamedTuple):
    """What one call took, and what it said."""

    value: Any
    """What the function returned."""
    seconds: float
    cpu_seconds: float
    """Of this process, all threads."""
    warnings: list[str]
    """The texts of its warnings, which are not shown."""


def timed(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Timed:
    """Call a function once and return what it took."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began, used = time.perf_counter(), time.process_time()
        value = function(*arguments, **settings)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return Timed(value, seconds, cpu, [str(warning.message) for warning in caught])


def interleaved(actions: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Call every action once to warm up, then in turns; return the seconds of each call.

    Seconds are of the processor, all threads of this process, so that other work on the machine
    counts less.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(repeats):
        for name, action in actions.items():
            began = time.process_time()
            action()
            seconds[name].append(time.process_time() - began)
    return seconds


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, so that this one stays small."""
    (value,) = in_processes(function, [arguments], 1)
    return value


def in_processes(
    function: Callable[..., Any],
    tasks: list[tuple[Any, ...]],
    processes: int,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Any]:
    """Yield what a function makes of every task, in order; `prepare` is called in each process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=prepare) as pool:
        for task in [pool.submit(function, *task) for task in tasks]:
            yield task.result()


def measured(
    function: Callable[..., list[Row]],
    tasks: list[tuple[Any, ...]],
    processes: int,
    prepare: Callable[[], None] | None = None,
) -> list[Row]:
    """Return the rows that a function makes of all tasks, and say which task is done."""
    return [row for found in by_task(function, tasks, processes, prepare) for row in found]


def by_task(
    function: Callable[..., list[Row]],
    tasks: list[tuple[Any, ...]],
    processes: int,
    prepare: Callable[[], None] | None = None,
) -> Iterator[list[Row]]:
    """Yield the rows that a function makes of every task, in order, and say which task is done."""
    for number, found in enumerate(in_processes(function, tasks, processes, prepare), 1):
        named = (str(value) for value in tasks[number - 1] if isinstance(value, (str, int)))
        print(f"{number} of {len(tasks)}: {', '.join(named)}", file=sys.stderr, flush=True)
        yield found


def limited(function: Callable[..., Row], seconds: float, *arguments: Any) -> Row:
    """Return a function's row, found in a process of its own, or a note why there is none.

    Parameters
    ----------
    function
        ``function(ready, *arguments)`` calls ``ready()`` once, when what is measured begins, and
        returns a row. It must be importable.
    seconds
        After which the process is ended, counted from ``ready()``.

    Returns
    -------
    dict
        The row, ``before_mb`` and ``peak_mb``: the process's peak memory at ``ready()`` and at the
        end, in MB. Else only ``note``.

    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, function, arguments))
    process.start()
    there.close()
    try:
        here.recv()
        found: Row = here.recv() if here.poll(seconds) else {"note": f"not done in {seconds:g} s"}
    except EOFError:
        found = {"note": "failed"}
    finally:
        process.kill()
        process.join()
    return found


def _answer(sender: Connection, function: Callable[..., Row], arguments: tuple[Any, ...]) -> None:
    def ready() -> None:
        before.append(peak_memory_mb())
        sender.send("ready")

    before: list[float] = []
    row = function(ready, *arguments)
    sender.send(row | {"before_mb": before[0], "peak_mb": peak_memory_mb()})


def agreement(y: np.ndarray, labels: np.ndarray) -> Row:
    """Return how labels (n,) agree with classes (n,): ``nmi``, ``nmi_geometric`` and ``ari``.

    NMI is divided by the arithmetic mean of the entropies, or by the geometric one, with which the
    tables of Hofmeyr (2021) agree. Rows of noise are one cluster.
    """
    found = indices_from_contingency(contingency_table(labels, y))
    return {
        "nmi": found["normalized_mutual_information"],
        "nmi_geometric": nmi_geometric(y, labels),
        "ari": found["adjusted_rand_index"],
    }


def nmi_geometric(y: np.ndarray, labels: np.ndarray) -> float:
    """Return NMI divided by the geometric mean of the entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(y, labels, average_method="geometric"))


def n_clusters(labels: np.ndarray) -> int:
    """Return the number of clusters; noise, below 0, is none."""
    return len(np.unique(labels[labels >= 0]))
