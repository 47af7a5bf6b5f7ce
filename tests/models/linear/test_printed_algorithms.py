"""Algorithms 4 and 5 of Chou, Lin and Lin (2020) as printed, and their convergence."""

import numpy as np
import pytest
from scipy import sparse

from distsvc import LinearOneClassSVM, LinearSVDD
from distsvc.models.linear.coordinate_descent import Method, Problem, Rows, solve, start
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
