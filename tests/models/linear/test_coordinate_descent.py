from typing import get_args

import numpy as np
import pytest
from scipy import sparse

from distsvc.job.parameters import LinearSolver
from distsvc.models.linear.coordinate_descent import (
    Method,
    Problem,
    Rows,
    duality_gap,
    first_alpha,
    interleave,
    solve,
    start,
    threshold,
)
from tests import reference

KINDS = {"one-class": Problem.one_class, "data description": Problem.data_description}


def table(n=30, d=4, seed=0, offset=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8) + offset


@pytest.mark.parametrize("total", [1.0, 3.7, 15.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", get_args(LinearSolver))
def test_every_solver_finds_the_optimum_of_a_general_solver(solver, kind, total):
    X = table()
    for rows in (Rows(X), Rows(sparse.csr_matrix(X))):
        state = start(rows, KINDS[kind], total)
        assert solve(state, Method(solver), 1e-10, 50_000)
        of = state.problem
        best = reference.one_class_optimum(X, of.scale, of.p, total)
        assert state.objective == pytest.approx(best, rel=1e-6)
        assert state.alpha.sum() == pytest.approx(total, rel=1e-12)
        assert state.alpha.min() >= 0.0
        assert state.alpha.max() <= 1.0
        G = of.scale * X @ (X.T @ state.alpha) + of.p
        np.testing.assert_allclose(state.G, G, rtol=1e-9)
        violation = G[state.alpha > 0].max() - G[state.alpha < 1].min()
        assert violation <= 1e-9 * abs(best) / total + 1e-9
        assert -1e-12 <= duality_gap(state) <= 1e-8 * abs(best)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tolerance_bounds_the_relative_error(kind):
    exact = start(Rows(table(300)), KINDS[kind], 30.0)
    assert solve(exact, Method("greedy-cyclic"), 1e-11, 50_000)
    for tol in (1e-1, 1e-3, 1e-5):
        state = start(Rows(table(300)), KINDS[kind], 30.0)
        assert solve(state, Method("greedy-cyclic"), tol, 50_000)
        error = (state.objective - exact.objective) / abs(exact.objective)
        assert -1e-10 <= error <= tol


def test_too_few_steps_do_not_converge():
    state = start(Rows(table(300)), Problem.one_class, 30.0)
    assert not solve(state, Method("greedy-2cd"), 1e-10, 2)
    assert state.n_iter == 2


def test_sparse_rows_may_all_be_zero():
    state = start(Rows(sparse.csr_matrix((30, 4))), Problem.data_description, 3.0)
    assert solve(state, Method("greedy-cyclic"), 1e-9, 10)
    assert state.objective == state.violation == 0.0


def test_the_first_alpha_divides_ties_equally():
    G = np.array([2.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(first_alpha(G, 2.5), [0.0, 0.5, 0.5, 0.5, 1.0])
    np.testing.assert_array_equal(first_alpha(G, 5.0), np.ones(5))
    np.testing.assert_allclose(first_alpha(G, 0.5), [0, 0, 0, 0, 0.5])


def test_pairs_of_both_halves_are_dealt_in_turns():
    dealt = [0, 1, 4, 5, 2, 3, 6, 7]
    assert interleave(np.arange(8)).tolist() == dealt
    assert interleave(np.arange(10)).tolist() == [*dealt, 8, 9]  # the last pair stays
    assert interleave(np.arange(2)).tolist() == [0, 1]
    assert interleave(np.arange(0)).tolist() == []


def test_thresholds_by_hand():
    G = np.array([0.0, 1.0, 2.0, 4.0])
    assert threshold(G, np.array([1.0, 0.5, 0.25, 0.0])) == 1.0
    assert threshold(G, np.array([1.0, 0.5, 0.25, 0.0]), 0.125) == 0.875
    assert threshold(G, np.array([1.0, 1.0, 0.0, 0.0])) == 1.5
    assert threshold(G, np.ones(4)) == 4.0
