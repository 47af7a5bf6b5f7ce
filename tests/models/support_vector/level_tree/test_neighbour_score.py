import numpy as np
import pytest

from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE
from distsvc.models.support_vector.level_tree.neighbour_score import (
    POINTS,
    SCORE_NEIGHBOURS,
    NeighbourScore,
)
from tests.normal_rows import normal


def score_of(view, labels=None, nu=None):
    labels = np.zeros(len(view), int) if labels is None else labels
    return NeighbourScore.of(view, labels, nu)


def nearness(view, pilot):
    """Return minus the logarithm of mean distances, by the slow twin."""
    points = pilot[:POINTS].astype(np.float64)
    squares = np.sort(((view[:, None] - points) ** 2).sum(axis=2), axis=1)
    first = (squares[:, 0] == 0.0).astype(int)
    return np.array(
        [
            -0.5 * np.log(own[a : a + SCORE_NEIGHBOURS].mean())
            for own, a in zip(squares, first, strict=True)
        ]
    )


@pytest.mark.parametrize("rows", [60, POINTS, 2 * POINTS])
def test_a_score_is_nearness_in_standard_deviations(rows):
    view, labels = normal(rows, 4, seed=5), np.repeat([0, 1], [rows - rows // 3, rows // 3])
    view[labels == 1] += np.float32(1.0)
    score = score_of(view, labels)
    assert score.points.shape == (4, min(rows, POINTS))
    near = nearness(view, view)
    least = np.quantile(np.exp(-2.0 * near), SHARES_OUTSIDE.tail)
    near = np.minimum(near, -0.5 * np.log(least))
    np.testing.assert_allclose(score(view), (near - score.limit) / score.unit, atol=5e-3)
    assert score(view).dtype == np.float32
    inside = near >= score.limit
    spreads = [
        (np.median(own) - np.quantile(own, 0.05)) / 1.645
        for own in (near[inside & (labels == c)] for c in (0, 1))
    ]
    assert score.unit == pytest.approx(np.mean(spreads), rel=0.2)


@pytest.mark.parametrize("d", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("k", [1, 3])
def test_few_rows_of_normal_clusters_are_outside(d, k):
    rng = np.random.default_rng(d)
    labels = rng.integers(0, k, 3000)
    centres = 12.0 * rng.normal(size=(k, d))
    view = (centres[labels] + rng.normal(size=(3000, d))).astype(np.float32)
    score = score_of(view, labels)
    assert (score(view) < 0.0).mean() < 3.0 * SHARES_OUTSIDE.outside
    assert score(np.full((1, d), 40.0, np.float32))[0] < 0.0


def test_outliers_do_not_hide_each_other():
    rng = np.random.default_rng(0)
    view = np.concatenate([rng.normal(size=(1000, 2)), rng.uniform(-30, 30, (80, 2))]).astype("f4")
    view = view[rng.permutation(len(view))]
    far = np.abs(view).max(axis=1) > 5.0
    outside = score_of(view)(view) < 0.0
    assert outside[far].mean() > 0.9
    assert outside[~far].mean() < 0.02


def test_the_points_of_a_short_table_are_its_repeated_rows():
    view = normal(3, 2, seed=5)
    points = score_of(view).points
    assert points.shape == (2, SCORE_NEIGHBOURS + 1)
    assert {tuple(p) for p in points.T.tolist()} == {tuple(p) for p in view.tolist()}


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5, 0.9])
def test_nu_is_the_share_outside(nu):
    view = normal(500, 3, seed=5)
    assert (score_of(view, nu=nu)(view) < 0).mean() == pytest.approx(nu, abs=0.004)


def test_small_clusters_do_not_change_the_limit():
    view, labels = normal(600, 2, seed=5), np.zeros(600, int)
    alone = score_of(view, labels)
    far, more = np.full((4, 2), 1e3, np.float32), np.ones(4, int)
    both = score_of(np.vstack([view, far]), np.append(labels, more))
    assert both.unit == pytest.approx(alone.unit)
    assert (both(far) < 0.0).all()


def test_a_score_does_not_depend_on_other_rows():
    view, score = normal(90, 3, seed=9), score_of(normal(50, 3, seed=4))
    parts = [score(part) for part in np.split(view, [1, 40])]
    assert np.concatenate(parts).tobytes() == score(view).tobytes()
