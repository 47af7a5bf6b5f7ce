"""The published variant beside a naive program of the papers' pseudo code, on one stream."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from distsvc import SupportVectorClustering
from distsvc.errors import ParameterError
from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.boundary.printed import PrintedDescent, drawn_rows, other_slots
from tests import reference
from tests.quiet_fits import quietly

STRATEGIES = ("removal", "project-nearest", "project-random")


def tables():
    blobs = make_blobs(120, centers=[[0, 0], [5, 0], [0, 5]], cluster_std=0.7, random_state=0)[0]
    moons = make_moons(150, noise=0.08, random_state=0)[0]
    iris = load_iris().data  # it has equal rows, which are different vectors
    return {"blobs": blobs, "moons": moons, "iris": StandardScaler().fit_transform(iris)}


TABLES = tables()


def compared(X, gamma, C, strategy, seed=0, budget=20, **given):
    """Return the labels of `published` and of the naive program, None for an empty boundary."""
    model = SupportVectorClustering.published(
        gamma=gamma, C=C, maintenance=strategy, budget=budget, random_state=seed, **given
    )
    try:
        found = quietly(model, X).labels_
    except ParameterError:  # an empty boundary
        found = None
    order = np.argsort(row_keys(seed, np.arange(len(X))))
    Z = np.float32(X - X[order].mean(axis=0))
    naive, certain = naive_labels(Z, order, gamma, C, strategy, seed, budget, model.epsilon)
    return found, naive, certain


def naive_labels(Z, order, gamma, C, strategy, seed, budget, epsilon):
    draws, others = drawn_rows(len(Z), seed), other_slots(seed)
    rows = Z[order]
    given = (gamma, C, budget, strategy, 5, 0.01, draws, others)
    alpha, _ = reference.printed_descent(rows, *given, most=200_000)
    weights = np.array(list(alpha.values()))
    return reference.printed_clusters(Z, rows[list(alpha)], weights, gamma, epsilon)


def same_partition(found, naive, certain):
    if found is None or naive is None:
        return found is None and naive is None
    return adjusted_rand_score(naive[certain], found[certain]) == 1.0


GRID = (0.125, 32.0), (0.5, 2.0), (0.5, 8.0), (2.0, 8.0), (2.0, 32.0), (8.0, 2.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", TABLES)
def test_partitions_equal_those_of_the_pseudo_code(name, strategy):
    X, n_empty = TABLES[name], 0
    for gamma, C in GRID:
        labels = compared(X, gamma, C, strategy)
        assert same_partition(*labels), (gamma, C)
        n_empty += labels[0] is None
    assert n_empty < len(GRID)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_equal_those_of_the_pseudo_code(strategy):
    X = TABLES["moons"]
    descent = PrintedDescent(X, 2.0, 8.0, 20, strategy, 5, seed=3)
    descent.run(500)
    draws, others = drawn_rows(len(X), 3), other_slots(3)
    alpha, steps = reference.printed_descent(
        X, 2.0, 8.0, 20, strategy, 5, None, draws, others, most=500
    )
    assert steps == descent.n_steps == 500
    assert list(alpha) == descent.numbers.tolist()
    np.testing.assert_allclose(list(alpha.values()), descent.coefficients, rtol=1e-9, atol=1e-12)


def fitted(X, seed=0, **given):
    return SupportVectorClustering.published(
        **{"gamma": 2.0, "C": 32.0, "random_state": seed} | given
    ).fit(X)


def test_epsilon_stays_and_an_empty_boundary_is_an_error():
    model = fitted(TABLES["moons"])
    f = model.decision_function(TABLES["moons"])
    assert model.epsilon_ == 0.01
    assert model.n_boundary_ == (np.abs(f) <= 0.01).sum() > 0
    assert model.notes_ == []
    least = np.abs(f).min()
    found = rf"of the boundary: the smallest decision value \|f\(x\)\| is {least:.3g};"
    with pytest.raises(ParameterError, match=found):
        fitted(TABLES["moons"], epsilon=1e-9)


@pytest.mark.parametrize("strategy", ["project-nearest", "project-random"])
def test_projections_are_on_the_span(strategy):
    """The residual of a projection is orthogonal to all vectors of the span."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    descent = PrintedDescent(X, 0.3, 8.0, 6, strategy, 5, seed=0)
    descent.numbers, descent.counts = np.arange(7), np.arange(1.0, 8.0)
    before = reference.gaussian(X[1:7], X[:7], 0.3) @ descent.counts
    descent._square = reference.squared_norm(X[:7], descent.counts, 0.3)
    descent.maintain()
    assert descent.numbers.tolist() == [1, 2, 3, 4, 5, 6]
    after = reference.gaussian(X[1:7], X[1:7], 0.3) @ descent.counts
    moved = descent.counts != np.arange(2.0, 8.0)
    assert moved.sum() == 5
    np.testing.assert_allclose(after[moved], before[moved], rtol=1e-9)
    square = reference.squared_norm(X[1:7], descent.counts, 0.3)
    assert descent._square == pytest.approx(square, rel=1e-9)


def test_the_average_begins_with_the_first_iterate():
    X, T = TABLES["blobs"], 60
    descent = PrintedDescent(X, 0.5, 6.0, None, "removal", 5, seed=1)
    mean = np.zeros(len(X))
    for t in range(1, T + 1):
        mean[descent.numbers] += 6.0 / max(t - 1, 1) * descent.counts / T
        descent.step(averaging=True)
    np.testing.assert_allclose(descent.total / T, mean[descent.numbers], rtol=1e-12)


@pytest.mark.parametrize("variant", ["default", "published"])
@pytest.mark.parametrize("solver", ["bsgd", "sgd"])
def test_a_random_iterate_is_an_iterate_of_the_run(variant, solver):
    X = TABLES["blobs"]
    given = {"solver": solver, "variant": variant, "bridging": True, "epsilon": 0.9}
    last, other = (fitted(X, 3, iterate=iterate, **given) for iterate in ("last", "random"))
    assert other.n_iter_ == last.n_iter_
    r = int(np.random.default_rng((3, 2)).integers(1, last.n_iter_ + 1))
    same = fitted(X, 3, max_iter=r, **given)
    np.testing.assert_array_equal(other.dual_coef_, same.dual_coef_)
    assert (
        len(other.dual_coef_) != len(last.dual_coef_) or (other.dual_coef_ != last.dual_coef_).any()
    )


def test_published_settings_are_the_papers():
    model = SupportVectorClustering.published(gamma=1.0, C=2.0)
    given = model.get_params()
    expected = {
        "solver": "bsgd", "budget": 50, "maintenance": "removal", "projection_size": 5,
        "theta": 0.01, "stopping": "step-norm", "segment_samples": 20, "bridging": False,
        "labelling": "equilibria", "variant": "published",
    }  # fmt: skip
    assert expected.items() <= given.items()
