import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, ward

from distsvc.models.baselines import rules
from distsvc.models.baselines.rules import (
    NO_CHILD,
    Centres,
    Splits,
    by_size,
    leaves_by_size,
    walk,
)

ROWS = np.random.default_rng(0).normal(size=(200, 3))


def test_labels_and_scores_of_centres(monkeypatch):
    centres = np.random.default_rng(1).normal(size=(6, 3))
    labels, scores, outlier = Centres(centres).label(ROWS).values()
    for x, label, score in zip(ROWS, labels, scores, strict=True):
        distances = np.linalg.norm(centres - x, axis=1)
        assert label == distances.argmin()
        others = np.delete(centres, label, axis=0)
        normals = others - centres[label]
        midway = (others + centres[label]) / 2.0
        borders = ((midway - x) * normals).sum(axis=1) / np.linalg.norm(normals, axis=1)
        assert score == pytest.approx(borders.min(), rel=1e-5, abs=1e-6)
    monkeypatch.setattr(rules, "DISTANCE_BLOCK_ROWS", 7)
    again = Centres(centres).label(ROWS)
    assert labels.tobytes() == again["label"].tobytes()
    assert scores.tobytes() == again["score"].tobytes()
    assert (labels.dtype, scores.dtype, outlier.dtype) == (np.int32, np.float32, bool)


def test_rows_at_equal_centres_have_the_first_label():
    centres = np.zeros((2, 3))
    found = Centres(centres).label(ROWS)
    assert set(found["label"]) == {0}
    assert set(found["score"]) == {0.0}


def test_shares_of_centres():
    """Shares are proportional to 1 / r^4. Equal centres divide the rows at them."""
    rule = Centres(np.array([[0.0], [3.0], [3.0]]))
    found = rule.shares(np.array([[1.0], [3.0], [0.0]]))
    expected = [[16 / 18, 1 / 18, 1 / 18], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rows_and_positions_in_a_tree():
    directions, leaf = np.zeros((5, 2), np.float32), (NO_CHILD, NO_CHILD)
    directions[0, 0] = directions[2, 1] = 1.0
    children = np.array([(1, 2), leaf, (3, 4), leaf, leaf])
    nodes = directions, np.array([0.5, 0.0, 5.0, 0.0, 0.0]), children
    Z = np.array([[0, 9], [0, 3], [1, 1], [1, 1]], np.float32)
    found = {node: (rows.tolist(), positions) for node, rows, positions in walk(nodes, Z)}
    rows = {node: of_node for node, (of_node, _) in found.items()}
    assert rows == {0: [0, 1, 2, 3], 1: [0, 1], 2: [2, 3], 3: [2, 3], 4: []}
    assert found[2][1].tolist() == [1.0, 1.0]
    assert [found[node][1] for node in (1, 3, 4)] == [None] * 3
    assert leaves_by_size(children, np.array([4, 2, 2, 2, 0])).tolist() == [-1, 0, -1, 1, 2]


def same_groups(a, b):
    """Return True if two numberings of rows have the same groups."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a)) == len(set(b))


def test_centres_are_merged_by_wards_method():
    random = np.random.default_rng(0)
    for m in (1, 2, 7, 30):
        rows = random.normal(size=(m, 3))
        for k in range(1, m + 1):
            groups = Centres(rows).groups(np.ones(m), k)
            assert len(np.unique(groups)) == k
            if m > 1:
                assert same_groups(groups, fcluster(ward(rows), k, "maxclust"))


def test_a_centre_counts_as_often_as_it_has_rows():
    random = np.random.default_rng(1)
    centres, sizes = random.normal(size=(8, 2)), random.integers(1, 6, 8)
    rows = np.repeat(centres, sizes, axis=0)
    for k in range(1, 9):
        found = np.repeat(Centres(centres).groups(sizes, k), sizes)
        assert same_groups(found, fcluster(ward(rows), k, "maxclust"))


def test_centres_stay_apart_if_there_are_fewer_than_groups():
    assert Centres(np.eye(3)).groups(np.ones(3), 5).tolist() == [0, 1, 2]


def test_the_first_splits_of_a_tree():
    # 0 -> 1, 2; then 2 -> 3, 4; then 1 -> 5, 6
    children = np.array([[1, 2], [5, 6], [3, 4], *[[-1, -1]] * 4])
    clusters = np.array([-1, -1, -1, 2, 0, 1, 3])  # 0 is node 4, 1 is 5, 2 is 3, 3 is 6
    rule = Splits(np.zeros((7, 2)), np.zeros(7), children, clusters, np.zeros(2), np.ones(7))
    assert rule.groups(1).tolist() == [0, 0, 0, 0]
    left, right = (1, 3), (0, 2)
    groups = rule.groups(2)
    assert len({groups[k] for k in left}) == len({groups[k] for k in right}) == 1
    groups = rule.groups(3)
    assert groups[1] == groups[3]
    assert len(set(groups.tolist())) == 3
    assert len(set(rule.groups(9).tolist())) == 4


def test_groups_are_numbered_by_size():
    assert by_size(np.array([0, 1, 2, 1]), np.array([5.0, 2.0, 9.0, 2.0])).tolist() == [1, 2, 0, 2]
    assert by_size(np.array([1, 0, 1]), np.array([2.0, 4.0, 2.0])).tolist() == [0, 1, 0]
