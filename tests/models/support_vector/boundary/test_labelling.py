import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.svm import OneClassSVM

from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.boundary import labelling
from distsvc.models.support_vector.boundary.labelling import (
    CLIMB_TOLERANCE,
    SEGMENT_TOLERANCE,
    Boundary,
    DecisionFunction,
    Nearest,
    clusters_of_points,
    components,
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


def test_the_unit_of_distances_is_the_width_of_the_kernel():
    assert DecisionFunction(np.zeros((2, 1), np.float32), np.ones(1, np.float32), 0.5).sigma == 1.0


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


# --- labellings of tables in memory

LEVEL = 1.0 - SEGMENT_TOLERANCE
TABLES = {
    "moons": lambda n: make_moons(n, noise=0.06, random_state=0)[0],
    "rings": lambda n: make_circles(n, noise=0.04, factor=0.4, random_state=0)[0],
    "blobs": lambda n: make_blobs(n, centers=4, n_features=3, random_state=0)[0],
    "noise": lambda n: np.random.default_rng(0).normal(size=(n, 5)),
}


def trained(X, gamma, nu):
    svm = OneClassSVM(gamma=gamma, nu=nu, tol=1e-6).fit(X)
    S = np.ascontiguousarray(svm.support_vectors_.T, np.float32)
    return DecisionFunction(S, (svm.dual_coef_[0] / svm.offset_[0]).astype(np.float32), gamma)


def same_parts(a, b):
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("gamma", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("leaf", [3, 10**6])
def test_components_equal_those_of_all_pairs(table, gamma, leaf, monkeypatch):
    """Vertices are in many boxes, or in one."""
    monkeypatch.setattr(labelling, "LEAF_VERTICES", leaf)
    X = TABLES[table](130).astype(np.float32)
    f = trained(X, gamma, 0.1)
    V = labelling.inside_rows(f, X)
    found = components(labelling.joined_pairs(f, V, 20), len(V))
    assert same_parts(found, reference.complete_graph(V, f.S, f.a, gamma, 20, LEVEL))


def test_the_row_with_the_highest_f_if_no_row_is_inside():
    X = TABLES["moons"](50).astype(np.float32)
    f = trained(X, 5.0, 0.2)
    low = DecisionFunction(f.S, f.a / np.float32(10.0), f.gamma)
    V = labelling.inside_rows(low, X)
    np.testing.assert_array_equal(V, X[[np.argmax(low(X))]])
    assert labelling.joined_pairs(low, V, 20).shape == (0, 2)


def test_too_many_vertices_are_an_error(monkeypatch):
    monkeypatch.setattr(labelling, "MOST_VERTICES", 100)
    X = TABLES["moons"](200).astype(np.float32)
    with pytest.raises(ValueError, match=r"100 distinct rows inside the boundary, found 1\d\d"):
        labelling.inside_rows(trained(X, 5.0, 0.2), X)


def test_balls_cover_the_table_in_the_order_of_the_keys():
    X = make_moons(400, noise=0.1, random_state=0)[0].astype(np.float32)
    keys = row_keys(3, np.arange(400))
    centres = labelling.ball_centres(X, keys, 0.2)
    shuffled = X[np.argsort(keys)]
    np.testing.assert_array_equal(centres, shuffled[reference.ball_centres(shuffled, 0.2)])
    assert len(centres) < 200


@pytest.mark.parametrize("radius", [0.1, 0.5, 2.0])
def test_climb_together_equals_its_slow_twin(radius):
    f, X = function(15, total=15.0), rows(60)
    slow = reference.climb_together(
        X, f.S, f.a, f.gamma, radius, labelling.BURST, labelling.ARRIVED, CLIMB_TOLERANCE
    )
    found = labelling.climb_together(f, X, radius)
    np.testing.assert_allclose(found, slow, atol=0.02)
