"""The one decorator of every kernel, and where compiled code is kept.

* ``nogil``: a kernel never stops the other threads of its worker. There is no ``parallel``:
  parallelism comes from partitions.
* Fast-math is limited to flags that allow sums to be reassociated and contracted and the sign of
  zero to be ignored. NaN and infinity keep their meaning.
* Nothing compiles at import. Every kernel is called with one set of types only, so that each has
  exactly one compiled form, and compiled forms are cached on the local disk, in a folder that
  belongs to this user and this version. Numba writes a cache file under a temporary name and
  renames it, and with one form per kernel two processes that compile at once write the same file
  twice; without such a folder, or where it can't be trusted, code is compiled in each process.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

FASTMATH = {"reassoc", "contract", "nsz"}


def cache_folder() -> Path | None:
    """Return the folder of compiled code, made if needed, or None where there can be none.

    ``NUMBA_CACHE_DIR`` has precedence. The default is below the system's folder for temporary
    files, because that is on a local disk where a home folder may not be. Cached code is executed,
    so a folder that another user owns or may write to is refused.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"distsvc-kernels-{user}"
    try:
        folder.mkdir(mode=0o700, parents=bool(given), exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    if not given and hasattr(os, "getuid"):
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_uid != os.getuid() or shared or not stat.S_ISDIR(found.st_mode):
            return None
    return folder if os.access(folder, os.W_OK) else None


_FOLDER = cache_folder()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, with the options that all kernels share."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_FOLDER or "")  # read when the cache is set up, in the next line
    try:
        return numba.njit(function, nogil=True, fastmath=FASTMATH, cache=_FOLDER is not None)
    finally:
        numba.config.CACHE_DIR = before


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small piece of a kernel; the kernels that call it hold its code."""
    return numba.njit(function, nogil=True, fastmath=FASTMATH)


def in_order(function: Callable[..., Any]) -> Any:
    """Do as `inlined` for sums over scattered places, whose terms are added in their order.

    Were they reassociated, they would be vectorised with gather instructions, which take five times
    as long on processors that guard them against side channels.
    """
    return numba.njit(function, nogil=True, fastmath=FASTMATH - {"reassoc"})
