"""Normals fitted to counts of cells, and tables of maps, beside SciPy and plain Python."""

import numpy as np
import pytest
from scipy.stats import norm

from distsvc.kernels import columns
from tests import reference


def counted(x, edges):
    closed = np.concatenate([[-np.inf], edges, [np.inf]])
    return closed, np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1).astype(float)


def fitted(form, closed, counts, k=1, steps=200):
    weights, sds = np.full(k, 1.0 / k), np.ones(k)
    means = np.linspace(-1.0, 1.0, k) if k > 1 else np.zeros(1)
    found = form(closed, counts, weights, means, sds, 1e-3, steps, 1e-9)
    return found, weights, means, sds


@reference.forms(columns.fit_cells)
def test_a_normal_is_found_from_rounded_values(form):
    x = np.random.default_rng(0).normal(1.0, 2.0, 4000)
    closed, counts = counted(x, np.arange(-6.5, 9.0))
    likelihood, _, means, sds = fitted(form, closed, counts, steps=60)
    assert means[0] == pytest.approx(1.0, abs=0.1)
    assert sds[0] == pytest.approx(2.0, abs=0.1)
    chances = np.diff(norm.cdf(closed, means[0], sds[0]))
    assert likelihood == pytest.approx(counts @ np.log(chances), rel=1e-4)


def test_two_normals_are_told_apart():
    random = np.random.default_rng(1)
    x = np.concatenate([random.normal(-3, 0.5, 3000), random.normal(2, 1.0, 1000)])
    closed, counts = counted(x, np.linspace(-6, 6, 100))
    _, weights, means, sds = fitted(columns.fit_cells, closed, counts, k=2)
    assert means == pytest.approx([-3, 2], abs=0.1)
    assert weights == pytest.approx([0.75, 0.25], abs=0.02)
    assert sds == pytest.approx([0.5, 1.0], abs=0.1)


def test_the_likelihood_rises_with_more_steps():
    closed, counts = counted(np.random.default_rng(2).exponential(1, 2000), np.linspace(0.2, 4, 20))
    found = [fitted(columns.fit_cells, closed, counts, 2, steps)[0] for steps in (1, 3, 10, 50)]
    assert np.all(np.diff(found) >= -1e-9)


@reference.forms(columns.interpolate)
def test_a_table_is_interpolated_and_goes_on_beyond_its_ends(form):
    knots, values = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0])
    x, out = np.array([-1.0, 0.5, 2.0, 5.0, np.nan]), np.empty(5)
    form(x, knots, values, out)
    assert out[:4].tolist() == [-2.0, 1.0, 2.5, 4.0]
    assert np.isnan(out[4])
