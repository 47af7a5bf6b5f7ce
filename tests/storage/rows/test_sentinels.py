"""Numbers that stand for missing values, in columns of every kind."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from distsvc.storage.rows.features import is_sentinel, without_sentinels

SIGNED = [pa.int8(), pa.int16(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(22, 2)]
LISTS = [pa.list_(pa.float64()), pa.large_list(pa.int32()), pa.list_(pa.float32(), 2)]


@pytest.mark.parametrize("kind", SIGNED, ids=str)
def test_numbers_become_null(kind):
    array = pa.array([1, -99, None, 3], pa.int64()).cast(kind)
    found = without_sentinels(array, [-99.0, 1e20, 1.5])
    assert found.to_pylist() == [1, None, None, 3]
    assert found.type == kind


def test_they_are_compared_in_the_type_of_the_column():
    assert without_sentinels(pa.array([1e20, 0.1], pa.float32()), [1e20, 0.1]).null_count == 2
    assert without_sentinels(pa.array([1e20, 0.1]), [float(np.float32(1e20))]).null_count == 0
    small = pa.array(np.array([np.inf, -99.0], np.float16))
    assert without_sentinels(small, [1e20, -99.0]).is_null().to_pylist() == [False, True]


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_numbers_of_lists(kind):
    array = pa.array([[1, -99], None, [3, None], [-99, -99]], kind)
    wanted = [[1, None], None, [3, None], [None, None]]
    for first in range(4):
        assert without_sentinels(array[first:], [-99.0]).to_pylist() == wanted[first:]


@pytest.mark.parametrize(
    "array", [pa.array(["-99"]), pa.array([True]), pa.array([-99], pa.int32()).cast(pa.date32())]
)
def test_values_that_are_no_numbers_are_unchanged(array):
    assert without_sentinels(array, [-99.0, 1.0]) is array


def test_arrays_without_sentinels_are_unchanged():
    array = pa.array([1.0, -99.0])
    assert without_sentinels(array, []) is array
    assert without_sentinels(array, [7.0]) is array


def test_numbers_of_any_shape():
    assert is_sentinel(np.array([[1, -99], [2, 3]]), [-99.0, 3.0]).tolist() == [
        [False, True], [False, True],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pa.decimal32(6, 2), pa.decimal64(12, 2), pa.decimal128(12, 2), pa.decimal256(50, 2)]
)
def test_decimals_are_compared_as_they_are_written(kind):
    values = pa.array([Decimal("-99.99"), Decimal("0.57"), Decimal("0.58"), None], kind)
    assert without_sentinels(values, [-99.99, 0.57, 0.575, 1e300]).to_pylist() == [
        None,
        None,
        Decimal("0.58"),
        None,
    ]


def test_large_integers_are_compared_exactly():
    values = pa.array([2**53 + 1, 2**53, -9999, None])
    assert without_sentinels(values, [2.0**53, -9999.0, 0.5, 1e30]).to_pylist() == [
        2**53 + 1,
        None,
        None,
        None,
    ]
