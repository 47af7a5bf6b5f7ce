"""Faster compilation of kernels: functions that a kernel calls get no machine code of their own.

Numba optimises each function and makes machine code of it before it compiles the caller. The caller
then contains the function's code and is optimised as a whole. So a function of which only kernels
use the code needs neither. The kernel's result is the same: there is no fast-math.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import _dynfunc
from numba.core import compiler, dispatcher, sigutils
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext

_depth: int | None = None
"""Number of callers between a kernel and the function that is compiled; None without a kernel."""


def _is_part(library: Any) -> bool:
    return bool(_depth) or getattr(library, PART, False)


PART = "_is_part_of_a_kernel"
"""Attribute of libraries without machine code."""


@contextmanager
def whole_functions(depth: int | None = None) -> Iterator[None]:
    """Compile or load a function that Python calls, although a kernel may be being compiled."""
    global _depth
    outer, _depth = _depth, depth
    try:
        yield
    finally:
        _depth = outer


def compile_without_parts(kernel: Any) -> None:
    """Compile the functions that a kernel calls without machine code."""
    whole = kernel._compiler._compile_core

    def compile_core(args: Any, return_type: Any) -> Any:
        with whole_functions(-1):  # `_deeper` adds 1 for the kernel itself
            return whole(args, return_type)

    kernel._compiler._compile_core = compile_core


_UNUSED = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value
"""Address in place of the machine code of parts, which is never called."""


def _deeper(function: Callable[..., Any]) -> Callable[..., Any]:
    def compiled(*args: Any, **options: Any) -> Any:
        global _depth
        if _depth is None:
            return function(*args, **options)
        _depth += 1
        try:
            return function(*args, **options)
        finally:
            _depth -= 1

    return compiled


def _subroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    deeper = _deeper(function)

    def compile_internal(typing: Any, target: Any, library: Any, *args: Any, **options: Any) -> Any:
        if _depth is not None:
            setattr(library, PART, True)
        return deeper(typing, target, library, *args, **options)

    return compile_internal


def _optimize_module(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda library: None if _is_part(library) else function(library)


def _wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    def create_wrapper(context: Any, library: Any, *args: Any, **options: Any) -> Any:
        return None if _is_part(library) else function(context, library, *args, **options)

    return create_wrapper


def _optimize_functions(function: Callable[..., Any]) -> Callable[..., Any]:
    def optimize(library: Any, module: Any) -> None:
        if _is_part(library):
            module.data_layout = library._codegen._data_layout
        else:
            function(library, module)

    return optimize


def _finalize(function: Callable[..., Any]) -> Callable[..., Any]:
    def finalize(library: Any) -> None:
        if _is_part(library):
            library._finalize_dynamic_globals()
            library._finalized = True
        else:
            function(library)

    return finalize


def _executable(function: Callable[..., Any]) -> Callable[..., Any]:
    def get_executable(context: Any, library: Any, fndesc: Any, env: Any) -> Any:
        if not _is_part(library):
            return function(context, library, fndesc, env)
        library._ensure_finalized()
        setattr(library, PART, True)
        module, name = fndesc.lookup_module(), fndesc.qualname.split(".")[-1]
        return _dynfunc.make_function(module, name, "part of a kernel", _UNUSED, env, (library,))

    return get_executable


def _add_overload(function: Callable[..., Any]) -> Callable[..., Any]:
    def add_overload(function_of: Any, compiled: Any) -> None:
        if getattr(compiled.library, PART, False):  # not for calls from Python
            function_of.overloads[tuple(compiled.signature.args)] = compiled
        else:
            function(function_of, compiled)

    return add_overload


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    def compile_form(function_of: Any, signature: Any) -> Any:
        with global_compiler_lock:
            if _depth is None:
                args, _ = sigutils.normalize_signature(signature)
                found = function_of.overloads.get(tuple(args))
                if found is not None and getattr(found.library, PART, False):
                    del function_of.overloads[tuple(args)]  # Python calls a part
            return function(function_of, signature)

    return compile_form


for owner, name, changed in (
    (dispatcher.Dispatcher, "add_overload", _add_overload),
    (dispatcher.Dispatcher, "compile", _compile),
    (dispatcher._FunctionCompiler, "_compile_core", _deeper),  # type: ignore[attr-defined]
    (compiler, "compile_internal", _subroutine),
    (CPUCodeLibrary, "_optimize_functions", _optimize_functions),
    (CPUCodeLibrary, "_optimize_final_module", _optimize_module),
    (CPUCodeLibrary, "_finalize_final_module", _finalize),
    (CPUContext, "create_cpython_wrapper", _wrapper),
    (CPUContext, "get_executable", _executable),
):
    setattr(owner, name, changed(getattr(owner, name)))
