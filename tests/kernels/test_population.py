"""One column given others: against least squares, scikit-learn, scipy and numerical integrals."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm, t
from sklearn.linear_model import LogisticRegression

from distsvc.kernels.mixture import MIN_RELATIVE_SD
from distsvc.kernels.population import MAX_TERMS, describe_category, describe_cells, describe_number

N = 3000


def describe(columns, y, own=None):
    V = np.ascontiguousarray(columns)
    knots = np.ascontiguousarray(np.quantile(V, [0.25, 0.5, 0.75], axis=1).T)
    found = np.empty(len(y))
    own = np.arange(len(y)) if own is None else own
    parameters = describe_number(V, knots, len(V), y, own, np.log(len(y)), found, False)
    return found, parameters


def test_a_number_is_regressed_by_least_squares_on_the_terms_it_has():
    random = np.random.default_rng(0)
    a, b, e = random.normal(size=(3, N))
    bend = np.maximum(a - np.quantile(a, 0.75), 0.0)
    y = 2.0 + a - b + 3.0 * bend + 2.0 * a * b + 0.5 * e
    own = np.arange(0, N, 2)
    found, parameters = describe([a, b], y, own)
    A = np.stack([np.ones(N), a, b, bend, a * b], axis=1)
    residuals = y - A @ np.linalg.lstsq(A[own], y[own], rcond=None)[0]
    variance = residuals[own] @ residuals[own] / len(own) + MIN_RELATIVE_SD**2
    assert parameters == 6
    assert found == pytest.approx(norm.logpdf(residuals, scale=np.sqrt(variance)), abs=1e-9)


def test_more_terms_than_allowed_leave_those_most_like_the_number():
    random = np.random.default_rng(1)
    V = random.normal(size=(14, N))
    assert MAX_TERMS < 14 * 13 // 2 + 14 * 3
    found, parameters = describe(V, V[12] * V[13] + 0.1 * random.normal(size=N))
    assert 3 <= parameters <= 6  # of 133 terms BIC takes one by chance, now and then
    assert found.mean() == pytest.approx(-0.5 * np.log(2 * np.pi * np.e * 0.01), abs=0.05)


def test_a_variance_that_changes_is_found():
    random = np.random.default_rng(2)
    a, e = random.normal(size=(2, N))
    found, parameters = describe([a], np.exp(0.5 * a) * e)
    assert parameters > 2
    assert found.mean() == pytest.approx((norm.logpdf(e) - 0.5 * a).mean(), abs=0.02)


@pytest.mark.parametrize("k", [1, 3])
def test_cells_have_the_probabilities_of_the_likeliest_ordered_probit(k):
    random = np.random.default_rng(4)
    signal, cluster = random.integers(-8, 9, N) / 4.0, np.arange(N) % k
    cells = np.digitize(0.7 * signal + cluster + random.normal(size=N), [-1.0, 0.5, 2.0])
    cells[::7] = -1
    own = (cluster * N + np.arange(N))[(cells >= 0) & (np.arange(N) % 5 > 0)]
    found = np.empty(k * N)
    describe_cells(np.tile(signal, k), cells, own, k, np.array([-1.0, 0.0, 1.0]), found)

    def log_chances(parameters):
        means = np.append(0.0, parameters[1:k])[:, None] + parameters[0] * signal
        edges = np.concatenate([[-np.inf], parameters[k:], [np.inf]])
        chances = norm.cdf(edges[cells + 1] - means) - norm.cdf(edges[cells] - means)
        return np.where(cells >= 0, np.log(np.maximum(chances, 1e-300)), 0.0).ravel()

    start = np.append(np.zeros(k), [-1.0, 0.0, 1.0])
    best = minimize(lambda one: -log_chances(one)[own].sum(), start).x
    assert found == pytest.approx(log_chances(best), abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "extra"), [("normal", 0), ("tails", 1), ("skewed", 2)], ids=lambda one: str(one)
)
def test_the_density_of_every_shape_integrates_to_one(kind, extra):
    random = np.random.default_rng(3)
    y = {
        "normal": random.normal(size=N),
        "tails": t.rvs(3, size=N, random_state=random),
        "skewed": np.where(random.random(N) < 0.25, -1.0, 3.0) * abs(random.normal(size=N)),
    }[kind]
    grid = np.linspace(-400.0, 400.0, 160_001)
    found, parameters = describe(np.empty((0, N + len(grid))), np.append(y, grid), np.arange(N))
    assert parameters == 2 + extra
    assert np.exp(found[N:]).sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=2e-3)
    if kind == "tails":
        assert found[:N].sum() > norm.logpdf(y, y.mean(), y.std()).sum() + 100.0


@pytest.mark.parametrize("n_levels", [2, 4])
def test_a_category_is_the_logistic_regression_of_scikit_learn(n_levels):
    random = np.random.default_rng(4)
    known = random.normal(size=(4, N))
    level = np.clip(1 + known[0] - 2.0 * known[2] + random.logistic(size=N), 0, n_levels - 1)
    level = level.astype(np.int64)
    own, shares = np.arange(0, N, 3), np.bincount(level) / N
    found = np.empty(N)
    parameters = describe_category(known, 4, level, own, shares, np.log(N), found)
    assert parameters == (n_levels - 1) * 3
    A = known[[0, 2]].T
    A = (A - A[own].mean(axis=0)) / A[own].std(axis=0)
    model = LogisticRegression(C=100.0, tol=1e-8).fit(A[own], level[own])
    chance = model.predict_proba(A)[np.arange(N), level]
    expected = np.log((len(own) * chance + shares[level]) / (len(own) + 1.0))
    assert found == pytest.approx(expected, abs=2e-3 if n_levels == 2 else 1e-4)


def test_levels_that_a_column_separates_have_finite_chances():
    x = np.linspace(-1.0, 1.0, N)
    level = (x > 0).astype(np.int64)
    found = np.empty(N)
    shares = np.array([0.5, 0.5])
    assert describe_category(x[None], 1, level, np.arange(N), shares, np.log(N), found) == 2
    assert -0.01 < found.mean() < 0.0


def test_a_category_alone_has_shares_that_count_the_table_as_one_row():
    level = np.array([0, 0, 1, -1, 2], np.int64)
    shares, found = np.array([0.5, 0.25, 0.25]), np.empty(5)
    known = np.empty((0, 5))
    assert describe_category(known, 0, level, np.array([0, 1, 2]), shares, np.log(5), found) == 2
    assert np.exp(found) == pytest.approx([2.5 / 4, 2.5 / 4, 1.25 / 4, 2.5 / 4, 0.25 / 4])
