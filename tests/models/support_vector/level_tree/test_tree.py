import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from distsvc.models.support_vector.boundary.labelling import DecisionFunction, Nearest
from distsvc.models.support_vector.estimator import SupportVectorClustering
from distsvc.models.support_vector.level_tree.tree import (
    EDGE_PLACES,
    TREE_NEIGHBOURS,
    LevelTree,
    neighbours,
)
from tests import reference


def decision(b=30, d=2, gamma=1.0, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=2.0, size=(d, b)).astype(np.float32)
    return DecisionFunction(S, rng.uniform(0.2, 1.0, b).astype(np.float32), gamma)


def rows(n=300, d=2, seed=1, scale=2.0):
    return np.random.default_rng(seed).normal(scale=scale, size=(n, d)).astype(np.float32)


def grown(seed=0, b=30, d=2, gamma=1.0, least_mass=10.0):
    return LevelTree.grow(decision(b, d, gamma, seed), rows(d=d, seed=seed + 1), least_mass)


def with_z(tree, X):
    sums = np.zeros((4, tree.n_branches), np.int64)
    tree.add_differences(X, sums)
    return tree.tested(sums, len(X))


LEAST_SUM = 1e-28
"""Smaller sums of kernels are rounded to normal numbers."""

trees = st.builds(
    grown,
    st.integers(0, 2**32 - 2),
    st.integers(1, 40),
    st.integers(1, 4),
    st.sampled_from([0.1, 1.0, 5.0]),
    st.sampled_from([1.0, 5.0, 20.0, 400.0]),
)


# --- the tree


@settings(deadline=None, max_examples=60)
@given(trees)
def test_a_tree_is_consistent(tree):
    root = tree.parents < 0
    assert root.sum() == 1
    others = np.flatnonzero(~root)
    assert (tree.births[tree.parents[others]] >= tree.births[others]).all()
    assert (tree.deaths <= tree.births).all()
    # a parent lives on when its child dies
    assert (tree.deaths[tree.parents[others]] <= tree.deaths[others]).all()
    assert (tree.masses[tree.parents[others]] >= tree.masses[others]).all()
    assert tree.masses[root] == pytest.approx(1.0)
    assert tree.deaths[root] == 0.0
    assert (tree.births <= tree.heights[tree.peaks]).all()
    assert len(set(tree.joints[others])) == len(others)
    assert (tree.edge_heights[tree.joints[others]] == tree.deaths[others]).all()
    assert (np.diff(tree.edge_heights) <= 0).all()
    assert (tree.edge_heights <= tree.heights[tree.edges].min(axis=1, initial=np.inf)).all()


@settings(deadline=None, max_examples=60)
@given(trees)
def test_a_saddle_is_the_lowest_evaluated_point_of_its_joint(tree):
    others = np.flatnonzero(tree.parents >= 0)
    start, end = (tree.S.T[tree.edges[tree.joints[others], i]] for i in (0, 1))
    t = np.array([0.0, *EDGE_PLACES, 1.0])[:, None, None]
    points = start + t * (end - start)
    heights = [reference.weighted_sums(p, tree.S, tree.a, tree.gamma) for p in points]
    expected = np.min(heights, axis=0)
    np.testing.assert_allclose(tree.deaths[others], expected, rtol=1e-4, atol=LEAST_SUM)
    saddles = np.ascontiguousarray(tree.saddles.T)
    on_saddles = reference.weighted_sums(saddles, tree.S, tree.a, tree.gamma)
    np.testing.assert_allclose(on_saddles[others], tree.deaths[others], 1e-4, LEAST_SUM)
    (root,) = np.flatnonzero(tree.parents < 0)
    assert (tree.saddles[:, root] == tree.S[:, tree.peaks[root]]).all()


@settings(deadline=None, max_examples=60)
@given(trees, st.floats(0.0, 1.0), st.sampled_from([1.0, 5.0, 20.0]), st.integers(0, 99))
def test_the_components_at_a_level_are_those_of_the_graph(tree, share, least_mass, seed):
    X = rows(d=len(tree.S), seed=seed)
    f = DecisionFunction(tree.S, tree.a, tree.gamma)
    tree = LevelTree.grow(f, X, least_mass)
    level = float(np.quantile(tree.heights, share))
    mass = np.bincount(Nearest(tree.S.T.copy())(X), minlength=len(tree.heights))
    found = reference.level_components(tree.heights, tree.edges, tree.edge_heights, level)
    massive = [c for c in found if mass[list(c)].sum() >= least_mass]
    kept = tree.components_at(level)
    assert kept.sum() == max(len(massive), 1)
    part = tree.parts(kept)
    owners = [set(part[list(component)]) for component in massive]
    assert [len(owner) for owner in owners] == [1] * len(massive)
    assert len(set().union(*owners)) == len(massive)


def test_support_vectors_without_rows_are_no_branches():
    tree = LevelTree.grow(decision(), rows()[:0], 5.0)
    assert tree.n_branches == 1
    assert tree.masses.tolist() == [0.0]


# --- significance


def significance(tree, X, n_rows):
    """The mean of D over its standard error, in float64, from the rows themselves."""
    wide, peaks, saddles = np.float64(X), np.float64(tree.S[:, tree.peaks]), tree.saddles
    D = reference.gaussian(wide, peaks.T, tree.gamma)
    D -= reference.gaussian(wide, saddles.T, tree.gamma)
    D = D[:, tree.parents >= 0]
    # the saddle of a branch that dies as it is born can be its peak, and D is 0
    return D.mean(axis=0) / np.sqrt(np.where(D.any(axis=0), D.var(axis=0), 1.0) / n_rows)


@pytest.mark.parametrize("n", [2000, 500])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_tested_is_the_mean_over_its_standard_error(d, n):
    """From a share of the rows it is scaled to all 2000."""
    tree, X = grown(d=d, least_mass=5.0), rows(2000, d, seed=9)[:n]
    sums = np.zeros((4, tree.n_branches), np.int64)
    tree.add_differences(X, sums)
    found = tree.tested(sums, 2000).z
    others = tree.parents >= 0
    assert others.sum() >= 2
    assert found[~others].tolist() == [np.inf]
    np.testing.assert_allclose(found[others], significance(tree, X, 2000), rtol=1e-4)
    assert tree.z.size == 0  # the untested tree is left as it was


def test_the_most_significant_are_kept():
    tree = with_z(grown(least_mass=5.0), rows(2000))
    for k in range(1, tree.n_branches + 1):
        kept = tree.most_significant(k)
        assert kept.sum() == k
        assert kept[tree.parents < 0].all()
        assert tree.z[kept].min() >= tree.z[~kept].max(initial=-np.inf)
    assert tree.most_significant(10**9).all()


# --- the vote


# --- the graph


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 80), st.integers(1, 4), st.integers(0, 2**32 - 1), st.booleans())
def test_neighbours_are_connected_and_contain_the_nearest(n, d, seed, grid):
    rng = np.random.default_rng(seed)
    V = rng.integers(0, 3, (n, d)) if grid else rng.normal(size=(n, d))
    V = (V + 100.0 * rng.integers(0, 3, (n, 1))).astype(np.float32)  # groups far apart
    pairs = neighbours(V)
    assert pairs.dtype == np.int64
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs)
    graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    assert connected_components(graph, directed=False)[0] == 1
    squared = ((np.float64(V)[:, None] - V) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    joined = np.zeros((n, n), bool)
    joined[tuple(pairs.T)] = joined[tuple(pairs.T[::-1])] = True
    k = min(TREE_NEIGHBOURS, n - 1)
    for i in range(n):  # of equally near ones some may be left out
        nearer = squared[i] < np.sort(squared[i])[k - 1] if k else np.zeros(n, bool)
        assert joined[i][nearer].all()
        assert joined[i].sum() >= k


def test_groups_far_apart_are_joined_by_the_shortest_edge():
    V = np.concatenate([rows(30, seed=s, scale=0.1) + 10 * s for s in range(3)])
    group = np.repeat([0, 1, 2], 30)
    pairs = neighbours(V)
    across = pairs[group[pairs[:, 0]] != group[pairs[:, 1]]]
    assert len(across) == 2
    for i, j in across:
        a, b = V[group == group[i]], V[group == group[j]]
        shortest = np.linalg.norm(a[:, None] - b, axis=2).min()
        assert np.linalg.norm(V[i] - V[j]) == pytest.approx(shortest, rel=1e-5)


# --- the papers' answer is the cut at the level 0


def rings(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [150, 300, 600])
    angle = rng.uniform(0, 2 * np.pi, y.size)
    radius = np.array([0.0, 3.0, 6.0])[y] + rng.normal(scale=0.25, size=y.size)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("data", "gamma"),
    [
        (lambda seed: make_blobs(800, centers=[[0, 0], [9, 0], [0, 9]], random_state=seed), 0.25),
        (rings, 1.25),
        (lambda seed: make_moons(800, noise=0.05, random_state=seed), 40.0),
    ],
    ids=["blobs", "rings", "moons"],
)
def test_the_cut_at_level_0_equals_the_papers_labelling(data, gamma, seed):
    X, y = data(seed)
    nu = SupportVectorClustering(gamma, nu=0.02, random_state=seed).fit(X)
    papers = SupportVectorClustering(gamma, C=nu.C_, random_state=seed).fit(X)
    assert papers.n_clusters_ == len(set(y))
    cut = SupportVectorClustering([gamma], C=nu.C_, random_state=seed).fit(X).cut(level=0.0)
    inside = papers.decision_function(X) >= 0
    assert inside.mean() > 0.9
    assert cut.max() + 1 == papers.n_clusters_
    assert adjusted_rand_score(cut[inside], papers.labels_[inside]) == 1.0
