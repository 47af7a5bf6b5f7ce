"""Sums of the rows of every node."""

import numpy as np
import pytest

from distsvc.kernels.hyperplane import add_rows
from tests import reference
from tests.kernels.hyperplane_trees import (
    rows,
)


@pytest.mark.parametrize("d", [1, 2, 784])
@reference.forms(add_rows)
def test_twin_add_rows(form, d):
    X, ends = rows(60, d), np.random.default_rng(1).integers(0, 5, 60).astype(np.int32)
    rng = np.random.default_rng(2)
    held = rng.integers(0, 9, 6).astype(float), rng.normal(size=(6, d)), rng.uniform(size=6)
    found, slow, numpy = ([array.copy() for array in held] for _ in range(3))
    form(X, ends, *found)
    reference.add_rows(X, ends, *slow)
    for total, rows_of in zip(
        numpy, (1.0, np.float64(X), (X.astype(float) ** 2).sum(1)), strict=True
    ):
        np.add.at(total, ends, rows_of)
    for expected in (slow, numpy):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-6)
    for total, before in zip(found, held, strict=True):
        assert (total[5] == before[5]).all()


def test_add_rows_in_blocks_and_again():
    X, ends = rows(5000, 3), np.random.default_rng(1).integers(0, 4, 5000).astype(np.int32)
    dumps = set()
    for cuts in ([], [0, 1, 777, 4999], []):
        totals = np.zeros(4), np.zeros((4, 3)), np.zeros(4)
        for part, part_ends in zip(np.split(X, cuts), np.split(ends, cuts), strict=True):
            add_rows(part, part_ends, *totals)
        dumps.add(b"".join(total.tobytes() for total in totals))
    assert len(dumps) == 1
    assert totals[0].sum() == 5000


def test_sums_of_many_rows_are_float64():
    X, ends = np.full((300_000, 1), 0.1, np.float32), np.zeros(300_000, np.int32)
    totals = np.zeros(1), np.zeros((1, 1)), np.zeros(1)
    add_rows(X, ends, *totals)
    assert totals[0][0] == 300_000
    assert totals[1][0, 0] == pytest.approx(300_000 * float(np.float32(0.1)), rel=1e-10)
    assert totals[2][0] == pytest.approx(300_000 * float(np.float32(0.1)) ** 2, rel=1e-7)
