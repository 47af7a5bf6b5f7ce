import numpy as np
import pytest

from distsvc.errors import UnusableRowsError
from distsvc.models.linear.rule import BallRule, OneClassRule

ROWS = np.random.default_rng(0).normal(size=(300, 3))
W, MEAN = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, 0.3])
BOTH = pytest.mark.parametrize(
    "rule", [OneClassRule(W, MEAN, 0.75), BallRule(W, MEAN, -4.0)], ids=["plane", "ball"]
)


def test_scores_by_hand():
    x = np.array([[2.0, 0.0, 2.0]])
    assert OneClassRule(W, MEAN, 0.75).values(x).tolist() == [3.0]
    assert BallRule(W, MEAN, -4.0).values(x).tolist() == [-(1.0 + 4.0 + 2.25)]


def test_outliers_follow_from_the_rounded_score():
    """A score that float32 rounds to 0 is not negative."""
    rule = OneClassRule(np.ones(1), np.zeros(1), 1e-50)
    found = rule.label(np.zeros((1, 1)))
    assert (rule.values(np.zeros((1, 1))) < rule.offset).all()
    assert not found["outlier"].any()


@BOTH
def test_pulls_add_up_to_the_score(rule):
    d = ROWS.shape[1]
    for firsts in (np.arange(d), np.array([0, 1])):
        found = rule.pulls(ROWS, None, None, firsts)
        assert found.shape == (len(ROWS), len(firsts))
        expected = -rule.values(ROWS)
        if not rule.ball:
            expected += rule.values(MEAN[None])
        np.testing.assert_allclose(found.sum(axis=1), expected, atol=1e-12)


@BOTH
def test_a_score_too_large_for_float32_is_an_error_of_the_rows(rule):
    far = ROWS.copy()
    far[3] = -1e60
    with pytest.raises(UnusableRowsError, match="too large for float32; scale the features"):
        rule.label(far)
