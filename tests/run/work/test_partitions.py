"""Partitions cover a table once, in order, on the borders of its storage."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distsvc.run.work.partitions import (
    BLOCK_BYTES,
    MAX_BLOCK_ROWS,
    choose_block_rows,
    plan_partitions,
)

extents = st.lists(st.integers(1, 60), max_size=40)
sizes = st.integers(1, 50)


@given(extents, sizes)
def test_every_row_once_and_in_order(extents, size):
    partitions = plan_partitions(extents, size)
    rows = [row for start, stop in partitions for row in range(start, stop)]
    assert rows == list(range(sum(extents)))


@given(extents, sizes)
def test_no_partition_is_empty_or_more_than_twice_the_size(extents, size):
    assert all(0 < stop - start <= 2 * size for start, stop in plan_partitions(extents, size))


@given(extents, sizes)
def test_borders_lie_between_units_but_within_large_ones(extents, size):
    edges = [0, *itertools.accumulate(extents)]
    large = [(a, b) for a, b in itertools.pairwise(edges) if b - a > 2 * size]
    for start, stop in plan_partitions(extents, size):
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
    for one, two in itertools.pairwise(plan_partitions(extents, size)):
        if one[0] not in large and two[0] not in large:
            first_unit_of_two = next(e for e in itertools.accumulate(extents) if e > two[0])
            assert first_unit_of_two - one[0] > size


@given(st.integers(1, 10_000), sizes)
def test_pieces_of_a_large_unit_are_even(rows, size):
    lengths = [stop - start for start, stop in plan_partitions([rows], size)]
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
    assert plan_partitions(extents, size) == expected


@given(st.integers(1, 10**7))
def test_block_rows(n_columns):
    rows = choose_block_rows(n_columns)
    assert 1 <= rows <= MAX_BLOCK_ROWS
    assert rows == 1 or rows * n_columns * 8 <= BLOCK_BYTES
    more = (rows + 1) * n_columns * 8 > BLOCK_BYTES
    assert more or rows == MAX_BLOCK_ROWS
