"""Independent tasks on threads; results do not depend on the number of threads.

Kernels release the interpreter's lock, so that threads suffice and nothing is copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar, cast

import numpy as np
from threadpoolctl import ThreadpoolController

from distsvc.inputs.rows import block_rows, cut
from distsvc.kernels import jit


def compile_seconds() -> float:
    """Return the seconds that this process has spent on compiling kernels."""
    return jit.compile_seconds()


Item = TypeVar("Item")
Result = TypeVar("Result")
Other = TypeVar("Other")


def map_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
) -> list[Result]:
    """Return the function's result for each item, in order.

    `n_jobs` is the number of threads as in scikit-learn: None is 1 unless `joblib.parallel_config`
    sets it, -1 all processors. A single item runs on the calling thread.
    """
    several = list(items)
    threads = min(n_threads(n_jobs), len(several)) if len(several) > 1 else 1
    if threads == 1:
        return [function(item) for item in several]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, several))


def one_thread() -> AbstractContextManager[object]:
    """Limit linear algebra to one thread, because results of several differ in the last bits.

    Two threads must not set limits in turns, because they would restore wrong limits.
    """
    known = ("scipy.linalg", "sklearn.cluster")
    return cast(
        AbstractContextManager[object],
        _pools(tuple(map(sys.modules.__contains__, known))).limit(limits=1),
    )


@cache
def _pools(_loaded: tuple[bool, ...]) -> ThreadpoolController:
    """Return the thread pools of the loaded libraries, cached: a search takes milliseconds."""
    return ThreadpoolController()


def both(
    first: Callable[[], Result], second: Callable[[], Other], n_jobs: int | None
) -> tuple[Result, Other]:
    """Return the results of two functions, called at the same time if there are two threads."""
    if n_threads(n_jobs) == 1:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(second)
        return first(), found.result()


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`, at least 1.

    joblib's import is slow, and without it its configuration is the default. So it is imported only
    if `n_jobs` may depend on it.
    """
    if n_jobs == 1:
        return 1
    if "joblib" not in sys.modules and (n_jobs is None or n_jobs > 1):
        return n_jobs or 1
    from joblib import effective_n_jobs

    return effective_n_jobs(n_jobs)


def map_blocks(
    function: Callable[[np.ndarray], np.ndarray], X: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """Return a function's values (n, ...) for rows X (n, d), n > 0, computed block by block.

    Blocks have at most `block_rows` rows and are the same for any `n_jobs`.
    """
    found = map_threads(function, cut(X, block_rows(X.shape[1])), n_jobs)
    return found[0] if len(found) == 1 else np.concatenate(found)
