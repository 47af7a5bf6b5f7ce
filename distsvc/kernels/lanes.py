"""Sums and fused multiply-adds whose bits are the same on every processor.

A compiler that may reorder a sum uses as many partial sums as fit into vector registers, and fuses
multiplications and additions if the processor can. The last bits then depend on the processor. Here
order and fusing are explicit. Element j is added to partial sum j % 32, whatever the register
width. Then the halves of the partial sums are added until one number is left. The elements after
the last multiple of 32 use 8 partial sums, and the last few elements use one.

Processors without fused multiply-add compute `fma` in software, slowly, with the same result.
Without compilation, results are equal up to rounding.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, overload

Factors: TypeAlias = list[tuple[ir.Value, ir.Value]]
Intrinsic: TypeAlias = tuple[Signature, Callable[..., ir.Value]]

LANES = 32, 8, 1
"""Numbers of partial sums that a long sum uses, one after the other. Of 45 elements, 32 are added
to 32 partial sums, the next 8 to 8 partial sums, and the last 5 to one."""

ROWS_AT_ONCE = 32
"""Number of a table's rows that are computed together, each in one lane of a vector register."""

HALF_BFLOAT16_UNIT = 1 << 15
"""Half of a bfloat16's last bit; added to the bits of a float32, it makes truncation round."""

POINTS_AT_ONCE = 4
"""Number of points, a power of 2, whose distances to `ROWS_AT_ONCE` rows are computed together."""

FLOAT32, FLOAT64 = ir.FloatType(), ir.DoubleType()
INT16, INT32 = ir.IntType(16), ir.IntType(32)


def _projection_factors(builder: ir.IRBuilder, v: ir.Value, x: ir.Value, y: ir.Value) -> Factors:
    gap = builder.fsub(x, y)
    return [(v, gap), (gap, gap)]


def _sums(terms: Callable[..., Factors], n_sums: int = 1) -> Callable[..., Intrinsic]:
    """Return a function for numba's `intrinsic` that generates the code of `n_sums` sums.

    The sums are over arrays (n,) of equal length. For vectors of their elements, `terms` returns a
    pair of vectors for each sum. The sum adds their product, such as x y for a dot product.
    """

    def typed(*arrays: types.Array) -> Intrinsic:
        if any(not isinstance(a, types.Array) or a.ndim != 1 or a.layout != "C" for a in arrays):
            raise TypingError(f"expected contiguous arrays of one dimension, found {arrays}")
        wide = types.float32 if all(a.dtype == types.float32 for a in arrays) else types.float64
        result = wide if n_sums == 1 else types.UniTuple(wide, n_sums)

        def generate(context, builder, _, values):
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
                # A multiple of lanes, which are a power of 2.
                stop = builder.and_(n, context.get_constant(types.intp, -lanes))
                with builder.if_then(builder.icmp_signed("<", start, stop)):
                    for part in parts:
                        builder.store(zeros, part)
                    with cgutils.for_range_slice(builder, start, stop, step) as (place, _):
                        found = [_read(builder, view.data, place, vector) for view in views]
                        for part, (a, b) in zip(parts, terms(builder, *found), strict=True):
                            builder.store(_fused(builder, a, b, builder.load(part)), part)
                    for one, part in zip(sums, parts, strict=True):
                        added = _added(builder, builder.load(part))
                        builder.store(builder.fadd(builder.load(one), added), one)
                start = stop
            found = [builder.load(one) for one in sums]
            return found[0] if n_sums == 1 else context.make_tuple(builder, result, found)

        return result(*arrays), generate

    return typed


def _read(builder: ir.IRBuilder, data: ir.Value, place: ir.Value, vector: ir.Type) -> ir.Value:
    """Return the elements of an array from `place` on, converted to the vector's type."""
    element = data.type.pointee
    own = ir.VectorType(element, vector.count)
    at = builder.bitcast(builder.gep(data, [place]), own.as_pointer())
    value = builder.load(at, align=1, typ=own)  # vectors start at any element
    return value if own == vector else builder.fpext(value, vector)


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    kind = "f32" if isinstance(a.type.element, ir.FloatType) else "f64"
    signature = ir.FunctionType(a.type, [a.type] * 3)
    name = f"llvm.fma.v{a.type.count}{kind}"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), [a, b, c])


def _added(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Return the sum of a vector's elements, by adding its halves until one element is left."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        none, places = ir.Constant(vector.type, ir.Undefined), ir.VectorType(INT32, half)
        halves = [
            builder.shuffle_vector(vector, none, ir.Constant(places, [*range(at, at + half)]))
            for at in (0, half)
        ]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.Constant(INT32, 0))


class _RowCode:
    """Generator of LLVM code for vectors of `ROWS_AT_ONCE` elements."""

    def __init__(self, context: Any, builder: ir.IRBuilder, kinds: list[types.Type], values: Any):
        self.builder = builder
        self.arguments = [
            context.make_array(kind)(context, builder, value)
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(kinds, values, strict=True)
        ]
        self._lanes = context.get_constant(types.intp, ROWS_AT_ONCE)
        self.first = context.get_constant(types.intp, 0)

    def read(self, array: Any, place: ir.Value, element: ir.Type) -> ir.Value:
        """Return row `place` of an array as a vector of numbers of the type `element`.

        The bits are not converted, so `element` has the size of the array's own type.
        """
        at = self._address(array, place, element)
        return self.builder.load(at, align=1, typ=_vector(element))

    def write(self, array: Any, place: ir.Value, row: ir.Value) -> None:
        self.builder.store(row, self._address(array, place, row.type.element), align=1)

    def variable(self, element: ir.Type, value: float) -> ir.Value:
        """Return the address of a new vector whose elements all equal a constant."""
        place = cgutils.alloca_once(self.builder, _vector(element))
        self.builder.store(_constant(element, value), place)
        return place

    def splat(self, value: ir.Value) -> ir.Value:
        """Return a vector whose elements all equal `value`."""
        vector, places = _vector(value.type), _constant(INT32, 0)
        none, first = ir.Constant(vector, ir.Undefined), ir.Constant(INT32, 0)
        one = self.builder.insert_element(none, value, first)
        return self.builder.shuffle_vector(one, none, places)

    def element(self, array: Any, place: ir.Value) -> ir.Value:
        """Return a vector whose elements all equal an element of an array."""
        return self.splat(self.builder.load(self.builder.gep(array.data, [place])))

    def _address(self, array: Any, place: ir.Value, element: ir.Type) -> ir.Value:
        start = self.builder.gep(array.data, [self.builder.mul(place, self._lanes)])
        return self.builder.bitcast(start, _vector(element).as_pointer())


def _vector(element: ir.Type) -> ir.VectorType:
    return ir.VectorType(element, ROWS_AT_ONCE)


def _constant(element: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(_vector(element), [value] * ROWS_AT_ONCE)


def _of_rows(code: Callable[[_RowCode], None]) -> Callable[..., Intrinsic]:
    """Return a function for numba's `intrinsic` that generates the code of an in-place function.

    `code` is called to write the vector code, which changes the function's arguments.
    """

    def typed(*kinds: types.Type) -> Intrinsic:
        own = [k if isinstance(k, types.Array) or k == types.int32 else types.intp for k in kinds]

        def generate(context, builder, _, values):
            code(_RowCode(context, builder, own, values))
            return context.get_dummy_value()

        return types.none(*own), generate

    return typed


def _is_less(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return -1 where a < b, else 0, for int16 vectors.

    The sign of a saturated difference takes fewer instructions with AVX-512 than a comparison.
    """
    signature = ir.FunctionType(a.type, [a.type] * 2)
    name = f"llvm.ssub.sat.v{ROWS_AT_ONCE}i16"
    difference = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.ashr(builder.call(difference, [a, b]), _constant(INT16, 15))


def _upper(builder: ir.IRBuilder, row: ir.Value) -> ir.Value:
    """Return the upper 16 bits of each element of an int32 vector, by one permutation."""
    halves = builder.bitcast(row, ir.VectorType(INT16, 2 * ROWS_AT_ONCE))
    none, places = ir.Constant(halves.type, ir.Undefined), [*range(1, 2 * ROWS_AT_ONCE, 2)]
    return builder.shuffle_vector(halves, none, ir.Constant(_vector(INT32), places))


def _weighted_rows(of: _RowCode) -> None:
    builder, (weights, rows, n, out) = of.builder, of.arguments
    total = of.variable(FLOAT32, 0.0)
    with cgutils.for_range(builder, n) as loop:
        weight, row = of.element(weights, loop.index), of.read(rows, loop.index, FLOAT32)
        builder.store(_fused(builder, weight, row, builder.load(total)), total)
    of.write(out, of.first, builder.load(total))


def _squares_of_products(of: _RowCode) -> None:
    builder, (weights, stride, rows, means, n, gaps, out) = of.builder, of.arguments
    with cgutils.for_range(builder, n) as loop:
        gap = builder.fsub(of.read(rows, loop.index, FLOAT64), of.element(means, loop.index))
        of.write(gaps, loop.index, gap)
    product, squares = of.variable(FLOAT64, 0.0), of.variable(FLOAT64, 0.0)
    is_diagonal = builder.icmp_signed("==", stride, of.first)
    one = ir.Constant(n.type, 1)
    with cgutils.for_range(builder, n) as row:
        builder.store(_constant(FLOAT64, 0.0), product)
        first = builder.select(is_diagonal, row.index, of.first)
        stop = builder.add(row.index, one)
        with cgutils.for_range_slice(builder, first, stop, one) as (place, _):
            weight = of.element(weights, builder.add(builder.mul(row.index, stride), place))
            term = builder.fmul(weight, of.read(gaps, place, FLOAT64))
            builder.store(builder.fadd(builder.load(product), term), product)
        found = builder.load(product)
        total = builder.fadd(builder.load(squares), builder.fmul(found, found))
        builder.store(total, squares)
    of.write(out, of.first, builder.load(squares))


def _add_moments(of: _RowCode) -> None:
    builder, (weights, rows, n, stride, first, second) = of.builder, of.arguments
    weight, one = of.read(weights, of.first, FLOAT64), ir.Constant(n.type, 1)
    is_diagonal = builder.icmp_signed("==", stride, of.first)

    def add(array: Any, place: ir.Value, row: ir.Value) -> None:
        at = builder.gep(array.data, [place])
        builder.store(builder.fadd(builder.load(at), _added(builder, row)), at)

    with cgutils.for_range(builder, n) as row:
        weighted = builder.fmul(weight, of.read(rows, row.index, FLOAT64))
        add(first, row.index, weighted)
        start = builder.select(is_diagonal, row.index, of.first)
        stop = builder.add(row.index, one)
        with cgutils.for_range_slice(builder, start, stop, one) as (other, _):
            place = builder.add(builder.mul(row.index, stride), other)
            add(second, place, builder.fmul(weighted, of.read(rows, other, FLOAT64)))


def _column_squares(of: _RowCode) -> None:
    builder, (rows, points, out, lowest, highest) = of.builder, of.arguments
    m, d = cgutils.unpack_tuple(builder, points.shape)
    least, most = of.variable(INT16, 2**15 - 1), of.variable(INT16, -(2**15))
    totals = [of.variable(FLOAT32, 0.0) for _ in range(POINTS_AT_ONCE)]

    def add(point: ir.Value, n: int) -> None:
        places = [builder.add(point, ir.Constant(point.type, one)) for one in range(n)]
        for total in totals[:n]:
            builder.store(_constant(FLOAT32, 0.0), total)
        with cgutils.for_range(builder, d) as feature:
            row = of.read(rows, feature.index, FLOAT32)
            for place, total in zip(places, totals, strict=False):
                value = of.element(points, builder.add(builder.mul(place, d), feature.index))
                gap = builder.fsub(row, value)
                builder.store(_fused(builder, gap, gap, builder.load(total)), total)
        for place, total in zip(places, totals, strict=False):
            bits = builder.bitcast(builder.load(total), _vector(INT32))
            kept = _upper(builder, builder.add(bits, _constant(INT32, HALF_BFLOAT16_UNIT)))
            of.write(out, place, kept)
            for bound, side in ((least, "<"), (most, ">")):
                old = builder.load(bound)
                closer = builder.icmp_signed(side, kept, old)
                builder.store(builder.select(closer, kept, old), bound)

    start = of.first
    for n in (POINTS_AT_ONCE, 1):
        stop = builder.and_(m, ir.Constant(m.type, -n))
        step = ir.Constant(m.type, n)
        with cgutils.for_range_slice(builder, start, stop, step) as (point, _):
            add(point, n)
        start = stop
    of.write(lowest, of.first, builder.sext(builder.load(least), _vector(INT32)))
    of.write(highest, of.first, builder.sext(builder.load(most), _vector(INT32)))


def _count_up_to(of: _RowCode) -> None:
    builder, (values, limits, counts) = of.builder, of.arguments
    m = cgutils.unpack_tuple(builder, values.shape)[0]
    limit = builder.trunc(of.read(limits, of.first, INT32), _vector(INT16))
    count = of.variable(INT16, 0)
    builder.store(of.splat(builder.trunc(m, INT16)), count)
    with cgutils.for_range(builder, m) as loop:
        above = _is_less(builder, limit, of.read(values, loop.index, INT16))
        builder.store(builder.add(builder.load(count), above), count)
    of.write(counts, of.first, builder.sext(builder.load(count), _vector(INT32)))


def _sum_below(of: _RowCode) -> None:
    builder, (squares, limits, *span, sums, counts) = of.builder, of.arguments
    limit = builder.trunc(of.read(limits, of.first, INT32), _vector(INT16))
    total, count = of.variable(FLOAT32, 0.0), of.variable(INT16, 0)
    with cgutils.for_range_slice(builder, *span) as (place, _):
        kept = of.read(squares, place, INT16)
        below = _is_less(builder, kept, limit)
        builder.store(builder.sub(builder.load(count), below), count)
        kept = builder.zext(builder.and_(kept, below), _vector(INT32))
        row = builder.bitcast(builder.shl(kept, _constant(INT32, 16)), _vector(FLOAT32))
        builder.store(builder.fadd(builder.load(total), row), total)
    of.write(sums, of.first, builder.load(total))
    of.write(counts, of.first, builder.sext(builder.load(count), _vector(INT32)))


def column_squares(rows, points, out, lowest, highest):
    """Set out (m, ROWS_AT_ONCE) to squared distances between points (m, d) and rows of a table.

    rows (d, ROWS_AT_ONCE) has one row of the table in each column. Rows and points are contiguous
    float32. Squares are added in the order of the features, each with one rounding. A sum is
    rounded to bfloat16, the upper 16 bits of a float32. These bits are stored as int16, which have
    the same order. lowest and highest (ROWS_AT_ONCE,) int32 are set to the extremes of each column.
    """
    squares = np.zeros(out.shape, np.float32)
    with np.errstate(over="ignore"):
        for k in range(len(rows)):
            gap = rows[k] - points[:, k, None]
            squares += gap * gap
    out[:] = (squares.view(np.int32) + np.int32(HALF_BFLOAT16_UNIT)) >> 16
    lowest[:], highest[:] = out.min(axis=0), out.max(axis=0)


def count_up_to(values, limits, counts):
    """Set counts (ROWS_AT_ONCE,) to the number of each column's elements that are <= its limit.

    values (m, ROWS_AT_ONCE) are int16, m < 2^15. Limits and counts are int32; limits fit int16.
    """
    counts[:] = (values <= limits).sum(axis=0)


def sum_below(squares, limits, start, stop, step, sums, counts):
    """Set sums (ROWS_AT_ONCE,) float32 to the sum of each column's elements below its limit.

    counts (ROWS_AT_ONCE,) int32 are set to the number of these elements. squares (m, ROWS_AT_ONCE)
    int16, from `column_squares`, and limits (ROWS_AT_ONCE,) int32 are bits of bfloat16 numbers.
    The rows range(start, stop, step) are added in this order.
    """
    part = squares[start:stop:step]
    sums[:], counts[:] = 0.0, (part < limits).sum(axis=0)
    for row in (np.where(part < limits, part, 0).astype(np.int32) << 16).view(np.float32):
        sums += row


def weighted_rows(weights, rows, n, out):
    """Set out (ROWS_AT_ONCE,) to weights (n,) @ rows (n, ROWS_AT_ONCE), all float32.

    Each element is summed in the order of the rows, with one rounding a term.
    """
    out[:] = 0.0
    for b in range(n):
        out += weights[b] * rows[b]


def squares_of_products(weights, stride, rows, means, n, gaps, out):
    """Set out (ROWS_AT_ONCE,) to ||L (x - means)||^2 for each column x of the array `rows`.

    If `stride` is p, L is the lower triangle of weights[:n, :n], with weights (p, p). If `stride`
    is 0, L is diagonal with the entries weights[0, :n]. Only the first n of rows (p, ROWS_AT_ONCE)
    and means (p,) are used. gaps (p, ROWS_AT_ONCE) is overwritten. All are float64.
    """
    gaps[:n] = rows[:n] - means[:n, None]
    lower = weights[:n, :n] if stride else np.diag(weights[0, :n])
    out[:] = ((np.tril(lower) @ gaps[:n]) ** 2).sum(axis=0)


def add_moments(weights, rows, n, stride, first, second):
    """Add the weighted sums of x and of x x.T to `first` and `second`.

    The sums are over the columns x of rows (p, ROWS_AT_ONCE), of which only the first n rows are
    used. weights are (ROWS_AT_ONCE,), and first is (p,). If `stride` is p, the lower triangle of
    x x.T is added to second (p, p). If `stride` is 0, the diagonal is added to second (1, p). All
    are float64.
    """
    weighted = weights * rows[:n]
    first[:n] += weighted.sum(axis=1)
    if stride:
        second[:n, :n] += np.tril(weighted @ rows[:n].T)
    else:
        second[0, :n] += (weighted * rows[:n]).sum(axis=1)


def fma(a, b, c):
    """Return a b + c, rounded once. Arguments are all float32 or all float64."""
    return a * b + c


def total(x):
    """Return the sum of x (n,), in float32 if x is float32, else in float64."""
    return x.sum()


def dot(x, y):
    """Return x.y of two arrays (n,), in float32 if both arrays are float32, else in float64."""
    return x @ y


def square_distance(x, y):
    """Return ||x - y||^2 of two arrays (n,).

    The result is float32 if both arrays are float32, else float64.
    """
    return (x - y) @ (x - y)


def projection(v, x, y):
    """Return v.(x - y) and ||x - y||^2 of three arrays (n,).

    The results are float32 if all arrays are float32, else float64.
    """
    return v @ (x - y), (x - y) @ (x - y)


def _fma(a: types.Type, b: types.Type, c: types.Type) -> Intrinsic:
    if not a == b == c:
        raise TypingError(f"expected numbers of one type, found {a}, {b} and {c}")
    return a(a, b, c), lambda _context, builder, _signature, values: builder.fma(*values)


def _compile(function: Callable[..., Any], typed: Callable[..., Intrinsic]) -> None:
    """Make numba compile calls of a function to special code, instead of its Python code.

    `typed` is a function for numba's `intrinsic`, which generates the special code.
    """

    def definition(_: Any, *kinds: types.Type) -> Intrinsic:
        return typed(*kinds)

    own = signature(definition)
    context, parameters = own.parameters["_"], signature(function).parameters.values()
    definition.__signature__ = own.replace(parameters=[context, *parameters])  # type: ignore
    body = intrinsic(definition)
    overload(function)(lambda *given: lambda *given: body(*given))


_compile(fma, _fma)
_compile(total, _sums(lambda _, x: [(x, ir.Constant(x.type, [1.0] * x.type.count))]))
_compile(dot, _sums(lambda _, x, y: [(x, y)]))
_compile(square_distance, _sums(lambda builder, x, y: [(builder.fsub(x, y),) * 2]))
_compile(projection, _sums(_projection_factors, 2))
_compile(column_squares, _of_rows(_column_squares))
_compile(count_up_to, _of_rows(_count_up_to))
_compile(sum_below, _of_rows(_sum_below))
_compile(weighted_rows, _of_rows(_weighted_rows))
_compile(squares_of_products, _of_rows(_squares_of_products))
_compile(add_moments, _of_rows(_add_moments))
