import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.boundary import labelling
from distsvc.models.support_vector.boundary.labelling import (
    Boundary,
    DecisionFunction,
    Nearest,
    clusters_of_points,
)
from tests import reference
from tests.normal_rows import rows


def function(b=20, d=2, seed=1, total=8.0, gamma=0.5):
    rng = np.random.default_rng(seed)
    a = rng.uniform(0.5, 1.5, b)
    S = rng.normal(scale=2.0, size=(d, b)).astype(np.float32)
    return DecisionFunction(S, (a * total / a.sum()).astype(np.float32), gamma)


def modes(*places, height=1.5, gamma=0.5):
    """A decision function with one vector at each place."""
    S = np.ascontiguousarray(np.array(places, np.float32).T)
    return DecisionFunction(S, np.full(len(places), height, np.float32), gamma)


def test_the_decision_function():
    f, X = function(), rows(30)
    expected = reference.weighted_sums(X, f.S, f.a, f.gamma) - 1.0
    np.testing.assert_allclose(f(X), expected, atol=1e-5)
    assert f(X).dtype == np.float32
    assert f.sigma == 1.0


# --- nearest points


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 300), st.integers(1, 4), st.booleans(), st.integers(0, 2**32 - 1))
def test_nearest_cluster_is_the_cluster_of_the_nearest_point(m, k, apart, seed):
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, k, m).astype(np.int32)
    points = rng.integers(0, 4, (m, 2)).astype(np.float32) + 9.0 * apart * clusters[:, None]
    X = rng.integers(-1, 6 + 9 * k * apart, (60, 2)).astype(np.float32)
    found = clusters[Nearest(points.astype(np.float32), clusters)(X)]
    assert (found == clusters[reference.nearest_point(X, points.astype(np.float32))]).all()


# --- the boundary


def collected(f, X, keys, limit, cuts=(), epsilon=0.5, order=None):
    parts = np.split(np.arange(len(X)), sorted(cuts))
    total = Boundary.empty(f)
    for i in order if order is not None else range(len(parts)):
        part = parts[i]
        found = Boundary.collect(f, X[part], keys[part], epsilon, limit)
        total = total.merge(found, limit)
    return total


def same(a, b):
    return all((getattr(a, n) == getattr(b, n)).all() for n in ("X", "keys", "owner", "counts"))


def test_a_small_boundary_is_kept_whole():
    f, X = function(), rows(400)
    keys = row_keys(0, np.arange(400))
    found = Boundary.collect(f, X, keys, 0.3, 400)
    near = np.flatnonzero(np.abs(f(X)) <= 0.3)
    assert 10 < near.size < 390
    expected = near[np.argsort(keys[near])]
    np.testing.assert_array_equal(found.X, X[expected])
    assert (found.keys == keys[expected]).all()
    assert (found.owner == reference.nearest_point(found.X, f.S.T)).all()
    assert found.counts.sum() == near.size


def test_a_large_boundary_keeps_the_lowest_keys_of_every_vector():
    f, X = function(), rows(2000)
    keys = row_keys(0, np.arange(2000))
    found = Boundary.collect(f, X, keys, 0.5, 100)
    near = np.flatnonzero(np.abs(f(X)) <= 0.5)
    owner = reference.nearest_point(X[near], f.S.T)
    counts = np.bincount(owner, minlength=20)
    q = max(q for q in range(1, 2000) if np.minimum(counts, q).sum() <= 100)
    expected = [sorted(keys[near[owner == v]])[:q] for v in range(20)]
    assert sorted(found.keys) == sorted(np.concatenate(expected))
    assert (found.counts == counts).all()
    assert 80 < len(found.X) <= 100


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 300), max_size=6),
    st.integers(1, 320),
    st.randoms(use_true_random=False),
)
def test_the_boundary_does_not_depend_on_the_blocks(cuts, limit, random):
    f, X = function(), rows(300)
    keys = row_keys(5, np.arange(300))
    order = list(range(len(cuts) + 1))
    random.shuffle(order)
    whole = Boundary.collect(f, X, keys, 0.5, limit)
    assert same(collected(f, X, keys, limit, cuts, order=order), whole)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 200))
def test_quota(counts, limit):
    counts = np.array(counts)
    fits = [q for q in range(1, 52) if np.minimum(counts, q).sum() <= limit]
    found = labelling.quota(counts, limit)
    if not fits:
        assert found == 1
    else:
        assert np.minimum(counts, found).sum() == np.minimum(counts, max(fits)).sum()


# --- equilibria


def test_end_points_are_merged_within_a_hundredth_of_sigma():
    f = modes((0, 0), (20, 0), (0, 20))
    ends = np.array([[0, 0], [0.005, 0], [20, 0], [0.012, 0], [0, 20], [0, 20.004]], np.float32)
    E, member = labelling.merge_equilibria(f, ends)
    assert len(E) == 3
    assert member[0] == member[1] == member[3]
    assert member[4] == member[5]
    assert len({member[0], member[2], member[4]}) == 3
    np.testing.assert_allclose(E[member[[0, 2, 4]]], f.S.T, atol=1e-3)


def test_equilibria_are_moved_off_saddles():
    f = modes((-2, 0), (2, 0))
    saddle = np.array([[0.0, 1.0], [0.0, -3.0]], np.float32)  # trajectories along the ridge's line
    ends = labelling.climb(f, saddle)
    np.testing.assert_allclose(ends, 0.0, atol=1e-3)
    E, member = labelling.merge_equilibria(f, ends)
    assert len(E) == 1
    assert abs(E[member[0], 0]) > 1.9


def test_equilibria_do_not_depend_on_the_order_of_ends():
    f = function()
    ends = labelling.climb(f, rows(100))
    order = np.random.default_rng(0).permutation(100)
    E, member = labelling.merge_equilibria(f, ends)
    again, moved = labelling.merge_equilibria(f, ends[order])
    assert (again == E).all()
    assert (moved == member[order]).all()
    assert len(E) < 20


# --- components


def every_pair(f, E, samples):
    pairs = np.array([(i, j) for i in range(len(E)) for j in range(i)]).reshape(-1, 2)
    low = reference.lowest_on_segments(E, pairs, f.S, f.a, f.gamma, samples)
    return pairs[low >= 1.0 - labelling.SEGMENT_TOLERANCE]


def partition(labels):
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("total", [20.0, 80.0, 300.0])
def test_skipping_pairs_does_not_change_components(seed, total, monkeypatch):
    monkeypatch.setattr(labelling, "PAIR_ROWS", 5)  # and 20 pairs at a time
    f = function(b=100, seed=seed, total=total, gamma=3.0)
    E = labelling.merge_equilibria(f, labelling.climb(f, f.S.T.copy()))[0]
    blocks = range(labelling.pair_blocks(len(E)))
    found = np.concatenate([labelling.connected_pairs(f, E, block, 20) for block in blocks])
    slow = every_pair(f, E, 20)
    assert {tuple(p) for p in found} <= {tuple(p) for p in slow}
    assert len(found) < len(slow) or total < 300.0
    n = len(E)
    adjacent = np.zeros((n, n))
    adjacent[tuple(slow.T)] = 1
    expected = connected_components(adjacent, directed=False)[1]
    assert partition(labelling.components(found, n)) == partition(expected)


# --- clusters


def test_the_largest_cluster_comes_first():
    f = modes((0, 0), (10, 0), (20, 0))
    E = f.S.T.copy()
    boundary = np.concatenate([E + 0.5, E - 0.5])
    member = np.array([0, 1, 2, 0, 1, 2])
    reference_rows = np.repeat(E, [2, 1, 4], axis=0)
    points, cluster, labels = clusters_of_points(
        f, boundary, member, E, np.arange(3), reference_rows
    )
    assert labels.tolist() == [1, 2, 0]
    assert cluster.tolist() == [1, 2, 0, 1, 2, 0]
    assert len(set(cluster)) == 3
    assert cluster[Nearest(points)(E + np.float32(0.1))].tolist() == [1, 2, 0]


def test_equilibria_outside_the_domain_are_no_clusters():
    f = modes((0, 0), (10, 0), (20, 0))
    f.a[1] = 0.5
    E = f.S.T.copy()
    points, cluster, labels = clusters_of_points(f, E + 0.5, np.arange(3), E, np.arange(3), E)
    assert labels[1] == -1
    assert sorted(labels[[0, 2]]) == [0, 1]
    assert len(points) == len(set(cluster)) == 2


def test_equilibria_outside_the_domain_are_clusters_if_all_are():
    f = modes((0, 0), (10, 0), height=0.5)
    E = f.S.T.copy()
    _, cluster, labels = clusters_of_points(f, E, np.arange(2), E, np.arange(2), E)
    assert sorted(labels) == [0, 1]
    assert len(set(cluster)) == 2


def test_a_boundary_row_has_its_own_label():
    f = function(b=60, total=12.0, gamma=2.0)
    X = rows(600)
    boundary = Boundary.collect(f, X, row_keys(0, np.arange(600)), 0.3, 600)
    E, member = labelling.merge_equilibria(f, labelling.climb(f, boundary.X))
    group = labelling.components(every_pair(f, E, 20), len(E))
    points, cluster, labels = clusters_of_points(f, boundary.X, member, E, group, X)
    nearest = Nearest(points)
    found = cluster[nearest(boundary.X)]
    kept = labels[member] >= 0
    assert kept.sum() > 50
    assert (found[kept] == labels[member][kept]).all()
    assert (np.diff(np.bincount(cluster[nearest(X)])) <= 0).all()
