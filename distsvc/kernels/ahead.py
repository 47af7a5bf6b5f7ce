"""Compilation of the default job's kernels in other processes while the job or fit begins.

Numba compiles one kernel at a time in a process. So if the cache lacks kernels, a command or a fit
with several threads starts helper processes that compile into the cache. If the main process needs
a kernel that a helper is compiling, the main process compiles a different kernel meanwhile.
"""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba import types

from distsvc.kernels import jit

FORMS = {
    "training.descend": "f4:2 f4:2 f8:1 f4:1 i8:1 f8:1 u8:1 f8:1 f8 f8 i8 i8 i8 f8",
    "rbf.weighted_sums": "f4:2 f4:2 f4:1 f8",
    "nearest.nearest_point": "f4:2 f4:3 i4:2 i4:1 f4:2 f4:2",
    "nearest.log_nearness": "f4:2 f4:2 i8 f4 f8:1",
    "nearest.set_nearest": "f4:2 f8:2 i8 f8:2 i8:2",
    "level_tree.vote": "f4:2 f4:2 f4:1 i8:1 f8",
    "level_tree.add_differences": "f4:2 f4:2 f4:2 f8 i8:2 b1",
    "level_tree.merge_components": "f4:1 i8:1 f8:1 i8:2 f4:1 f8",
    "level_tree.forest_parts": "i8 i8:2 b1:1",
    "rows.pairs_together": "i4:2 i4:1",
    "boundary.climb": "f4:2 f4:2 f4:1 f8 f8 i8",
    "population.describe_number": "f8:2 f8:2 i8 f8:1 i8:1 f8 f8:1 b1",
    "mixture.expectation": "f8:2 i4:2 i8:1 i8:2 i8:2 f8:1 f8:2 f8:3 f8:2 i8:1 b1 f8:2 f8:1 f8:2 "
    "f8:3 f8:2",
    "mixture.maximise": "f8:1 f8:2 f8:3 f8:2 i8:1 f8:2 f8:1 b1 f8:2 f8:1 f8:2 f8:3 f8:2",
    "mixture.expectation_maximisation": "f8:2 i4:2 i8:1 i8:2 i8:2 i8:1 i8:1 f8:2 f8:1 f8:1 f8:2 "
    "f8:3 f8:2 b1 f8:2 f8:1 f8:2 f8:3 f8:2 i8 f8",
    "mixture.label_rows": "f4:2 i8:1 i8:1 i8:1 i8:1 i8:2 f8:1 f8:2 f8:3 f8:2 f8:2 i8:1 i8:1 i4:1 "
    "i4:1 f4:2 f8:2",
    "mixture.fit_cells": "f8:1 f8:1 f8:1 f8:1 f8:1 f8 i8 f8",
    "rows.coordinates": "f4:2 f4:2",
    "rows.walk_on": "f4:1 i8:1 i8:1 f4:2 f4:2 f4 f4 f4",
    "scaling.interpolate": "f8:1 f8:1 f8:1 f8:1",
    "scaling.add_block": "f8:2 f8:1 i8:3 f8:1 f8:1 i8:1 i8:1 f8:3 i8:3",
    "scaling.count_between": "f8:2 f8:2 i8:2",
}
"""Argument types of the default job's kernels, in the order of compilation.

A type is a NumPy code; arrays add a colon and the number of dimensions. Kernels with a long
compilation come first. Kernels that the job calls first come last: its own process compiles them.
"""

MAX_PROCESSES = 2
"""Maximum number of additional processes; more would need memory and save little time."""


def signature(form: str) -> tuple[Any, ...]:
    """Return the argument types of numba for `form`, a value of `FORMS`."""
    words = [word.partition(":") for word in form.split()]
    kinds = [(getattr(types, code), dimensions) for code, _, dimensions in words]
    return tuple(types.Array(kind, int(n), "C") if n else kind for kind, n in kinds)


def kernel_named(name: str) -> Any:
    """Return the kernel for a key of `FORMS`."""
    module, _, function = name.partition(".")
    return getattr(import_module(f"distsvc.kernels.{module}"), function)


_tried: set[str] = set()


def compile_one() -> bool:
    """Compile the first kernel that no process has compiled yet; return False if none is left."""
    for name, form in FORMS.items():
        if name in _tried:
            continue
        kernel = kernel_named(name)
        if jit.is_missing(kernel) and jit.try_compile(kernel, signature(form)):
            _tried.add(name)
            return True
    return False


class Helpers:
    """Processes that compile the kernels of `FORMS` into the cache."""

    def __init__(self, n: int):
        self._n = n
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the processes if they do not run; errors are ignored.

        A program that contains Python, such as a frozen application, starts no process.
        """
        is_python = Path(sys.executable or "").name.startswith(("python", "pypy"))
        command = [sys.executable, "-P", "-m", __name__]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        with suppress(OSError):
            while is_python and len(self._processes) < self._n:
                self._processes.append(
                    subprocess.Popen(command, stdin=pipe, stdout=none, stderr=none, env=environment)
                )

    def stop(self) -> None:
        """End the processes, and start no others."""
        self._n = 0
        for process in self._processes:
            process.kill()
            process.communicate()


@contextmanager
def compiling_ahead(n_threads: int = MAX_PROCESSES + 1) -> Iterator[None]:
    """Compile missing kernels in other processes while the ``with`` block runs.

    The processes start at once if the cache is empty, else when a missing kernel is needed. They
    end with the ``with`` block. With one thread, or without a second core, no process is started.
    """
    folder, n = jit.cache_folder(), min(n_threads, _cores(), MAX_PROCESSES + 1) - 1
    if n < 1 or folder is None or not os.access(folder, os.W_OK) or numba.config.DISABLE_JIT:
        yield
        return
    helpers = Helpers(n)
    jit.set_helpers(helpers.start, compile_one)
    try:
        if jit.is_missing(kernel_named(next(iter(FORMS)))):
            helpers.start()
        yield
    finally:
        jit.set_helpers()
        helpers.stop()


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _end_with_parent() -> None:
    os.read(0, 1)  # returns when the parent ends and its end of the pipe is closed
    os._exit(0)


def main() -> None:
    """Compile kernels until none is left or the parent process ends."""
    gc.set_threshold(200_000)  # types and code live until the end
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while compile_one():
        pass


if __name__ == "__main__":
    main()
