import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.models.hyperplanes.tree import GrowingTree, split_order

SEEDS = st.integers(0, 2**32 - 1)


def rows(n, d=2, seed=0, spread=3.0):
    return np.random.default_rng(seed).normal(scale=spread, size=(n, d)).astype(np.float32)


def grown(n=600, d=3, depth=5, seed=0):
    """A tree that learned from rows, and counted others."""
    tree = GrowingTree.start(depth, d)
    tree.learn(rows(n, d, seed), 0.5, 10.0, 1.0, 2**62, 5.0)
    tree.count(rows(n, d, seed + 1))
    return tree


def random_children(n_leaves, seed):
    """Children of a tree where random leaves were split until there were enough."""
    rng = np.random.default_rng(seed)
    children, leaves = [[-1, -1]], [0]
    while len(leaves) < n_leaves:
        j = leaves.pop(rng.integers(len(leaves)))
        children[j] = [len(children), len(children) + 1]
        leaves += children[j]
        children += [[-1, -1], [-1, -1]]
    return np.array(children, np.int32)


def fall(ss, children, j):
    below, above = children[j]
    return ss[j] - ss[below] - ss[above]


def pruned(children, ss):
    """Section 3 as printed: the splits in the reverse of the order in which they are removed."""
    left = {j for j in range(len(children)) if children[j][0] >= 0}
    removed = []
    while left:
        candidates = [j for j in left if not left & set(children[j])]
        removed.append(min(candidates, key=lambda j: (fall(ss, children, j), j)))
        left.remove(removed[-1])
    return removed[::-1]


def forward(children, ss):
    leaves, order = {0}, []
    while candidates := [j for j in leaves if children[j][0] >= 0]:
        order.append(min(candidates, key=lambda j: (-fall(ss, children, j), j)))
        leaves.remove(order[-1])
        leaves |= set(children[order[-1]])
    return order


def leaves_of(children, splits):
    return ({0} | {k for j in splits for k in children[j]}) - set(splits)


TWINS = {"prune": pruned, "forward": forward}


@pytest.mark.parametrize("growth", TWINS)
@settings(deadline=None)
@given(st.integers(1, 40), SEEDS, st.integers(0, 30))
def test_the_order_of_splits_is_greedy(growth, n_leaves, seed, most):
    children = random_children(n_leaves, seed)
    # few whole numbers: exact sums, many equals, and children that have more than their parent
    ss = np.random.default_rng(seed).integers(0, most + 1, len(children)).astype(float)
    splits, curve = split_order(children, ss, growth)
    expected = TWINS[growth](children.tolist(), ss.tolist())
    assert splits.dtype == np.int32
    assert splits.tolist() == expected
    sums = [sum(ss[j] for j in leaves_of(children.tolist(), expected[:k])) for k in range(n_leaves)]
    assert curve.tolist() == sums


def test_nodes_of_a_new_tree():
    tree = GrowingTree.start(4, 3)
    assert tree.V.shape == tree.means.shape == tree.sums.shape == (15, 3)
    assert tree.V.argmax(axis=1).tolist() == [k % 3 for k in range(15)]
    assert (np.abs(tree.V).sum(axis=1) == 1.0).all()
    assert not tree.visits.any()
    children = tree.children()
    assert children[:7].tolist() == [[2 * j + 1, 2 * j + 2] for j in range(7)]
    assert (children[7:] == -1).all()
    assert (tree.hyperplanes()[2] == 1.0).all()


def nodes_by_hand(tree, X):
    """Every splitting node and leaf by the paper's number: its rows, sum of squares, children."""
    V, thresholds, _ = tree.hyperplanes()
    X, bottom, found = X.astype(np.float64), len(V) // 2, {}

    def visit(j, inside):
        below = X @ V[j] < thresholds[j]
        sides = (inside & below, inside & ~below)
        if j < bottom and not all(side.any() for side in sides):
            return visit(2 * j + 1 if sides[0].any() else 2 * j + 2, inside)
        ss = ((X[inside] - tree.means[j]) ** 2).sum()
        found[j + 1] = inside.sum(), ss, None
        if j < bottom:
            below, above = visit(2 * j + 1, sides[0]), visit(2 * j + 2, sides[1])
            found[j + 1] = *found[j + 1][:2], (below, above)
        return j + 1

    visit(0, np.ones(len(X), bool))
    return found


@pytest.mark.parametrize("n", [2, 7, 40, 600])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_with_rows_by_hand(n, seed):
    tree = grown(n, seed=seed)
    found = tree.with_rows("prune")
    expected = nodes_by_hand(tree, rows(n, 3, seed + 1))
    assert found.numbers.tolist() == sorted(expected)
    numbers, squares, below = zip(*(expected[i] for i in found.numbers), strict=True)
    assert found.counts.tolist() == list(numbers)
    np.testing.assert_allclose(found.sums_of_squares, squares, rtol=1e-5, atol=1e-3)
    children = [tuple(found.numbers[c].tolist()) if c[0] >= 0 else None for c in found.children]
    assert children == list(below)
    assert found.n_leaves == len(found.splits) + 1 == children.count(None)


def one_way(ahead, depth=4):
    """A tree where nodes in `ahead` send all rows to their first child; the others split at 0."""
    tree = GrowingTree.start(depth, 2)
    tree.b[ahead] = 1e6
    return tree


def test_a_tree_whose_rows_all_go_one_way_is_one_leaf():
    X, tree = rows(50), one_way(range(15))
    tree.means[:] = 1.0
    tree.count(X)
    found = tree.with_rows("prune")
    assert found.numbers.tolist() == [8]
    assert found.children.tolist() == [[-1, -1]]
    assert found.counts.tolist() == [50.0]
    np.testing.assert_allclose(found.curve, [((X - 1.0) ** 2).sum()], rtol=1e-6)
    labelled = found.cut(5).label(X)
    assert not labelled["label"].any()
    assert (labelled["score"] == np.inf).all()


def test_a_root_that_does_not_split_is_left_out():
    X, tree = rows(50), one_way([0, 3, 4], depth=4)  # node 1 splits along feature 1
    tree.count(X)
    found = tree.with_rows("prune")
    assert found.numbers.tolist()[0] == 2
    assert set(found.numbers) <= {2, 8, 10, 16, 17, 20, 21}
    labels = found.cut(2).labels(X)
    below = X[:, 1] < 0.0
    assert len({*labels[below]}) == len({*labels[~below]}) == 1
    assert labels[below][0] != labels[~below][0]


def test_a_tree_without_rows_is_one_leaf():
    found = GrowingTree.start(3, 2).with_rows("prune")
    assert found.n_leaves == 1
    assert not found.cut(1).labels(rows(5)).any()


@pytest.mark.parametrize("growth", TWINS)
def test_cuts_are_nested_and_numbered_by_size(growth):
    tree, X = grown().with_rows(growth), rows(600, 3, seed=1)
    whole = tree.cut(tree.n_leaves).labels(X)
    assert tree.n_leaves > 12
    for k in range(1, tree.n_leaves + 1):
        cut = tree.cut(k)
        labels = cut.labels(X)
        sizes = np.bincount(labels)
        assert cut.n_clusters == len(sizes) == k
        assert (np.diff(sizes) <= 0).all()
        assert sizes[-1] > 0
        assert len(set(zip(labels, whole, strict=True))) == tree.n_leaves
        assert labels.dtype == np.int32
    assert (tree.cut(tree.n_leaves + 9).labels(X) == whole).all()


def test_clusters_of_equal_size_are_numbered_by_node():
    tree = one_way([], depth=3)
    X = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], np.float32)
    tree.V[2] = 0.0, 1.0
    tree.count(X)
    found = tree.with_rows("prune")
    assert found.numbers.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert found.cut(4).labels(X).tolist() == [0, 1, 2, 3]


def test_projections_of_the_rows_of_every_split():
    tree, X = grown().with_rows("prune"), rows(300, 3, seed=9)
    cut = tree.cut(7)
    labels = cut.labels(X)
    expected = {0: np.arange(300)}
    nodes = []
    for node, places, positions in cut.projections(X):
        nodes.append(node)
        assert places.tolist() == expected[node].tolist()
        gap = X[places].astype(np.float64) @ tree.V[node] - tree.thresholds[node]
        np.testing.assert_allclose(positions, gap, atol=1e-5)
        below, above = cut.cut_children[node]
        expected[below], expected[above] = places[gap < 0.0], places[gap >= 0.0]
    assert nodes == tree.splits[:6].tolist()
    for leaf in np.flatnonzero(cut.clusters >= 0):
        assert (labels[expected[leaf]] == cut.clusters[leaf]).all()


def test_one_cluster_has_no_projections():
    assert list(grown().with_rows("prune").cut(1).projections(rows(10, 3))) == []


def test_thresholds_put_the_hyperplane_at_b_from_the_mean():
    tree = grown()
    found = tree.with_rows("prune")
    places = found.numbers - 1
    middle = np.einsum("kd,kd->k", found.V.astype(np.float64), tree.means[places])
    np.testing.assert_allclose(found.thresholds - middle, found.b, atol=1e-5)
    assert (found.b == tree.b[places]).all()
    np.testing.assert_allclose(np.linalg.norm(found.V, axis=1), 1.0, rtol=1e-5)
    assert (found.spreads > 0.0).all()
