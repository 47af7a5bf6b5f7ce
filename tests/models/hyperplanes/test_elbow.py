"""The number of clusters: the elbow of a curve, and valleys of the density."""

from collections import Counter
from math import atan, ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.models.hyperplanes.tree import elbow, valley

SEEDS = st.integers(0, 2**32 - 1)


def falling(n, seed, power=3.0):
    """A convex curve, whose falls descend."""
    falls = np.random.default_rng(seed).exponential(size=n - 1) ** power + 0.01
    return falls.sum() - np.concatenate([[0.0], np.cumsum(np.sort(falls)[::-1])]) + 1.0


def equation_22(ss):
    """K = 2 .. K_max - 1 with the least sum of the two angles, SS(K) being ss[K - 1]."""
    top = len(ss)

    def angles(K):
        first = (K - 1) / (top - 1) * (ss[0] - ss[-1]) / (ss[0] - ss[K - 1])
        second = (top - 1) / (top - K) * (ss[K - 1] - ss[-1]) / (ss[0] - ss[-1])
        return atan(first) + atan(second)

    return min(range(2, top), key=angles)


def triangle(ss):
    """The angle at P times the squared sides of the triangle A, P, B, of a convex curve."""
    x, y = np.linspace(0.0, 1.0, len(ss)), (ss - ss[-1]) / (ss[0] - ss[-1])
    P = np.column_stack([x, y])[1:-1]
    to_a, to_b = np.array([0.0, 1.0]) - P, np.array([1.0, 0.0]) - P
    a2, b2 = (to_a**2).sum(axis=1), (to_b**2).sum(axis=1)
    angle = np.arccos(np.clip((to_a * to_b).sum(axis=1) / np.sqrt(a2 * b2), -1.0, 1.0))
    ends = 3.0 * np.pi  # where the triangle is flat: 3/4 pi and 2 + 2
    return int(np.argmin([ends, *(angle * (2.0 + a2 + b2)), ends])) + 1


def most_frequent(curve, one):
    n = len(curve)
    tops = [n] if n <= 10 else [ceil(top) for top in np.linspace(10, n, 30)]
    votes = Counter(one(curve[:top]) for top in tops)
    return min(votes, key=lambda k: (-votes[k], k))


RULES = {"angle": equation_22, "weighted": triangle}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [3, 4, 9, 10, 11, 12, 40, 128])
def test_the_elbow_is_the_most_frequent_of_thirty(rule, n):
    found = [elbow(falling(n, seed), rule) for seed in range(15)]
    expected = [most_frequent(falling(n, seed), RULES[rule]) for seed in range(15)]
    assert found == expected
    assert len(set(found)) > 1 or n == 3


@pytest.mark.parametrize("n", [3, 10, 11, 60])
def test_equation_22_on_falling_curves_that_are_not_convex(n):
    for seed in range(15):
        falls = np.random.default_rng(seed).exponential(size=n)
        curve = np.cumsum(falls)[::-1]
        assert elbow(curve, "angle") == most_frequent(curve, equation_22)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", range(2, 9))
def test_a_clear_elbow(rule, k):
    curve = np.concatenate([np.linspace(1000.0, 20.0, k), np.linspace(19.0, 1.0, 50)])
    assert elbow(curve, rule) == k


@pytest.mark.parametrize("rule", RULES)
def test_elbows_of_short_curves(rule):
    assert elbow(np.array([3.0]), rule) == 1
    assert elbow(np.array([3.0, 1.0]), rule) == 2
    assert elbow(np.array([9.0, 1.0, 0.5]), rule) == 2
    assert elbow(np.array([9.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]), rule) == 2


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 11, 64])
@pytest.mark.parametrize("height", [0.0, 7.0])
def test_a_flat_curve_has_one_cluster(rule, n, height):
    assert elbow(np.full(n, height), rule) == 1


@pytest.mark.parametrize("n", [3, 10, 11, 64])
def test_elbows_of_rising_curves(n):
    curve = np.arange(n, dtype=float)
    assert elbow(curve, "weighted") == 1
    assert 2 <= elbow(curve, "angle") < max(n, 3)


@settings(deadline=None)
@given(st.integers(1, 60), SEEDS, st.sampled_from(sorted(RULES)))
def test_any_curve_has_an_elbow(n, seed, rule):
    curve = np.random.default_rng(seed).integers(0, 5, n).astype(float)
    assert 1 <= elbow(curve, rule) <= n


def normal(n, seed, centre=0.0):
    return np.random.default_rng(seed).normal(centre, size=n)


def valley_by_hand(x):
    """Windows about the split and about places up to 4 s away on either side."""
    s = x.std()
    h = 1.06 * s * len(x) ** -0.2
    at = (np.abs(x) <= h).sum()
    places = np.linspace(0.0, 4.0 * s, 161)
    left = max((np.abs(x + place) <= h).sum() for place in places)
    right = max((np.abs(x - place) <= h).sum() for place in places)
    peak = min(left, right)
    return (peak - at) / np.sqrt(peak + at + 1.0), at / max(peak, 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [10, 57, 1000])
def test_valleys_by_hand(n, seed):
    for x in (normal(n, seed), np.concatenate([normal(n, seed, -2.0), normal(n // 2, seed, 2.0)])):
        np.testing.assert_allclose(valley(x), valley_by_hand(x), rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_few_rows_have_no_valley(n):
    assert valley(np.linspace(-1.0, 1.0, n)) == (0.0, 1.0)
    assert valley(np.repeat([-1.0, 1.0], 5)) > (0.0, 0.0)


@pytest.mark.parametrize("place", [0.0, -2.5, 4.0])
def test_equal_rows_have_no_valley(place):
    assert valley(np.full(100, place)) == (0.0, 1.0)
