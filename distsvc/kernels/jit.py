"""The decorators of all kernels, and the cache of compiled code.

* ``nogil``: a kernel never stops the other threads of its worker. There is no ``parallel``:
  parallelism comes from partitions.
* There is no fast-math: a compiler that reorders or fuses operations makes results depend on the
  processor. The functions of `distsvc.kernels.lanes` fix the order of long sums and fused products.
* Numba's wrappers are left out where unused, because they take time and memory to compile: the
  wrapper for C callbacks of all kernels, and the wrapper for Python of inlined functions. Inlined
  functions have no machine code of their own either, and are optimised with their kernels.
* Nothing compiles at import. Every kernel is called with one set of types only, so it is compiled
  once, into a cache on the local disk. Numba writes a cache file under a temporary name and renames
  it. A process locks a file while it compiles a kernel, and others wait for the cache file. Without
  a trusted folder, each process compiles.
* The cache is keyed by a digest of the kernels' sources and numba's version, not by their path.
  Environments and checkouts with equal digests share it.
* A cache file ends with a checksum. If it is damaged, the kernel is compiled again. If it can't be
  written, for example because the disk is full, the compiled kernel stays in memory. The run goes
  on in both cases.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system: each process compiles
    fcntl = None  # type: ignore[assignment]

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    NullCache,
    UserProvidedCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys


def cache_folder() -> Path | None:
    """Return the folder of compiled code, created if needed, or None if there is no trusted one.

    ``NUMBA_CACHE_DIR`` has precedence; it may be read-only, as in the image of a container. The
    default is below the system's folder for temporary files, which is on a local disk; a home
    folder may not be. Cached code is executed, so a folder is refused if other users may write to
    it, or if it belongs to another user (except root, if given).
    """
    folder, refused = _folder()
    return None if refused else folder


def _folder() -> tuple[Path, str]:
    """Return the folder of compiled code, and the reason why it is refused, or ""."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"distsvc-kernels-{user}"
    other = "set NUMBA_CACHE_DIR to a folder of your own"
    try:
        folder.mkdir(mode=0o700, parents=bool(given), exist_ok=True)
        found = folder.stat() if given else folder.lstat()
    except OSError as error:
        return folder, f"{folder} can't be made: {error.strerror}; {other}"
    if not stat.S_ISDIR(found.st_mode):
        return folder, f"{folder} is not a folder; {other}"
    if hasattr(os, "getuid"):
        owners = (os.getuid(), 0) if given else (os.getuid(),)
        if found.st_uid not in owners:
            return folder, f"{folder} belongs to another user; {other}"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return folder, f"other users may write to {folder}; chmod go-w {folder}"
    usable = given or os.access(folder, os.W_OK)
    return folder, "" if usable else f"{folder} can't be written; {other}"


_FOLDER = cache_folder()
_LOG = logging.getLogger("distsvc")


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, with the options of all kernels."""
    compiled = numba.njit(function, nogil=True, no_cfunc_wrapper=True)
    if numba.config.DISABLE_JIT:
        return compiled
    if _FOLDER is None:
        compiled._cache = _NoFolder()
        return compiled
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_FOLDER)  # read by the constructor of the cache
    try:
        compiled._cache = _Cache(function)
    except RuntimeError:  # the folder can't be written now
        _warn_not_kept(f"{_FOLDER} can't be written")
    finally:
        numba.config.CACHE_DIR = before
    return compiled


class _NoFolder(NullCache):
    """The cache of a kernel without a trusted folder: it warns, once."""

    def load_overload(self, sig: object, target_context: object) -> None:
        """Return None."""
        _warn_not_kept(_folder()[1], os.getpid())


@cache
def _warn_not_kept(because: str, process: int = 0) -> None:
    """Log, once in a process, why kernels are not cached."""
    _LOG.warning("compiled code is not kept", extra={"fields": {"because": because}})


class _Claim:
    """A lock on the compilation of one kernel, across processes.

    The lock ends with the process. If the file system has no locks, kernels may compile twice.
    """

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None

    def take(self) -> bool:
        """Return False if another process has the lock."""
        if fcntl is None or self._file is not None:
            return True
        with suppress(OSError):
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            except OSError:
                os.close(file)
            else:
                self._file = file
        return True

    def release(self) -> None:
        """Remove the lock, if it was taken."""
        if self._file is not None:
            # A process that waits for the lock then finds the code in the cache.
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


MAX_WAIT_SECONDS = 60.0
"""Maximum seconds to wait for another process that compiles a kernel."""

POLL_SECONDS = 0.02
"""Seconds between two attempts to take the lock of a kernel."""

_on_miss: Callable[[], object] | None = None
_help: Callable[[], bool] | None = None


def set_helpers(
    on_miss: Callable[[], object] | None = None, compile_other: Callable[[], bool] | None = None
) -> None:
    """Set functions to call if a kernel is not in the cache, and while another process compiles it.

    `compile_other` returns False if there is nothing left to compile.
    """
    global _on_miss, _help
    _on_miss, _help = on_miss, compile_other


def is_missing(compiled: Any) -> bool:
    """Return True if a kernel can be cached and is not in the cache."""
    return isinstance(compiled._cache, _Cache) and compiled._cache.is_missing()


def try_compile(compiled: Any, types: tuple[Any, ...]) -> bool:
    """Compile a kernel for its argument types; return False if another process compiles it.

    Errors are ignored: a call of the kernel reports them.
    """
    cache = compiled._cache
    if not cache.try_claim():
        return False
    try:
        compiled.compile(types)
    except Exception:
        pass
    finally:
        cache.end()
    return True


class _Checked(IndexDataCacheFile):
    """Cache files of a compiled kernel; the file of the code ends with its SHA-256."""

    def _save_data(self, name: str, data: object) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as stream:
            stream.write(content + hashlib.sha256(content).digest())

    def _load_data(self, name: str) -> object:
        path = Path(self._data_path(name))
        content = path.read_bytes()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            raise ValueError(f"{path} is damaged")
        return super()._load_data(name)  # the pickle ends before the checksum

    def remove(self) -> None:
        """Remove the compiled code from the cache."""
        Path(self._index_path).unlink(missing_ok=True)

    def exists(self) -> bool:
        """Return True if compiled code is cached, usable or not."""
        return os.path.exists(self._index_path)


@cache
def _sources_digest(folder: Path) -> str:
    """Return a digest of numba and the modules in a folder; kernels contain code of several."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:40]


class _BySources(UserProvidedCacheLocator):
    """Locator of a cache named by the sources' digest and shared by equal kernels."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        folder = Path(py_file).parent
        return f"{folder.name}_{_sources_digest(folder)}"

    def get_source_stamp(self) -> object:  # numba's is the file's date in some versions
        return _sources_digest(Path(self._py_file).parent)

    def ensure_cache_path(self) -> None:
        with suppress(OSError):
            super().ensure_cache_path()


class _InFolder(CompileResultCacheImpl):
    _locator_classes = (_BySources,)


class _Cache(FunctionCache):
    """Numba's cache of a function; its errors cost time but stop nothing."""

    _impl_class = _InFolder
    _began: float | None = None  # time of the miss, minus `_compile_seconds` so far

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Checked(self._cache_path, self._impl.filename_base, stamp)
        self._claim = _Claim(Path(self._cache_path, f"{self._impl.filename_base}.lock"))

    def is_missing(self) -> bool:
        """Return True if no file of compiled code is cached."""
        return not self._cache_file.exists()

    def try_claim(self) -> bool:
        """Return False if another process compiles this kernel; call `end` later if it is True."""
        self._impl.locator.ensure_cache_path()
        return self._claim.take()

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return the cached code; None if there is none or it is unusable."""
        try:
            # Numba's own method also registers all functions that it can compile, which is slow.
            rtsys.initialize(target_context)
            found = self._load_overload(sig, target_context)
            if found is None:
                self._began = time.perf_counter() - _compile_seconds
                _log_once("compiling", os.getpid())
                if _on_miss is not None:
                    _on_miss()
                self._wait_for_claim()
                found = self._load_overload(sig, target_context)
                if found is not None:
                    self.end()
        except Exception as error:
            self._warn("compiled code is damaged and made again", error)
        else:
            return found
        try:
            self._cache_file.remove()
        except OSError:
            self.disable()
        return None

    def save_overload(self, sig: object, data: Any) -> None:
        """Store compiled code, if possible, then call `end`."""
        _free_link_copies(data.library)
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self._warn("compiled code is not kept", error)
        self.end()

    def _wait_for_claim(self) -> None:
        """Wait until no other process compiles this kernel; compile others meanwhile."""
        global _help
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while not self.try_claim() and time.monotonic() < deadline:
            helper, _help = _help, None  # a helper needs no helper
            try:
                has_helped = helper is not None and helper()
            finally:
                _help = helper
            if not has_helped:
                time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Release the claim; add the time since the miss, other kernels included."""
        global _compile_seconds
        self._claim.release()
        if self._began is not None:
            _compile_seconds = time.perf_counter() - self._began
            self._began = None

    def _warn(self, what: str, error: Exception) -> None:
        fields = {
            "kernel": self._py_func.__qualname__,
            "because": f"{type(error).__name__}: {error}",
        }
        _LOG.warning(what, extra={"fields": fields})


def _free_link_copies(library: Any) -> None:
    """Free numba's copies of inlined functions, which numba makes again if needed."""
    for part in library._linking_libraries:
        part._shared_module = None
        _free_link_copies(part)


_compile_seconds = 0.0


def compile_seconds() -> float:
    """Return the time, in seconds, that this process has spent compiling kernels."""
    return _compile_seconds


@cache
def _log_once(event: str, process: int) -> None:
    """Log an event the first time it happens in a process, which may be a fork of another."""
    _LOG.info(event, extra={"fields": {}})


class _Part(JITCodeLibrary):
    """The code of an inlined function, which kernels link, without machine code."""

    def _optimize_final_module(self) -> None:
        """Leave this to the kernels."""

    def _finalize_final_module(self) -> None:
        """Only mark the code as complete; numba's own method makes machine code."""
        self._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(Compiler):
    """The compiler of an inlined function."""

    def _compile_bytecode(self) -> Any:
        state = self.state
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.targetctx.get_executable = lambda library, description, env: object()  # a key
        return super()._compile_bytecode()


class _Inlined(CPUDispatcher):
    """An inlined function, compiled for kernels only; called from Python, it runs as Python."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def add_overload(self, cres: Any) -> None:
        """Note compiled code; numba's own method also makes it callable from Python."""
        self.overloads[tuple(cres.signature.args)] = cres


def inlined(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a small piece of a kernel into the kernels that call it."""
    if numba.config.DISABLE_JIT:
        return function
    options |= {"nopython": True, "nogil": True}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    return _Inlined(function, targetoptions=options, pipeline_class=_PartCompiler)


def unchecked(function: Callable[..., Any]) -> Any:
    """As `inlined`, but divisions by zero give infinity or NaN instead of an exception.

    The check is a branch, which prevents the vectorisation of a loop.
    """
    return inlined(function, error_model="numpy")
