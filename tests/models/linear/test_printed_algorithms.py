"""Algorithms 4 and 5 of Chou, Lin and Lin (2020) as printed, and their convergence."""

import numpy as np
import pytest
from scipy import sparse

from distsvc import LinearOneClassSVM, LinearSVDD
from distsvc.models.linear.coordinate_descent import (
    SOLVERS,
    Method,
    Problem,
    Rows,
    solve,
    start,
)
from tests import reference

KINDS = {"one-class": Problem.one_class, "data description": Problem.data_description}
PRINTED = Method("greedy-cyclic", share=0.1, shrinking=False)


def table(n=80, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8) + 0.7


def algorithm_5(X, alpha, p, scale, share, steps):
    """Outer steps: the full gradient, the r most violating pairs (3.18), one after the other."""
    for _ in range(steps):
        G = scale * X @ (X.T @ alpha) + p
        pairs = reference.violating_pairs(G, alpha, range(len(X)), int(share * len(X)))
        alpha, _ = reference.descend_groups(X, alpha, p, scale, pairs, 2)
    return alpha


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("form", [Rows, lambda X: Rows(sparse.csr_matrix(X))])
def test_greedy_cyclic_is_algorithm_5(kind, steps, form):
    X = table()
    state = start(form(X), KINDS[kind], 12.5, "first")
    first = state.alpha.copy()
    assert first.tolist() == [1.0] * 12 + [0.5] + [0.0] * 67  # section 4.1
    solve(state, PRINTED, 1e-12, steps)
    of = state.problem
    slow = algorithm_5(X, first, of.p, of.scale, 0.1, steps)
    if steps == 1:
        np.testing.assert_allclose(state.alpha, slow, atol=1e-9)
    # Later rounding decides between rows that a move gave equal gradients.
    values = [reference.dual_objective(X, a, of.p, of.scale) for a in (state.alpha, slow)]
    assert values[0] == pytest.approx(values[1], rel=0.1)


def test_the_operations_of_an_outer_step_are_counted_as_in_the_paper():
    """The full gradient is n; each pair is 2 for its gradients, 1 for Q_ij and 2 for u."""
    state = start(Rows(table()), Problem.one_class, 12.5, "first")
    state.tally[:] = 0.0
    solve(state, PRINTED, 1e-12, 1)
    moved = state.tally[1]
    pairs = int(0.1 * 80)
    after = 80  # the gradients by which the end is judged
    assert state.cost == 80 + 2 * pairs + 3 * moved + after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 1.0])
def test_algorithm_5_converges_to_the_dual_optimum(kind, share):
    """Section 3.4, supplement: the objective falls at each outer step, to the optimum."""
    X = table(40)
    state = start(Rows(X), KINDS[kind], 8.3, "first")
    values = [state.objective]
    method = Method("greedy-cyclic", share=share, shrinking=False)
    solve(state, method, 1e-10, 50_000, watch=lambda now: values.append(now.objective))
    assert (np.diff(values) <= 1e-12 * abs(values[0])).all()
    of = state.problem
    best = reference.one_class_optimum(X, of.scale, of.p, 8.3)
    assert state.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("block_size", [3, 4, 10])
@pytest.mark.parametrize("inner_iterations", [1, 3])
def test_blocks_and_inner_iterations_of_algorithm_4(block_size, inner_iterations):
    X = table(40)
    state = start(Rows(X), Problem.data_description, 8.3)
    method = Method("cyclic-4cd-greedy", block_size=block_size, inner_iterations=inner_iterations)
    assert solve(state, method, 1e-10, 50_000)
    of = state.problem
    best = reference.one_class_optimum(X, of.scale, of.p, 8.3)
    assert state.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_shrinking_does_not_change_the_optimum(solver):
    X, found = table(200), []
    for shrinking in (True, False):
        state = start(Rows(X), Problem.data_description, 20.0)
        assert solve(state, Method(solver, shrinking=shrinking), 1e-10, 50_000)
        found.append(state.objective)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.parametrize("make", [LinearOneClassSVM, LinearSVDD])
def test_published_settings(make):
    model = make.published(nu=0.1)
    given = model.get_params()
    assert (given["solver"], given["share"], given["nu"]) == ("greedy-cyclic", 0.1, 0.1)
    assert (given["shrinking"], given["start"]) == (False, "first")
    X = table(300)
    default = make(0.1, tol=1e-9).fit(X)
    found = make.published(nu=0.1, tol=1e-9).fit(X)
    assert found.objective_ == pytest.approx(default.objective_, rel=1e-8)
