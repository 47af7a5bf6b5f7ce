import numpy as np
import pytest

from distsvc.models.linear import working_set
from distsvc.models.linear.coordinate_descent import Method, Problem, Rows, solve, start, threshold
from distsvc.models.linear.working_set import Candidates, WorkingSet, extremes, gradients

N, D = 3000, 5


@pytest.fixture
def table():
    return np.random.default_rng(0).gamma(3.0, size=(N, D))


def candidates(keys, X, alpha, wanted, limit):
    return Candidates.lowest(keys, np.arange(len(X)), X, alpha, wanted, limit)


def descended(outer, X, alpha, method, limit):
    """Do outer steps over rows X until they converge, and return the passes that they took."""
    for n_passes in range(1, 50):
        outer.descend(*method)
        alpha[outer.rows] = outer.alpha
        assert alpha.sum() == pytest.approx(outer.total, rel=1e-12)
        np.testing.assert_allclose(outer.u, X.T @ alpha, rtol=1e-9)
        G = gradients(X, outer.u, outer.scale, outer.ball)
        outer.see_extremes(*extremes(G, alpha))
        if outer.converged(method[1]):
            return n_passes
        grows, falls = (alpha < 1.0) & (outer.most > G), (alpha > 0.0) & (outer.least < G)
        outer.take(candidates(G, X, alpha, grows, limit), candidates(-G, X, alpha, falls, limit))
    raise AssertionError("no end")


@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("off", [0.0, 20.0, -20.0])
def test_outer_steps_find_the_optimum(table, ball, off, monkeypatch):
    X = table
    monkeypatch.setattr(working_set, "working_rows", lambda d: 100)
    make, total = (Problem.data_description if ball else Problem.one_class), 300.5
    exact = start(Rows(X), make, total)
    assert solve(exact, Method("greedy-cyclic"), 1e-10, 100_000)
    alpha = np.zeros(N)
    G = exact.G + np.random.default_rng(0).normal(scale=0.5 * exact.G.std(), size=N)
    order = np.argsort(G)
    outside = np.zeros(N, bool)
    outside[order[: int(total + off)]] = True
    alpha[outside] = 1.0
    linear = -float((X[outside] ** 2).sum()) if ball else 0.0
    outer = WorkingSet(ball, total, X[outside].sum(axis=0), linear)
    inner = candidates(G, X, alpha, ~outside, 100), candidates(-G, X, alpha, outside, 100)
    assert outer.settle(int(outside.sum()), *inner)
    method = Method("greedy-sweeps"), 1e-9, 10_000, 0
    assert descended(outer, X, alpha, method, 100) > 1
    assert outer.objective == pytest.approx(exact.objective, rel=1e-8)
    assert outer.rho() == pytest.approx(threshold(exact.G, exact.alpha), rel=1e-5)


def test_settle_fails_with_too_few_rows(table):
    X = table
    outer = WorkingSet(False, 300.0, X[:200].sum(axis=0), 0.0)
    few = candidates(np.arange(N, dtype=float), X, np.zeros(N), np.ones(N, bool), 50)
    assert not outer.settle(200, few, few)


def test_merged_candidates_do_not_depend_on_the_blocks():
    rng = np.random.default_rng(1)
    keys, X = np.round(rng.random(500), 2), rng.random((500, 2))
    wanted = rng.random(500) < 0.7
    rows = np.arange(500)
    found = []
    for cuts in ([], [100, 350], [1, 2, 499]):
        held = Candidates.empty(2)
        for part in np.split(rows, cuts):
            block = Candidates.lowest(keys[part], part, X[part], keys[part], wanted[part], 40)
            held = held.merge(block, 40)
        found.append(held)
    order = np.flatnonzero(wanted)
    order = order[np.lexsort((order, keys[order]))][:40]
    for held in found:
        np.testing.assert_array_equal(held.rows, order)
        np.testing.assert_array_equal(held.X, X[order])
        np.testing.assert_array_equal(held.keys, keys[order])
