"""Convergence of a node's hyperplane to the density minimiser of a known mixture (section 2)."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from distsvc import IncrementalMDH

WEIGHTS, CENTRES, SPREADS = (0.5, 0.5), (-2.0, 2.0), (0.5, 0.9)


def density(x):
    parts = zip(WEIGHTS, CENTRES, SPREADS, strict=True)
    return sum(w * norm.pdf(x, c, s) for w, c, s in parts)


LOWEST = minimize_scalar(density, bounds=CENTRES, method="bounded").x


def rows(n, seed):
    """Two Gaussians along the first of three axes, in units in which its variance is about 1."""
    random = np.random.default_rng(seed)
    part = random.choice(2, n, p=WEIGHTS)
    x = np.array(CENTRES)[part] + np.array(SPREADS)[part] * random.normal(size=n)
    return np.column_stack([x, random.normal(size=(n, 2))])


def learned(n, seed, **given):
    """Return the sine of the angle to the first axis, and the place on it, of the root."""
    model = IncrementalMDH(2, n_init=1, passes=1, scale="none", random_state=seed, **given).fit(
        rows(n, seed)
    )
    tree = model.cluster_tree_
    v, b = tree.V[0].astype(float), tree.thresholds[0] + tree.V[0] @ model.centre_
    return np.sqrt(1.0 - v[0] ** 2), b / v[0]


def medians(n, **given):
    return np.median([learned(n, seed, **given) for seed in range(5)], axis=0)


def test_the_hyperplane_approaches_the_minimum_of_the_density():
    """Equations (8) and (9): v turns to the minimum's direction, and b moves to its place."""
    angles, places = np.transpose([medians(n, alpha=0.5) for n in (300, 30_000, 300_000)])
    gaps = np.abs(places - LOWEST)
    assert (np.diff(angles) < 0.0).all()
    assert (np.diff(gaps) < 0.0).all()
    assert angles[-1] < 0.02
    assert density(places[-1]) < 1.2 * density(LOWEST)


def test_a_hyperplane_stays_within_alpha_standard_deviations():
    """With the paper's alpha the minimum is beyond the border, so the border is the best place."""
    spread = np.sqrt(np.average(np.square(CENTRES) + np.square(SPREADS), weights=WEIGHTS))
    border = -0.1 * spread
    assert border > LOWEST
    angle, place = medians(300_000, alpha=0.1, clip=0.0)
    assert angle < 0.02
    assert place == pytest.approx(border, abs=0.03)
