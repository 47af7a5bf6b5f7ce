import numpy as np
import pytest

from distsvc.models.baselines import rules
from distsvc.models.baselines.rules import Centres
from distsvc.models.baselines.split_tree import NO_CHILD, leaves_by_size, walk

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
