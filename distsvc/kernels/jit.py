"""The decorators of all kernels, and the cache of compiled code.

* ``nogil``: a kernel never blocks the other threads of its worker. There is no ``parallel``:
  parallelism comes from partitions.
* There is no fast-math: a compiler that reorders or fuses operations makes results depend on the
  processor. The functions of `distsvc.kernels.lanes` fix the order of long sums and fused products.
* Numba's wrappers for callers in C and Python are left out where unused, because they take time and
  memory to compile. A function that a kernel calls, even a function of numba, gets no machine code
  of its own: it is optimised and translated as a part of the kernel.
* Every kernel is called with one set of types only. Its first call compiles it, once, into a cache
  on the local disk. A process locks a file while it compiles a kernel, and other processes wait for
  the cache file. Without a trusted cache folder, each process compiles all kernels that it calls.
* The cache is keyed by a digest of the kernels' sources and numba's version, so that environments
  and checkouts with equal digests share it.
* A cache file ends with a checksum. If it is damaged, the kernel is compiled again. If it can't be
  written, the compiled kernel stays in memory.
"""

import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """Return the folder of compiled code, created if needed, or None if it is not trusted.

    ``NUMBA_CACHE_DIR`` has precedence, and may be read-only, as in a container. The default is
    below the system's temporary folder, since a home folder may not be on a local disk. Cached code
    is executed, so a folder is refused if other users own it or may write to it. Only a folder in
    ``NUMBA_CACHE_DIR`` may belong to root.
    """
    folder, refused = _folder()
    return None if refused else folder


def _folder() -> tuple[Path, str]:
    """Return the folder of compiled code, and the reason if it is refused, else ""."""
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
    options = {"nogil": True, "no_cfunc_wrapper": True, "pipeline_class": _KernelCompiler}
    compiled = numba.njit(function, **options)
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
    """Cache that stores nothing and logs a warning, for processes without a trusted folder."""

    def load_overload(self, sig: object, target_context: object) -> None:
        _warn_not_kept(_folder()[1], os.getpid())


@cache
def _warn_not_kept(because: str, process: int = 0) -> None:
    """Log, once for each process id, the reason why kernels are not cached."""
    _LOG.warning("compiled code is not kept", extra={"fields": {"because": because}})


MAX_WAIT_SECONDS = 60.0
"""Maximum seconds to wait for another process that compiles a kernel."""

POLL_SECONDS = 0.02
"""Seconds between two attempts to take the lock of a kernel."""

_on_miss: Callable[[], object] | None = None
_help: Callable[[], bool] | None = None


def set_helpers(
    on_miss: Callable[[], object] | None = None, compile_other: Callable[[], bool] | None = None
) -> None:
    """Set two callbacks for kernels that are missing in the cache.

    `on_miss` is called when a missing kernel is needed. `compile_other` is called while another
    process compiles the needed kernel. It compiles a different kernel, or returns False if none is
    left.
    """
    global _on_miss, _help
    _on_miss, _help = on_miss, compile_other


def is_missing(compiled: Any) -> bool:
    """Return True if a kernel has a cache, and the cache lacks it."""
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
    """Cache files of a compiled kernel: an index, and the code followed by its SHA-256."""

    def _save_data(self, name: str, data: object) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as stream:
            stream.write(content + hashlib.sha256(content).digest())

    def _load_data(self, name: str) -> object:
        path = Path(self._data_path(name))
        content = path.read_bytes()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            raise ValueError(f"{path} is damaged")
        return super()._load_data(name)  # unpickling ignores the checksum at the end


@cache
def _sources_digest(folder: Path) -> str:
    """Return a digest of numba's version and all modules in a folder.

    A kernel contains inlined functions of several modules.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:40]


class _BySources(UserProvidedCacheLocator):
    """Locator of a cache folder that is named by the digest of the kernels' sources."""

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
    """Numba's cache of a kernel, with logged errors and a compilation lock."""

    _impl_class = _InFolder
    _began: float | None = None  # time of the miss, minus `_compile_seconds` so far
    _lock: int | None = None  # file descriptor of the lock, while this process has it

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        base = self._impl.filename_base
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Checked(self._cache_path, base, stamp)
        self._index_path = Path(self._cache_file._index_path)
        self._lock_path = Path(self._cache_path, f"{base}.lock")

    def is_missing(self) -> bool:
        return not self._index_path.exists()

    def try_claim(self) -> bool:
        """Lock the compilation of this kernel; return False if another process has the lock.

        The lock ends with `end` or with the process. If the file system has no locks, kernels may
        be compiled twice.
        """
        self._impl.locator.ensure_cache_path()
        if fcntl is None or self._lock is not None:
            return True
        with suppress(OSError):
            file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = file
            except OSError as error:
                os.close(file)
                return not isinstance(error, BlockingIOError)
        return True

    def load_overload(self, sig: object, target_context: Any) -> object:
        """Return the cached code, or None if there is no usable code."""
        with _libraries_of(JITCodeLibrary, target_context.codegen()):  # a kernel may call this one
            return self._load_or_claim(sig, target_context)

    def _load_or_claim(self, sig: object, target_context: object) -> object:
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
            self._index_path.unlink(missing_ok=True)
        except OSError:
            self.disable()
        return None

    def save_overload(self, sig: object, data: Any) -> None:
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
        """Remove the lock, and add the time that the compilation took to `_compile_seconds`."""
        global _compile_seconds
        if self._lock is not None:
            # A process that waits for the lock then finds the code in the cache.
            self._lock_path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
        if self._began is not None:
            _compile_seconds = time.perf_counter() - self._began
            self._began = None

    def _warn(self, what: str, error: Exception) -> None:
        because = f"{type(error).__name__}: {error}"
        fields = {"kernel": self._py_func.__qualname__, "because": because}
        _LOG.warning(what, extra={"fields": fields})


def _free_link_copies(library: Any) -> None:
    """Free the copies of inlined functions that numba keeps in memory for linking."""
    for part in library._linking_libraries:
        part._shared_module = None
        _free_link_copies(part)


_compile_seconds = 0.0


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling kernels."""
    return _compile_seconds


@cache
def _log_once(event: str, process: int) -> None:
    """Log an event once in each process; `process` is its id, since a fork inherits this cache."""
    _LOG.info(event, extra={"fields": {}})


class _Part(JITCodeLibrary):
    """Numba's code library for a function that kernels call; it makes no machine code."""

    def add_ir_module(self, ir_module: Any) -> None:
        if ir_module.name != "cfunc_wrapper":  # numba's own functions have this wrapper
            super().add_ir_module(ir_module)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True  # numba's own method makes machine code

    @property
    def codegen(self) -> Any:
        return _NoEnvironment


class _NoEnvironment:
    @staticmethod
    def set_env(name: str, environment: object) -> None:
        """Do nothing: there is no machine code into which numba could write the environment."""


@contextmanager
def _libraries_of(kind: type[JITCodeLibrary], codegen: Any) -> Iterator[None]:
    """Make numba create its code libraries as `kind` while the ``with`` block runs.

    The caller has numba's compiler lock, so that no other thread compiles meanwhile.
    """
    before, codegen._library_class = codegen._library_class, kind
    try:
        yield
    finally:
        codegen._library_class = before


class _KernelCompiler(Compiler):
    """Numba's compiler, except that functions called by a kernel get no machine code."""

    def _compile_bytecode(self) -> Any:
        state = self.state
        rtsys.initialize(state.targetctx)  # compiles functions that are called from outside
        codegen = state.targetctx.codegen()
        state.library = JITCodeLibrary(codegen, state.func_id.func_qualname)
        state.library.enable_object_caching()
        with _libraries_of(_Part, codegen):
            return super()._compile_bytecode()


class _Inlined(CPUDispatcher):
    """An inlined function, which runs as plain Python if it is not called from a kernel."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def add_overload(self, cres: Any) -> None:
        # Numba's own method also makes the code callable from Python.
        self.overloads[tuple(cres.signature.args)] = cres


def inlined(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function into the kernels that call it."""
    if numba.config.DISABLE_JIT:
        return function
    options |= {"nopython": True, "nogil": True}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    return _Inlined(function, targetoptions=options)


def always_inlined(function: Callable[..., Any]) -> Any:
    """Compile a function like `inlined`, and force the compiler to inline even a long function."""
    return inlined(function, forceinline=True)


def unchecked(function: Callable[..., Any]) -> Any:
    """Compile a function like `inlined`, without an exception for a division by zero.

    The quotient is then infinity or NaN. The check for zero is a branch, which would prevent the
    vectorisation of a loop.
    """
    return inlined(function, error_model="numpy")
