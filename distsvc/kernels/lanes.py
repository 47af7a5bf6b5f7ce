"""Sums in a fixed order and fused products with one rounding, equal on every processor.

A compiler that may reorder a sum makes as many partial sums as fit into vector registers, and fuses
products if the processor can. The last bits then depend on the processor. Here both are explicit:
element j goes to partial sum j % 32 for any register width. Partial sums are added by halves. The
last elements get 8 partial sums, then one.

Processors without fused products compute `fma` in software, slowly, with the same result. Without
compilation, results are equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Factors: TypeAlias = list[tuple[ir.Value, ir.Value]]
    Intrinsic: TypeAlias = tuple[Signature, Callable[..., ir.Value]]

Scalar = TypeVar("Scalar", float, np.float32)

LANES = 32, 8, 1
"""Numbers of partial sums; elements that do not fill a vector use the next smaller number."""
ROWS_AT_ONCE = 32
"""Rows of a table whose sums are computed together, each in its own element of a vector."""


def _of_total(_: ir.IRBuilder, x: ir.Value) -> Factors:
    return [(x, ir.Constant(x.type, [1.0] * x.type.count))]


def _of_dot(_: ir.IRBuilder, x: ir.Value, y: ir.Value) -> Factors:
    return [(x, y)]


def _of_distance(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> Factors:
    gap = builder.fsub(x, y)
    return [(gap, gap)]


def _of_projection(builder: ir.IRBuilder, v: ir.Value, x: ir.Value, y: ir.Value) -> Factors:
    gap = builder.fsub(x, y)
    return [(v, gap), (gap, gap)]


def _sums(terms: Callable[..., Factors], n_sums: int, *arrays: types.Array) -> Intrinsic:
    """Return the signature and the code of sums over the elements of arrays of equal length.

    `terms` returns the two factors, as vectors, of the next terms of every sum.
    """
    if any(not isinstance(a, types.Array) or a.ndim != 1 or a.layout != "C" for a in arrays):
        raise TypingError(f"expected contiguous arrays of one dimension, found {arrays}")
    wide = types.float32 if all(a.dtype == types.float32 for a in arrays) else types.float64
    result = wide if n_sums == 1 else types.UniTuple(wide, n_sums)

    def generate(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        values: Sequence[ir.Value],
    ) -> ir.Value:
        number = context.get_value_type(wide)
        views = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(arrays, values, strict=True)
        ]
        n = cgutils.unpack_tuple(builder, views[0].shape)[0]
        sums = [cgutils.alloca_once(builder, number) for _ in range(n_sums)]
        for one in sums:
            builder.store(ir.Constant(number, 0.0), one)
        start = context.get_constant(types.intp, 0)
        for lanes in LANES:
            vector = ir.VectorType(number, lanes)
            zeros = ir.Constant(vector, [0.0] * lanes)
            parts = [cgutils.alloca_once(builder, vector) for _ in sums]
            step = context.get_constant(types.intp, lanes)
            stop = builder.and_(
                n, context.get_constant(types.intp, -lanes)
            )  # lanes are powers of 2
            with builder.if_then(builder.icmp_signed("<", start, stop)):
                for part in parts:
                    builder.store(zeros, part)
                with cgutils.for_range_slice(builder, start, stop, step) as (place, _):
                    found = [
                        _read(context, builder, kind, view.data, place, vector)
                        for kind, view in zip(arrays, views, strict=True)
                    ]
                    for part, (a, b) in zip(parts, terms(builder, *found), strict=True):
                        builder.store(_fused(builder, a, b, builder.load(part)), part)
                for one, part in zip(sums, parts, strict=True):
                    added = _added(builder, builder.load(part))
                    builder.store(builder.fadd(builder.load(one), added), one)
            start = stop
        found = [builder.load(one) for one in sums]
        return found[0] if n_sums == 1 else context.make_tuple(builder, result, found)

    return result(*arrays), generate


def _read(
    context: BaseContext,
    builder: ir.IRBuilder,
    kind: types.Array,
    data: ir.Value,
    place: ir.Value,
    vector: ir.VectorType,
) -> ir.Value:
    """Return the elements of an array from `place` on, converted to the vector's type."""
    own = ir.VectorType(context.get_value_type(kind.dtype), vector.count)
    at = builder.bitcast(builder.gep(data, [place]), own.as_pointer())
    value = builder.load(at, align=kind.dtype.bitwidth // 8, typ=own)
    return value if own == vector else builder.fpext(value, vector)


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a b + c of vectors."""
    kind = "f32" if isinstance(a.type.element, ir.FloatType) else "f64"
    signature = ir.FunctionType(a.type, [a.type] * 3)
    name = f"llvm.fma.v{a.type.count}{kind}"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), [a, b, c])


def _added(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Return the sum of a vector's elements, by adding its halves until one element is left."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        none = ir.Constant(vector.type, ir.Undefined)
        vector = builder.fadd(
            *(
                builder.shuffle_vector(
                    vector,
                    none,
                    ir.Constant(ir.VectorType(ir.IntType(32), half), [*range(at, at + half)]),
                )
                for at in (0, half)
            )
        )
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _weighted_rows(
    weights: types.Array, rows: types.Array, n: types.Integer, out: types.Array
) -> Intrinsic:
    """Return the signature and the code of `weighted_rows`."""

    def generate(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        values: Sequence[ir.Value],
    ) -> ir.Value:
        w, r, o = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(
                (weights, rows, out), (values[0], values[1], values[3]), strict=True
            )
        )
        vector = ir.VectorType(context.get_value_type(types.float64), ROWS_AT_ONCE)
        lanes = context.get_constant(types.intp, ROWS_AT_ONCE)
        sums = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, [0.0] * ROWS_AT_ONCE), sums)
        with cgutils.for_range(builder, values[2]) as loop:
            weight = builder.load(builder.gep(w.data, [loop.index]))
            row = _read(context, builder, rows, r.data, builder.mul(loop.index, lanes), vector)
            term = builder.fmul(_splat(builder, weight, vector), row)
            builder.store(builder.fadd(builder.load(sums), term), sums)
        builder.store(builder.load(sums), builder.bitcast(o.data, vector.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.none(weights, rows, n, out), generate


def _splat(builder: ir.IRBuilder, value: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a vector whose elements all equal `value`."""
    none, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    places = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(builder.insert_element(none, value, first), none, places)


def weighted_rows(weights: np.ndarray, rows: np.ndarray, n: int, out: np.ndarray) -> None:
    """Set out (ROWS_AT_ONCE,) to the sum of n rows (n, ROWS_AT_ONCE) by weights (n,), float64.

    Each element is summed in the order of the rows, with every product rounded.
    """
    out[:] = 0.0
    for b in range(n):
        out += weights[b] * rows[b]


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """Return a b + c, rounded once; all float32 or all float64."""
    return a * b + c


def total(x: np.ndarray) -> Any:
    """Return the sum of x (n,)."""
    return x.sum()


def dot(x: np.ndarray, y: np.ndarray) -> Any:
    """Return x.y of two arrays (n,), in float32 if both are, else in float64."""
    return x @ y


def square_distance(x: np.ndarray, y: np.ndarray) -> Any:
    """Return ||x - y||^2 of two arrays (n,), in float32 if both are, else in float64."""
    return (x - y) @ (x - y)


def projection(v: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Return v.(x - y) and ||x - y||^2 of arrays (n,), in float32 if all are, else in float64."""
    return v @ (x - y), (x - y) @ (x - y)


@intrinsic
def _fma(_: BaseContext, a: types.Type, b: types.Type, c: types.Type) -> Intrinsic:
    if not a == b == c:
        raise TypingError(f"expected numbers of one type, found {a}, {b} and {c}")
    return a(a, b, c), lambda _context, builder, _signature, values: builder.fma(*values)


# Compiled code calls these; plain Python calls the functions above.
_total = intrinsic(lambda _, x: _sums(_of_total, 1, x))
_dot = intrinsic(lambda _, x, y: _sums(_of_dot, 1, x, y))
_square_distance = intrinsic(lambda _, x, y: _sums(_of_distance, 1, x, y))
_weighted = intrinsic(lambda _, w, rows, n, out: _weighted_rows(w, rows, n, out))
_projection = intrinsic(lambda _, v, x, y: _sums(_of_projection, 2, v, x, y))
overload(fma)(lambda a, b, c: lambda a, b, c: _fma(a, b, c))
overload(total)(lambda x: lambda x: _total(x))
overload(dot)(lambda x, y: lambda x, y: _dot(x, y))
overload(square_distance)(lambda x, y: lambda x, y: _square_distance(x, y))
overload(projection)(lambda v, x, y: lambda v, x, y: _projection(v, x, y))
overload(weighted_rows)(
    lambda weights, rows, n, out: lambda weights, rows, n, out: _weighted(weights, rows, n, out)
)
