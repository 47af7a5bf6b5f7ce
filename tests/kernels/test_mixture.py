"""Steps of mixtures beside their slow twin: densities by SciPy, sums row by row."""

from dataclasses import replace

import numba
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from distsvc.kernels import jit
from distsvc.kernels import mixture as kernels
from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior
from distsvc.models.mixture.labeller import MixtureLabeller
from tests import reference

LEVELS = np.array([2, 3])

exponentials = numba.vectorize(lambda t: kernels.exponential(t))
invert = numba.njit(lambda A, found: kernels.invert(A, A.shape[0], found))


def rows_of(n=60, missing=0.2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    X[random.random(X.shape) < missing] = np.nan
    X[0] = np.nan
    levels = np.stack([random.integers(-1, k, n) for k in LEVELS], axis=1).astype(np.int32)
    return MixtureRows(X, levels, LEVELS)


def mixture_of(k=3, full=True, seed=1):
    random = np.random.default_rng(seed)
    A = random.normal(size=(k, 3, 3))
    covariances = A @ A.transpose(0, 2, 1) + 0.5 * np.eye(3)
    if not full:
        covariances = np.diagonal(covariances, axis1=1, axis2=2)[:, None, :].copy()
    chances = np.hstack([random.dirichlet(np.ones(n), k) for n in LEVELS])
    return NormalMixture(
        random.dirichlet(np.ones(k)), random.normal(size=(k, 3)), covariances, chances, LEVELS
    )


def twin(mixture, rows):
    """Posteriors, log-likelihoods and sums of rows, one row and component at a time."""
    n, k = len(rows), mixture.n_components
    joint = np.zeros((n, k))
    full = mixture.covariances.shape[1] == 3
    S = mixture.covariances if full else np.array([np.diag(c[0]) for c in mixture.covariances])
    filled, spread = np.zeros((n, k, 3)), np.zeros((n, k, 3, 3))
    for i in range(n):
        o, u = np.flatnonzero(~np.isnan(rows.X[i])), np.flatnonzero(np.isnan(rows.X[i]))
        for c in range(k):
            m = mixture.means[c]
            value = np.log(mixture.weights[c])
            filled[i, c] = m
            if o.size:
                value += multivariate_normal.logpdf(rows.X[i, o], m[o], S[c][np.ix_(o, o)])
                B = S[c][np.ix_(u, o)] @ np.linalg.inv(S[c][np.ix_(o, o)])
                filled[i, c, o] = rows.X[i, o]
                filled[i, c, u] = m[u] + B @ (rows.X[i, o] - m[o])
                spread[i, c][np.ix_(u, u)] = S[c][np.ix_(u, u)] - B @ S[c][np.ix_(o, u)]
            else:
                spread[i, c] = S[c]
            for j, first in enumerate((0, 2)):
                if rows.levels[i, j] >= 0:
                    value += np.log(mixture.chances[c, first + rows.levels[i, j]])
            joint[i, c] = value
    likelihoods = logsumexp(joint, axis=1)
    posterior = np.exp(joint - likelihoods[:, None])
    first = np.einsum("nk,nka->ka", posterior, filled)
    outer = filled[..., :, None] * filled[..., None, :] + spread
    return posterior, likelihoods, first, np.einsum("nk,nkab->kab", posterior, outer)


@pytest.mark.parametrize("full", [True, False])
def test_posteriors_and_sums_are_those_of_the_twin(full):
    rows, mixture = rows_of(), mixture_of(full=full)
    posterior, likelihoods, first, second = twin(mixture, rows)
    assert mixture.posterior(rows) == pytest.approx(posterior, abs=1e-9)
    assert mixture.likelihoods(rows) == pytest.approx(likelihoods, abs=1e-9)
    sums = mixture.expectation(rows)
    assert sums.mass == pytest.approx(posterior.sum(axis=0), abs=1e-2)
    assert sums.first == pytest.approx(first, abs=1e-2)
    if full:
        lower = np.tril_indices(3)
        assert sums.second[:, *lower] == pytest.approx(second[:, *lower], abs=1e-2)
    else:
        assert sums.second[:, 0] == pytest.approx(np.diagonal(second, axis1=1, axis2=2), abs=1e-2)


def test_sums_of_parts_add_up():
    rows, mixture = rows_of(), mixture_of()
    whole = mixture.expectation(rows)
    parts = [mixture.expectation(rows.take(np.arange(60)[part::2])) for part in range(2)]
    for name in ("mass", "first", "second", "counts"):
        total = sum(getattr(part, name) for part in parts)
        assert getattr(whole, name) == pytest.approx(total, abs=1e-9)


def test_plain_python_gives_the_same(monkeypatch):
    rows, mixture = rows_of(12), mixture_of(2)
    found = []
    for form in (kernels.expectation, reference.plain(kernels.expectation)):
        monkeypatch.setattr("distsvc.models.mixture.density.expectation", form)
        sums = vars(mixture.expectation(rows)).values()
        found.append((mixture.likelihoods(rows), mixture.posterior(rows), *sums))
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, abs=1e-10)


@reference.forms(jit.kernel(reference.plain(kernels.tie_axes)))
def test_axes_of_covariances_that_share_them_are_found(form):
    random = np.random.default_rng(0)
    A = random.normal(size=(3, 3))
    D = np.array([[1.0, 4.0, 0.5], [3.0, 0.2, 2.0], [0.3, 1.0, 5.0]])
    back = np.linalg.inv(A)
    mass = np.array([500.0, 400.0, 600.0])
    scatter = mass[:, None, None] * np.einsum("aj,kj,bj->kab", back, D, back)
    axes, variances = np.eye(3), np.empty((3, 3))
    form(scatter, mass, np.eye(3), 0.0, 0.0, axes, 60, variances)
    diagonal = np.einsum("ja,kab,lb->kjl", axes, scatter / mass[:, None, None], axes)
    off = diagonal - diagonal * np.eye(3)
    assert np.abs(off).max() < 1e-3 * np.abs(diagonal).max()
    assert variances == pytest.approx(np.diagonal(diagonal, axis1=1, axis2=2), rel=1e-6)


def labelled(mixture, rows, flags):
    """The labeller of a mixture, and the rows prepared: missing numbers are flagged, or are NaN."""
    absent = np.isnan(rows.X)
    numbers = np.nan_to_num(rows.X) if flags else rows.X
    Z = np.hstack([numbers, rows.levels, absent]).astype(np.float32)
    places = np.arange(5, 8) if flags else np.zeros(0, np.int64)
    return MixtureLabeller(mixture, np.arange(3), places, np.arange(3, 5)), Z


@pytest.mark.parametrize("flags", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_labels_are_those_of_the_twin(full, flags):
    rows, mixture = rows_of(), mixture_of(full=full)
    labeller, Z = labelled(mixture, rows, flags)
    rounded = np.where(np.isnan(rows.X), np.nan, Z[:, :3].astype(np.float64))
    posterior, likelihoods, _, _ = twin(mixture, MixtureRows(rounded, rows.levels, LEVELS))
    found, densities = labeller(Z)
    assert found == pytest.approx(posterior, abs=1e-7)  # float32
    assert densities[:, 0] == pytest.approx(likelihoods, abs=1e-9)
    complete = ~np.isnan(rows.X).any(axis=1) & (rows.levels >= 0).all(axis=1)
    assert np.array_equal(densities[complete, 0], densities[complete, 1])


@pytest.mark.parametrize("full", [True, False])
def test_missing_values_count_as_on_average(full):
    """The mean log density of draws of missing values, in a mixture of one component."""
    mixture, random = mixture_of(1, full), np.random.default_rng(0)
    S = mixture.covariances[0] if full else np.diag(mixture.covariances[0, 0])
    X = np.full((1, 3), np.nan)
    X[0, 1] = 0.7
    rows = MixtureRows(X, np.array([[-1, 2]], np.int32), LEVELS)
    labeller, Z = labelled(mixture, rows, flags=False)
    slope = S[[0, 2], 1] / S[1, 1]
    rest = S[np.ix_([0, 2], [0, 2])] - np.outer(slope, S[1, [0, 2]])
    drawn = np.full((200_000, 3), 0.7)
    mean = mixture.means[0][[0, 2]] + slope * (0.7 - mixture.means[0, 1])
    drawn[:, [0, 2]] = random.multivariate_normal(mean, rest, len(drawn))
    levels = np.full((len(drawn), 2), 2, np.int32)
    levels[:, 0] = random.random(len(drawn)) < mixture.chances[0, 1]
    expected = mixture.likelihoods(MixtureRows(drawn, levels, LEVELS)).mean()
    assert labeller(Z)[1][0, 1] == pytest.approx(expected, abs=0.02)


def test_plain_python_labels_alike(monkeypatch):
    rows, mixture = rows_of(12), mixture_of(2)
    labeller, Z = labelled(mixture, rows, flags=True)
    shares, densities = labeller(Z)
    monkeypatch.setattr(
        "distsvc.models.mixture.labeller.label_rows", reference.plain(kernels.label_rows)
    )
    plain_shares, plain_densities = labeller(Z)
    assert shares == pytest.approx(plain_shares, abs=1e-7)
    assert densities == pytest.approx(plain_densities, abs=1e-12)


@pytest.mark.parametrize("full", [True, False])
def test_shares_of_clusters_are_sums_of_their_components(full):
    rows, mixture = rows_of(), mixture_of(full=full)
    labeller, Z = labelled(mixture, rows, flags=True)
    posterior, cluster = labeller.shares(Z), np.array([1, 0, 1], np.int32)
    joined = replace(labeller, cluster=cluster).shares(Z)
    assert joined[:, 0] == pytest.approx(posterior[:, 1], abs=1e-7)
    assert joined[:, 1] == pytest.approx(posterior[:, 0] + posterior[:, 2], abs=1e-6)


def test_labels_are_the_first_clusters_with_the_highest_shares():
    rows, mixture = rows_of(200), mixture_of()
    fields = ("weights", "means", "covariances", "chances")
    twins = replace(mixture, **{name: getattr(mixture, name)[[0, 1, 1]] for name in fields})
    labeller, Z = labelled(twins, rows, flags=True)
    labels = labeller.labels(Z)
    assert labels.tolist() == labeller.shares(Z).argmax(axis=1).tolist()
    assert set(labels.tolist()) == {0, 1}


def maximised(rows, mixture, prior):
    """The step M of EM in NumPy, for full and diagonal covariances."""
    sums, (k, p) = mixture.expectation(rows), mixture.means.shape
    mass = sums.mass + 1e-9
    average = sums.first / mass[:, None]
    shrink = 0.01 * mass / (0.01 + mass) - mass
    least = 0.05**2 * np.diag(prior.scatter)
    if sums.second.shape[1] == p:
        second = np.tril(sums.second) + np.swapaxes(np.tril(sums.second, -1), 1, 2)
        scatter = second + shrink[:, None, None] * average[:, :, None] * average[:, None, :]
        whole = prior.scatter / k ** (2 / p) + scatter
        covariances = whole / (mass + 2 * p + 4)[:, None, None] + np.diag(least)
    else:
        whole = np.diag(prior.scatter) / k**2 + sums.second[:, 0] + shrink[:, None] * average**2
        covariances = (whole / (mass + 6)[:, None] + least)[:, None]
    known = np.stack([sums.counts[:, :2].sum(axis=1), sums.counts[:, 2:].sum(axis=1)], axis=1)
    known = np.repeat(known, mixture.n_levels, axis=1)
    chances = (sums.counts + prior.shares) / (known + 1.0)
    return mass / mass.sum(), sums.first / (mass + 0.01)[:, None], covariances, chances


@pytest.mark.parametrize("full", [True, False])
def test_the_step_of_maximisation_is_that_of_the_twin(full):
    rows, mixture = rows_of(), mixture_of(full=full)
    prior = Prior.of(rows)
    found = NormalMixture.of(mixture.expectation(rows), rows.n_levels, prior)
    names = ("weights", "means", "covariances", "chances")
    for name, expected in zip(names, maximised(rows, mixture, prior), strict=True):
        assert getattr(found, name) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", ["full", "tied", "diagonal"])
@reference.forms(kernels.expectation_maximisation)
def test_expectation_maximisation_alternates_both_steps(form, shape):
    rows, prior = rows_of(), Prior.of(rows_of())
    start = NormalMixture.from_posteriors(rows, np.eye(2)[np.arange(60) % 2], prior, shape)
    before, expected = mixture_of(k=2).sums(60, shape), start
    for _ in range(3):
        sums = expected.expectation(rows).plus(before)
        expected = NormalMixture.of(sums, rows.n_levels, prior, expected.axes)
    s = rows.by_pattern
    likelihood = form(
        s.X, s.levels, s.starts, s.present, s.missing, start.first_level, rows.n_levels,
        prior.scatter, prior.shares, before.mass, before.first, before.second, before.counts,
        *start.parameters, 3, -np.inf,
    )  # fmt: skip
    assert likelihood == pytest.approx(start.likelihoods(rows).sum(), rel=1e-12)
    for name in ("weights", "means", "covariances", "chances"):
        assert getattr(start, name) == pytest.approx(getattr(expected, name), rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_an_inverse_is_that_of_linear_algebra(n):
    A, found = np.random.default_rng(n).normal(size=(n, n)), np.empty((n, n))
    A[0, 0] = 0.0 if n > 1 else A[0, 0]  # needs a pivot
    invert(A, found)
    assert np.abs(found @ A - np.eye(n)).max() < 1e-12


def test_exponentials_are_those_of_the_library():
    x = -np.random.default_rng(0).exponential(20.0, 1000)
    x[:4] = 0.0, -1e-300, -119.9, -121.0
    found = exponentials(x)
    assert np.abs(found[x > -120.0] / np.exp(x[x > -120.0]) - 1.0).max() < 1e-15
    assert (found[x < -120.0] == 0.0).all()


def counted(x, edges):
    closed = np.concatenate([[-np.inf], edges, [np.inf]])
    return closed, np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1).astype(float)


def fitted_cells(form, closed, counts, k=1, steps=200):
    weights, sds = np.full(k, 1.0 / k), np.ones(k)
    means = np.linspace(-1.0, 1.0, k) if k > 1 else np.zeros(1)
    found = form(closed, counts, weights, means, sds, 1e-3, steps, 1e-9)
    return found, weights, means, sds


@reference.forms(kernels.fit_cells)
def test_a_normal_is_found_from_rounded_values(form):
    x = np.random.default_rng(0).normal(1.0, 2.0, 4000)
    closed, counts = counted(x, np.arange(-6.5, 9.0))
    likelihood, _, means, sds = fitted_cells(form, closed, counts, steps=60)
    assert means[0] == pytest.approx(1.0, abs=0.1)
    assert sds[0] == pytest.approx(2.0, abs=0.1)
    chances = np.diff(norm.cdf(closed, means[0], sds[0]))
    assert likelihood == pytest.approx(counts @ np.log(chances), rel=1e-4)


def test_two_normals_are_told_apart():
    random = np.random.default_rng(1)
    x = np.concatenate([random.normal(-3, 0.5, 3000), random.normal(2, 1.0, 1000)])
    closed, counts = counted(x, np.linspace(-6, 6, 100))
    _, weights, means, sds = fitted_cells(kernels.fit_cells, closed, counts, k=2)
    assert means == pytest.approx([-3, 2], abs=0.1)
    assert weights == pytest.approx([0.75, 0.25], abs=0.02)
    assert sds == pytest.approx([0.5, 1.0], abs=0.1)
