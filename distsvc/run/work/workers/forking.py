"""The fork server: a process with all imports of a worker, from which workers are forked.

It imports while the command opens the table, so workers start at once. Only distsvc's commands
start a fork server: in another program it would copy the program's environment and memory.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import spawn

from distsvc.run.work.workers.lean import is_lean

TASKS = "distsvc.run.worker"
"""Module that workers on this machine import when they start."""

REUSED_BYTES = 2**25
"""Largest freed block of memory, in bytes, that workers on this machine keep for reuse.

With Dask's setting, blocks above 128 KB go back to the system, which clears them for the next use.
"""

ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(REUSED_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(2 * REUSED_BYTES),
    "PYTHONSAFEPATH": "1",  # no modules of the current folder
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
"""Environment variables of workers; Dask adds variables for threads."""

FORKS = sys.platform == "linux" and sys.version_info >= (3, 11, 1)
"""Whether the fork server is safe: in Python 3.11.0 it accepts other users (CVE-2022-42919)."""

_started = False


def start_server() -> None:
    """Start the server in the background, once, if this is the process of a command."""
    global _started
    if _started or not (FORKS and is_lean()):
        return
    from multiprocessing import forkserver, resource_tracker

    multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", TASKS])
    with environment():
        resource_tracker.ensure_running()  # its start would unblock SIGINT
    with suppress(OSError), without_interrupts(), environment():  # OSError: a long TMPDIR
        forkserver.ensure_running()
        _started = True


def start_method() -> str:
    """Return the start method of workers, by its name in multiprocessing."""
    return "forkserver" if _started else "spawn"


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Block SIGINT for threads and processes that start in the block; only the driver gets it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def environment() -> Iterator[None]:
    """Set the variables of `ENVIRONMENT` that are unset, for processes that start in the block."""
    added = ENVIRONMENT.keys() - os.environ.keys()
    os.environ.update({name: ENVIRONMENT[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def workers_without_main() -> Iterator[None]:
    """Start workers that do not import the main module of this process."""
    # Each would run a script without a main guard again, and could not import standard input.
    inner = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, object]:
        data = inner(name)
        if name.startswith("Dask Worker"):
            for key in "init_main_from_name", "init_main_from_path":
                data.pop(key, None)
        return data

    spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = inner
