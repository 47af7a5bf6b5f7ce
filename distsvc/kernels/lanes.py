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


def _column_squares(
    rows: types.Array, points: types.Array, out: types.Array, lowest: types.Array,
    highest: types.Array,
) -> Intrinsic:  # fmt: skip
    """Return the signature and the code of `column_squares`."""
    kinds = rows, points, out, lowest, highest

    def generate(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        values: Sequence[ir.Value],
    ) -> ir.Value:
        r, p, o, low, high = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(kinds, values, strict=True)
        )
        m, d = cgutils.unpack_tuple(builder, p.shape)
        number, integer = (context.get_value_type(kind) for kind in (types.float32, types.int32))
        vector, whole = (ir.VectorType(kind, ROWS_AT_ONCE) for kind in (number, integer))
        lanes = context.get_constant(types.intp, ROWS_AT_ONCE)
        least, most = (cgutils.alloca_once(builder, whole) for _ in range(2))
        builder.store(ir.Constant(whole, [2**31 - 1] * ROWS_AT_ONCE), least)
        builder.store(ir.Constant(whole, [-(2**31)] * ROWS_AT_ONCE), most)
        total = cgutils.alloca_once(builder, vector)
        with cgutils.for_range(builder, m) as point:
            builder.store(ir.Constant(vector, [0.0] * ROWS_AT_ONCE), total)
            with cgutils.for_range(builder, d) as feature:
                place = builder.add(builder.mul(point.index, d), feature.index)
                value = _splat(builder, builder.load(builder.gep(p.data, [place])), vector)
                at = builder.mul(feature.index, lanes)
                gap = builder.fsub(_read(context, builder, rows, r.data, at, vector), value)
                builder.store(_fused(builder, gap, gap, builder.load(total)), total)
            at = builder.gep(o.data, [builder.mul(point.index, lanes)])
            found = builder.load(total)
            builder.store(found, builder.bitcast(at, vector.as_pointer()), align=4)
            bits = builder.bitcast(found, whole)
            for place, side in ((least, "<"), (most, ">")):
                old = builder.load(place)
                builder.store(
                    builder.select(builder.icmp_signed(side, bits, old), bits, old), place
                )
        for place, array in ((least, low), (most, high)):
            at = builder.bitcast(array.data, whole.as_pointer())
            builder.store(builder.load(place), at, align=4)
        return context.get_dummy_value()

    return types.none(*kinds), generate


def _count_up_to(values: types.Array, limits: types.Array, counts: types.Array) -> Intrinsic:
    """Return the signature and the code of `count_up_to`."""
    signature = types.none(values, limits, counts)

    def generate(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        given: Sequence[ir.Value],
    ) -> ir.Value:
        v, most, c = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip((values, limits, counts), given, strict=True)
        )
        m = cgutils.unpack_tuple(builder, v.shape)[0]
        vector = ir.VectorType(context.get_value_type(values.dtype), ROWS_AT_ONCE)
        whole = ir.VectorType(context.get_value_type(types.int32), ROWS_AT_ONCE)
        zero, lanes = (context.get_constant(types.intp, value) for value in (0, ROWS_AT_ONCE))
        limit = _read(context, builder, limits, most.data, zero, whole)
        limit = limit if vector == whole else builder.trunc(limit, vector)
        count = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, [0] * ROWS_AT_ONCE), count)
        with cgutils.for_range(builder, m) as loop:
            row = _read(context, builder, values, v.data, builder.mul(loop.index, lanes), vector)
            below = builder.sext(builder.icmp_signed("<=", row, limit), vector)  # -1 if true
            builder.store(builder.sub(builder.load(count), below), count)
        found = builder.load(count)
        found = found if vector == whole else builder.sext(found, whole)
        builder.store(found, builder.bitcast(c.data, whole.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, generate


def _column_steps(
    squares: types.Array, lowest: types.Array, shift: types.Integer, out: types.Array
) -> Intrinsic:
    """Return the signature and the code of `column_steps`."""
    signature = types.none(squares, lowest, types.int32, out)

    def generate(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        given: Sequence[ir.Value],
    ) -> ir.Value:
        q, low, o = (
            context.make_array(kind)(context, builder, value)
            for kind, value in ((squares, given[0]), (lowest, given[1]), (out, given[3]))
        )
        m = cgutils.unpack_tuple(builder, q.shape)[0]
        whole = ir.VectorType(context.get_value_type(types.int32), ROWS_AT_ONCE)
        vector = ir.VectorType(context.get_value_type(types.int16), ROWS_AT_ONCE)
        zero, lanes = (context.get_constant(types.intp, value) for value in (0, ROWS_AT_ONCE))
        first = _read(context, builder, lowest, low.data, zero, whole)
        dropped = _splat(builder, given[2], whole)
        data = builder.bitcast(q.data, whole.element.as_pointer())
        with cgutils.for_range(builder, m) as loop:
            place = builder.mul(loop.index, lanes)
            row = _read(context, builder, lowest, data, place, whole)
            steps = builder.trunc(builder.sub(builder.ashr(row, dropped), first), vector)
            at = builder.bitcast(builder.gep(o.data, [place]), vector.as_pointer())
            builder.store(steps, at, align=2)
        return context.get_dummy_value()

    return signature, generate


def _sum_below(
    squares: types.Array, limits: types.Array, start: types.Integer, stop: types.Integer,
    step: types.Integer, sums: types.Array,
) -> Intrinsic:  # fmt: skip
    """Return the signature and the code of `sum_below`."""
    signature = types.none(squares, limits, types.intp, types.intp, types.intp, sums)

    def generate(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        values: Sequence[ir.Value],
    ) -> ir.Value:
        q, bound, s = (
            context.make_array(kind)(context, builder, value)
            for kind, value in ((squares, values[0]), (limits, values[1]), (sums, values[5]))
        )
        number, integer = (context.get_value_type(kind) for kind in (types.float32, types.int32))
        vector, whole = (ir.VectorType(kind, ROWS_AT_ONCE) for kind in (number, integer))
        zero, lanes = (context.get_constant(types.intp, value) for value in (0, ROWS_AT_ONCE))
        zeros = ir.Constant(vector, [0.0] * ROWS_AT_ONCE)
        limit = _read(context, builder, limits, bound.data, zero, whole)
        total = cgutils.alloca_once(builder, vector)
        builder.store(zeros, total)
        with cgutils.for_range_slice(builder, *values[2:5]) as (place, _):
            row = _read(context, builder, squares, q.data, builder.mul(place, lanes), vector)
            below = builder.icmp_signed("<", builder.bitcast(row, whole), limit)
            term = builder.select(below, row, zeros)
            builder.store(builder.fadd(builder.load(total), term), total)
        at = builder.bitcast(s.data, vector.as_pointer())
        builder.store(builder.load(total), at, align=4)
        return context.get_dummy_value()

    return signature, generate


def column_squares(
    rows: np.ndarray, points: np.ndarray, out: np.ndarray, lowest: np.ndarray, highest: np.ndarray
) -> None:
    """Set out (m, ROWS_AT_ONCE) to the squared distances of points (m, d) to columns of rows.

    rows (d, ROWS_AT_ONCE), all contiguous float32. Squares are added in the order of the features,
    each with one rounding. lowest and highest (ROWS_AT_ONCE,) int32 are set to the extremes of a
    column's distances, as integers of their bits.
    """
    out[:] = 0.0
    with np.errstate(over="ignore"):
        for k in range(len(rows)):
            gap = rows[k] - points[:, k, None]
            out += gap * gap
    lowest[:], highest[:] = out.view(np.int32).min(axis=0), out.view(np.int32).max(axis=0)


def column_steps(squares: np.ndarray, lowest: np.ndarray, shift: np.int32, out: np.ndarray) -> None:
    """Set out (m, ROWS_AT_ONCE) int16 to the bits of squares, shifted right, less `lowest`.

    squares (m, ROWS_AT_ONCE) float32, lowest (ROWS_AT_ONCE,) int32, shift int32. Higher bits of the
    results are lost.
    """
    out[:] = (squares.view(np.int32) >> shift) - lowest


def count_up_to(values: np.ndarray, limits: np.ndarray, counts: np.ndarray) -> None:
    """Set counts (ROWS_AT_ONCE,) to the number of elements of each column up to its limit.

    values (m, ROWS_AT_ONCE) int16 or int32, m < 2^15; limits, of that range, and counts int32.
    """
    counts[:] = (values <= limits).sum(axis=0)


def sum_below(
    squares: np.ndarray, limits: np.ndarray, start: int, stop: int, step: int, sums: np.ndarray
) -> None:
    """Set sums (ROWS_AT_ONCE,) float32 of the elements of each column below its limit.

    limits (ROWS_AT_ONCE,) int32 are compared with the bits of squares (m, ROWS_AT_ONCE) float32.
    Only the rows start, start + step, ... below stop are added, in this order.
    """
    part = squares[start:stop:step]
    sums[:] = 0.0
    for row in np.where(part.view(np.int32) < limits, part, np.float32(0.0)):
        sums += row


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
_squares = intrinsic(
    lambda _, rows, points, out, lowest, highest: _column_squares(
        rows, points, out, lowest, highest
    )
)
_counted = intrinsic(lambda _, values, limits, counts: _count_up_to(values, limits, counts))
_steps = intrinsic(
    lambda _, squares, lowest, shift, out: _column_steps(squares, lowest, shift, out)
)
_summed = intrinsic(
    lambda _, squares, limits, start, stop, step, sums: _sum_below(
        squares, limits, start, stop, step, sums
    )
)
_projection = intrinsic(lambda _, v, x, y: _sums(_of_projection, 2, v, x, y))
overload(fma)(lambda a, b, c: lambda a, b, c: _fma(a, b, c))
overload(total)(lambda x: lambda x: _total(x))
overload(dot)(lambda x, y: lambda x, y: _dot(x, y))
overload(square_distance)(lambda x, y: lambda x, y: _square_distance(x, y))
overload(projection)(lambda v, x, y: lambda v, x, y: _projection(v, x, y))
overload(column_squares)(
    lambda rows, points, out, lowest, highest: (
        lambda rows, points, out, lowest, highest: _squares(rows, points, out, lowest, highest)
    )
)
overload(column_steps)(
    lambda squares, lowest, shift, out: (
        lambda squares, lowest, shift, out: _steps(squares, lowest, shift, out)
    )
)
overload(count_up_to)(
    lambda values, limits, counts: lambda values, limits, counts: _counted(values, limits, counts)
)
overload(sum_below)(
    lambda squares, limits, start, stop, step, sums: (
        lambda squares, limits, start, stop, step, sums: _summed(
            squares, limits, start, stop, step, sums
        )
    )
)
overload(weighted_rows)(
    lambda weights, rows, n, out: lambda weights, rows, n, out: _weighted(weights, rows, n, out)
)
