"""Independent tasks on several threads; the number of threads does not change any result.

Kernels release Python's global interpreter lock, so that threads are enough.
"""

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar, cast

import numpy as np
from threadpoolctl import ThreadpoolController

from distsvc.inputs.rows import block_rows, cut
from distsvc.kernels.jit import compile_seconds as compile_seconds

Item = TypeVar("Item")
Result = TypeVar("Result")
Other = TypeVar("Other")


def map_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
) -> list[Result]:
    """Return the function's result for each item, in order, computed on `n_jobs` threads.

    As in scikit-learn, -1 means all processors, and None means 1 unless `joblib.parallel_config`
    sets another default.
    """
    several = list(items)
    threads = min(n_threads(n_jobs), len(several)) if len(several) > 1 else 1
    if threads == 1:
        return [function(item) for item in several]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, several))


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which linear algebra uses one thread, so that results are repeatable.

    The last bits of results depend on the number of threads. Only one thread at a time may use a
    context, because overlapping contexts would restore wrong numbers of threads.
    """
    known = ("scipy.linalg", "sklearn.cluster")
    return cast(
        AbstractContextManager[object],
        _pools(tuple(map(sys.modules.__contains__, known))).limit(limits=1),
    )


@cache
def _pools(_loaded: tuple[bool, ...]) -> ThreadpoolController:
    """Return the thread pools of the loaded libraries.

    The search takes milliseconds, so its result is cached until `_loaded` changes.
    """
    return ThreadpoolController()


def both(
    first: Callable[[], Result], second: Callable[[], Other], n_jobs: int | None
) -> tuple[Result, Other]:
    """Return the results of two functions, which run in parallel if there are two threads."""
    if n_threads(n_jobs) == 1:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(second)
        return first(), found.result()


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`, as in `map_threads`, at least 1.

    joblib is slow to import, so it is imported only if the number may depend on it.
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

    `n_jobs` threads compute the blocks, which do not depend on `n_jobs`.
    """
    found = map_threads(function, cut(X, block_rows(X.shape[1])), n_jobs)
    return found[0] if len(found) == 1 else np.concatenate(found)
