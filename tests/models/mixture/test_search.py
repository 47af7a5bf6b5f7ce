"""Mixtures: EM, shapes of covariances, and the search for the number of components."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior, run_em
from distsvc.models.mixture.search import SHAPES, search

NONE = np.zeros(0, np.int64)


def numbers(X, levels=None, n_levels=NONE):
    levels = np.zeros((len(X), 0), np.int32) if levels is None else levels
    return MixtureRows(X, levels, n_levels)


def three_groups(n=900, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    X = np.array([[0, 0, 0], [3, 0, 1], [0, 3, -1]])[y] + random.normal(size=(n, 3))
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("shape", SHAPES)
def test_each_step_of_em_raises_the_posterior_density(shape):
    X, y = three_groups()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    rows = numbers(X)
    prior = Prior.of(rows)
    mixture = NormalMixture.from_posteriors(
        rows, np.eye(3)[(y + (np.arange(len(y)) % 3 == 0)) % 3], prior, shape
    )
    assert mixture.shape == shape
    found = [float(mixture.likelihoods(rows).sum())]
    for _ in range(15):
        mixture, likelihood = run_em(rows, mixture, prior, 1, -np.inf)
        found.append(likelihood)
    assert np.all(np.diff(found) > -0.5)  # the prior may cost a little
    assert found[-1] > found[0] + 10


def test_without_influence_of_the_prior_the_fit_is_that_of_scikit_learn():
    X, y = three_groups(6000)
    rows, prior = numbers(X), Prior.of(numbers(X))
    ours = NormalMixture.from_posteriors(rows, np.eye(3)[y], prior, "full")
    ours, likelihood = run_em(rows, ours, prior, 100, 1e-9)
    theirs = GaussianMixture(3, means_init=ours.means, tol=1e-9, max_iter=200).fit(X)
    assert likelihood / len(X) == pytest.approx(theirs.score(X), abs=2e-3)


def test_groups_and_their_number_are_found():
    X, y = three_groups(1500)
    found = search(numbers(X), X)
    best = found.best.mixture
    assert best.n_components == 3
    assert adjusted_rand_score(y, best.posterior(numbers(X)).argmax(axis=1)) > 0.6
    assert [fit.mixture.n_components for fit in found.best_of_each][:4] == [1, 2, 3, 4]


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_groups_do_not_depend_on_the_unit(unit):
    X, _ = three_groups(1500)
    found = [search(numbers(Z), Z).best.mixture for Z in (X, X * unit)]
    assert [each.n_components for each in found] == [3, 3]
    assert found[1].means / unit == pytest.approx(found[0].means, abs=0.01)


def test_one_group_stays_one_whatever_the_threads():
    X = np.random.default_rng(0).normal(size=(800, 4))
    one, two = (search(numbers(X), X, n_jobs=n) for n in (1, 2))
    assert one.best.mixture.n_components == 1
    assert [fit.bic for fit in one.fits] == [fit.bic for fit in two.fits]


def test_a_wanted_number_is_fitted_in_any_case():
    X = np.random.default_rng(0).normal(size=(300, 3))
    found = search(numbers(X), X, n_components=6)
    assert 6 in {fit.mixture.n_components for fit in found.fits}


def test_more_components_than_the_maximum_are_not_fitted(monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 3))
    monkeypatch.setattr("distsvc.models.mixture.search.MAX_WANTED", 30)
    found = search(numbers(X), X, n_components=10**6)
    assert max(fit.mixture.n_components for fit in found.fits) == 30


def test_shapes_that_need_more_rows_are_replaced_by_diagonal_ones():
    X = np.random.default_rng(0).normal(size=(40, 40))
    X[np.arange(40), np.arange(40)] = np.nan  # as many patterns of missing numbers as rows
    found = search(numbers(X), np.nan_to_num(X), shapes=("full",))
    assert {fit.mixture.shape for fit in found.fits} == {"diagonal"}


def test_a_number_that_some_rows_lack_has_the_prior_of_all_rows():
    X, _ = three_groups(200)
    X[1:, 2] = np.nan
    X[0, 2] = 1.0
    part = numbers(X[1:])
    found = search(part, np.nan_to_num(X[1:]), prior=Prior.of(numbers(X)))
    assert np.isfinite([fit.bic for fit in found.fits]).all()
    assert np.isfinite(found.best.mixture.posterior(part)).all()


def test_long_clusters_side_by_side_are_found():
    random = np.random.default_rng(1)
    y = random.integers(0, 4, 200)
    X = random.normal(size=(200, 5)) * [1.0, 0.03, 0.03, 0.03, 0.03]
    X[:, 1] += np.where(y % 2, 0.1, -0.1)
    X[:, 2] += np.where(y // 2, 0.1, -0.1)
    X = X @ np.linalg.qr(random.normal(size=(5, 5)))[0]  # no column shows a gap
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    best = search(numbers(X), X, shapes=("full",)).best.mixture
    assert adjusted_rand_score(y, best.posterior(numbers(X)).argmax(axis=1)) > 0.95


def test_the_order_of_the_rows_does_not_matter():
    X, _ = three_groups(600)
    order = np.random.default_rng(2).permutation(len(X))
    found = [search(numbers(Z), Z).fits for Z in (X, X[order])]
    bics = [[fit.bic for fit in fits] for fits in found]
    assert bics[1] == pytest.approx(bics[0], abs=1e-2)


def test_repeated_rows_and_dependent_columns_have_starts():
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (300, 2)).astype(float)
    X = np.column_stack([X, X.sum(axis=1)])
    assert search(numbers(X), X).best.mixture.n_components >= 1
