"""Counts of pairs, beside NumPy's and the kernels as plain Python."""

import numpy as np
import pytest

from distsvc.kernels import agreement
from tests import reference

BOTH = pytest.mark.parametrize("plain", [False, True])


def labels(m, n, seed=0):
    random = np.random.default_rng(seed)
    found = np.array([random.integers(0, random.integers(1, 9), n) for _ in range(m)], np.int32)
    return found, found.max(axis=1) + 1


@BOTH
def test_pairs_that_two_clusterings_keep_together(plain):
    rows, sizes = labels(5, 40)
    kernel = reference.plain(agreement.pairs_together) if plain else agreement.pairs_together
    same = rows[:, :, None] == rows[:, None]
    expected = [[((p & q).sum() - 40) // 2 for q in same] for p in same]
    assert kernel(rows, sizes).tolist() == expected


@BOTH
def test_neighbours_of_other_clusters(plain):
    rows = labels(1, 60)[0][0]
    near = np.random.default_rng(1).integers(0, 60, (60, 7))
    kernel = reference.plain(agreement.separated_pairs) if plain else agreement.separated_pairs
    assert kernel(rows, near) == (rows[near] != rows[:, None]).sum()
    assert kernel(rows[:1], near[:1, :0]) == 0
