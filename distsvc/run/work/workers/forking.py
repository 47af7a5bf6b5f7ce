"""The process from which workers of a command are forked, once it has imported what they need.

It starts when a command knows that it will have workers, and imports while the command imports and
opens the table. A worker is then there at once, and sixteen of them import once. Only a command has
such a server: it would keep the environment, and the memory, of a process of somebody else.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import spawn
from typing import Any

from distsvc.run.work.workers.lean import is_lean

TASKS = "distsvc.run.worker"
"""Module that workers on this machine import before they are given tasks: it imports the rest."""

KEPT_BYTES = 2**25
"""The largest piece of memory that workers here keep when it is free, to use it again.

By what Dask sets, pieces above 128 KB go back to the system, which clears them for the next use."""

ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(KEPT_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(2 * KEPT_BYTES),
    "PYTHONSAFEPATH": "1",  # no modules of the folder that the job is started in
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
"""Variables that workers have from their beginning; those for threads are Dask's own, too."""

FORKS = sys.platform == "linux" and sys.version_info >= (3, 11, 1)
"""Whether forking is safe: the server of 3.11.0 listens to other users, too (CVE-2022-42919)."""

_MAIN, _WORKERS = ("init_main_from_name", "init_main_from_path"), "Dask Worker"
"""What multiprocessing tells a process of the main module, and how Dask calls its workers."""

_started = False


def start_server() -> None:
    """Start the server and return at once, if this process is a command's; once is enough."""
    global _started
    if _started or not (FORKS and is_lean()):
        return
    from multiprocessing import forkserver, resource_tracker

    multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", TASKS])
    with environment():
        resource_tracker.ensure_running()  # which, when it starts, lets SIGINT in again
    with suppress(OSError), without_interrupts(), environment():  # such as for a long TMPDIR
        forkserver.ensure_running()
        _started = True


def start_method() -> str:
    """Return how workers of this process are started, in the words of multiprocessing."""
    return "forkserver" if _started else "spawn"


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Start threads and processes that get no SIGINT.

    A terminal sends it to all processes, but only the driver is to end because of it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def environment() -> Iterator[None]:
    """Set the variables of `ENVIRONMENT` that are not set, for processes that start now."""
    added = ENVIRONMENT.keys() - os.environ.keys()
    os.environ.update({name: ENVIRONMENT[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def workers_without_main() -> Iterator[None]:
    """Start workers that do not import this process's main module, of which they need nothing.

    A script without a main guard would begin again in each, and standard input can't be imported.
    """
    inner = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        known = inner(name)
        left_out = _MAIN if name.startswith(_WORKERS) else ()
        return {key: value for key, value in known.items() if key not in left_out}

    spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = inner
