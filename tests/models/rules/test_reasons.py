"""Pulls of columns on rows, computed from scores alone."""

import numpy as np
import pytest

from distsvc.models.rules import rule as reasons
from distsvc.models.rules.rule import Typical, pulls

EACH = np.arange(4)


def bump(rows):
    """Return scores by a density of width 1 about 0; they are -1 where the density is 0."""
    return (3.0 * np.exp(-0.5 * (rows.astype(np.float64) ** 2).sum(axis=1)) - 1.0).astype("f4")


def shares(found):
    found = np.maximum(found, 0.0)
    return found / found.sum(axis=1, keepdims=True)


def test_an_extreme_column_has_the_whole_share():
    Z = np.array([[0.1, 9.0, -0.2, 0.0]], np.float32)
    found = pulls(bump, Z, np.zeros_like(Z), 2.0, EACH)
    assert found[0].argmax() == 1
    assert shares(found)[0, 1] > 0.95
    assert found[0, 3] == 0.0


def test_columns_that_are_odd_together_are_both_found():
    """Either value alone is usual in a typical row; only replacing one finds the columns."""

    def alike(rows):
        return 2.0 - np.abs(rows[:, 0] - rows[:, 1]) - 0.01 * np.abs(rows[:, 2])

    found = pulls(alike, np.array([[1.5, -1.5, 1.0]]), np.zeros((1, 3)), 0.5, np.arange(3))[0]
    assert min(found[:2]) > 10 * abs(found[2])


def test_blocks_change_no_bit(monkeypatch):
    random = np.random.default_rng(0)
    Z = random.normal(size=(50, 7)).astype(np.float32)
    usual = Z[random.permutation(50)]
    whole, sizes = pulls(bump, Z, usual, 1.5, np.arange(7)), []
    monkeypatch.setattr(reasons, "REASON_BYTES", 4 * 7 * 11)

    def counting(rows):
        assert rows.dtype == np.float32
        sizes.append(len(rows))
        return bump(rows)

    assert pulls(counting, Z, usual, 1.5, np.arange(7)).tobytes() == whole.tobytes()
    assert max(sizes[2:]) == 11


def labelled(labels, scores):
    return {"label": np.array(labels, np.int32), "score": np.array(scores, np.float32)}


def test_typical_values_are_medians_of_rows_inside():
    Z = np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 1.0], [50.0, 7.0], [4.0, 3.0], [60.0, 3.0]])
    found = Typical.of(Z, labelled([0, 0, 0, 0, 1, 2], [0.5, 0.25, 0.0, -1.0, 2.0, -3.0]), 4, True)
    everywhere = [3.0, 0.5]
    assert found.values.tolist() == [[2.0, 0.0], [4.0, 3.0], everywhere, everywhere]
    assert (found.score, found.least) == (0.375, 0.0)
    assert found.values.dtype == np.float64


def test_without_outliers_the_lowest_scores_are_explained():
    Z = np.arange(1000.0)[:, None]
    scores = np.float32(np.random.default_rng(0).permutation(1000) / 7.0)
    found = Typical.of(Z, labelled(np.zeros(1000), scores), 1, False)
    assert (scores < found.least).sum() == 9
    assert found.score > found.least > 0.0


@pytest.mark.parametrize("scores", [[np.inf, np.inf], [-2.0, -1.0]])
def test_typical_values_without_usable_scores(scores):
    """Infinite scores of a cell without a border, and a pilot whose rows are all outside."""
    found = Typical.of(np.array([[1.0], [3.0]]), labelled([0, 0], scores), 1, scores[0] < 0.0)
    assert found.values.tolist() == [[2.0]]
    assert np.isfinite([found.score, found.least]).all()
