import numpy as np
import pytest

from distsvc.models.baselines import rules
from distsvc.models.baselines.rules import Centres
from distsvc.models.baselines.split_tree import SplitTree

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


def test_spreads_of_a_tree():
    tree = SplitTree()
    tree.split(0, np.array([1.0, 0.0], np.float32), 0.5)
    tree.split(2, np.array([0.0, 1.0], np.float32), 5.0)
    Z = np.array([[0, 9], [0, 3], [1, 1], [1, 1]], np.float32)
    assert tree.ends_and_spreads(Z)[1].tolist() == [0.5, 1.0, 1.0, 1.0, 1.0]
    assert tree.ends_and_spreads(Z[:0])[1].tolist() == [1.0] * 5
