"""Partitions cover a table once, in order, on the borders of its storage."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distsvc.run.work.plan import (
    BLOCK_BYTES,
    MAX_BLOCK_ROWS,
    MIN_PARTITIONS,
    choose_block_rows,
    join_parts,
    plan_parts,
)

extents = st.lists(st.integers(1, 60), max_size=40)
sizes = st.integers(1, 50)


@given(extents, sizes)
def test_every_row_once_and_in_order(extents, size):
    partitions = plan_parts(extents, size)
    rows = [row for start, stop in partitions for row in range(start, stop)]
    assert rows == list(range(sum(extents)))


@given(extents, sizes)
def test_no_partition_is_empty_or_more_than_twice_the_size(extents, size):
    assert all(0 < stop - start <= 2 * size for start, stop in plan_parts(extents, size))


@given(extents, sizes)
def test_borders_lie_between_units_but_within_large_ones(extents, size):
    edges = [0, *itertools.accumulate(extents)]
    large = [(a, b) for a, b in itertools.pairwise(edges) if b - a > 2 * size]
    for start, stop in plan_parts(extents, size):
        for border in (start, stop):
            assert border in edges or any(a < border < b for a, b in large)
        if any(a <= start and stop <= b for a, b in large):
            assert stop - start <= size


@given(extents, sizes)
def test_neighbours_that_fit_together_are_joined(extents, size):
    large = set()
    for edge, rows in zip(itertools.accumulate(extents), extents, strict=True):
        if rows > 2 * size:
            large |= set(range(edge - rows, edge))
    for one, two in itertools.pairwise(plan_parts(extents, size)):
        if one[0] not in large and two[0] not in large:
            first_unit_of_two = next(e for e in itertools.accumulate(extents) if e > two[0])
            assert first_unit_of_two - one[0] > size


@given(st.integers(1, 10_000), sizes)
def test_pieces_of_a_large_unit_are_even(rows, size):
    lengths = [stop - start for start, stop in plan_parts([rows], size)]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    ("extents", "size", "expected"),
    [
        ([], 10, []),
        ([10], 10, [(0, 10)]),
        ([20], 10, [(0, 20)]),
        ([21], 10, [(0, 7), (7, 14), (14, 21)]),
        ([4, 4, 4], 8, [(0, 8), (8, 12)]),
        ([4, 25, 4], 10, [(0, 4), (4, 12), (12, 20), (20, 29), (29, 33)]),
        ([3, 3, 3], 1000, [(0, 9)]),
        ([1_048_576] * 3, 1_000_000, [(i * 1_048_576, (i + 1) * 1_048_576) for i in range(3)]),
    ],
)
def test_examples(extents, size, expected):
    assert plan_parts(extents, size) == expected


@given(st.lists(st.integers(1, 60), max_size=900), st.integers(1, 10**6))
def test_joined_parts_are_partitions(lengths, n_columns):
    ends = list(itertools.accumulate(lengths))
    parts = list(itertools.pairwise([0, *ends]))
    found = join_parts(parts, n_columns)
    assert [row for one in found for row in one] == sorted(row for one in found for row in one)
    assert {start for start, _ in found} <= {start for start, _ in parts}
    assert {stop for _, stop in found} <= {stop for _, stop in parts}
    assert sum(stop - start for start, stop in found) == sum(lengths)
    most = min(choose_block_rows(n_columns), sum(lengths) // MIN_PARTITIONS)
    for start, stop in found:
        assert (start, stop) in parts or stop - start <= most
    for (start, _), (_, stop) in itertools.pairwise(found):
        assert stop - start > most or stop - start > max(lengths)


def test_few_or_large_parts_stay_as_they_are():
    few = [(k * 50, k * 50 + 50) for k in range(MIN_PARTITIONS)]
    assert join_parts(few, 4) == few
    assert join_parts([], 4) == []
    large = [(k * 100_000, k * 100_000 + 100_000) for k in range(1000)]
    assert join_parts(large, 4) == large


def test_many_small_parts_are_few_partitions():
    parts = [(k * 50, k * 50 + 50) for k in range(10_000)]
    found = join_parts(parts, 4)
    assert len(found) == 65
    assert {stop - start for start, stop in found[:-1]} == {7800}
    wide = join_parts(parts, 10_000)  # of which a block has 419 rows
    assert {stop - start for start, stop in wide[:-1]} == {400}


@given(st.integers(1, 10**7))
def test_block_rows(n_columns):
    rows = choose_block_rows(n_columns)
    assert 1 <= rows <= MAX_BLOCK_ROWS
    assert rows == 1 or rows * n_columns * 8 <= BLOCK_BYTES
    more = (rows + 1) * n_columns * 8 > BLOCK_BYTES
    assert more or rows == MAX_BLOCK_ROWS
