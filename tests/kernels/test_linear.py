import numpy as np
import pytest
from scipy import sparse

from distsvc.kernels import linear
from tests import reference


class Case:
    """Rows with zeros, a feasible alpha with rows at both bounds, and a linear term."""

    def __init__(self, n=24, d=7, seed=0, scale=2.0):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
        self.X[3] = self.X[5] = 0.0
        self.alpha = np.round(rng.random(n) * 1.6 - 0.3, 3).clip(0.0, 1.0)
        self.p, self.scale, self.rng = -(self.X**2).sum(axis=1), scale, rng
        self.u = self.X.T @ self.alpha
        csr = sparse.csr_matrix(self.X)
        dense = self.X.ravel(), np.zeros(0), np.arange(0, n * d + 1, d)
        both = {"dense": dense, "sparse": (csr.data, csr.indices, csr.indptr)}
        self.rows = {
            kind: (data, indices.astype(np.uint32), indptr.astype(np.uint64))
            for kind, (data, indices, indptr) in both.items()
        }
        self.squares = (self.X**2).sum(axis=1)

    @property
    def gradients(self):
        return self.scale * self.X @ (self.X.T @ self.alpha) + self.p

    def order(self):
        return self.rng.permutation(len(self.X)).astype(np.int64)

    def descend(self, form, kind, order, size, inner=1):
        alpha, u, G, tally = self.alpha.copy(), self.u.copy(), np.zeros(len(self.X)), np.zeros(3)
        spread, how = np.zeros(self.X.shape[1]), (order, size, inner, alpha, G)
        form(*self.rows[kind], self.squares, u, self.p, self.scale, *how, spread, tally)
        assert not spread.any()
        return alpha, u, tally


KINDS = pytest.mark.parametrize("kind", ["dense", "sparse"])


@KINDS
@reference.forms(linear.gradient)
def test_gradients(form, kind):
    case, rows, G = Case(), np.array([1, 3, 8]), np.full(24, np.nan)
    form(*case.rows[kind], case.u, case.p, case.scale, rows, G)
    np.testing.assert_allclose(G[rows], case.gradients[rows], atol=1e-13)
    assert np.isnan(np.delete(G, rows)).all()


@reference.forms(linear.products)
def test_products_of_rows(form):
    case, out = Case(), np.empty(24)
    form(case.X, case.u, out)
    np.testing.assert_allclose(out, case.X @ case.u, rtol=1e-13)


@reference.forms(linear.closeness)
def test_distances_from_a_centre(form):
    case, out = Case(), np.empty(24)
    form(case.X, case.u, out)
    np.testing.assert_allclose(out, -((case.X - case.u) ** 2).sum(axis=1), rtol=1e-13)


@KINDS
@reference.forms(linear.weighted_sum)
def test_weighted_sums(form, kind):
    case, u = Case(), np.zeros(7)
    form(*case.rows[kind], case.alpha, u)
    np.testing.assert_allclose(u, case.u, atol=1e-13)


@KINDS
@reference.forms(linear.squares)
def test_squares(form, kind):
    case, squares = Case(), np.empty(24)
    form(*case.rows[kind][::2], squares)
    np.testing.assert_allclose(squares, case.squares, atol=1e-13)


@pytest.mark.parametrize("size", [2, 4, 6])
@pytest.mark.parametrize("seed", range(4))
@KINDS
@reference.forms(linear.descend)
def test_steps(form, kind, seed, size):
    case = Case(seed=seed)
    order = case.order()
    slow, cost = reference.descend_groups(
        case.X, case.alpha, case.p, case.scale, order.tolist(), size
    )
    alpha, u, tally = case.descend(form, kind, order, size)
    np.testing.assert_allclose(alpha, slow, atol=1e-12)
    np.testing.assert_allclose(u, case.X.T @ alpha, atol=1e-12)
    assert alpha.sum() == pytest.approx(case.alpha.sum(), abs=1e-12)
    before, after = (
        reference.dual_objective(case.X, a, case.p, case.scale) for a in (case.alpha, alpha)
    )
    assert tally[linear.CHANGE] == pytest.approx(after - before, abs=1e-11)
    assert tally[linear.COST] == cost
    assert after < before


@reference.forms(linear.descend)
def test_bounds_are_written_exactly(form):
    case = Case()
    case.alpha = np.array([0.1, 0.2, 0.7] * 8)
    alpha, _, tally = case.descend(form, "dense", np.tile(case.order(), 40), 2)
    assert tally[linear.MOVED] > 24
    assert alpha.min() == 0.0
    assert alpha.max() == 1.0
    near = (np.abs(alpha) < 1e-9) | (np.abs(alpha - 1.0) < 1e-9)
    assert np.isin(alpha[near], [0.0, 1.0]).all()


@pytest.mark.parametrize(
    ("start", "u", "end"), [([0.25, 0.5], 0.75, [0.75, 0.0]), ([0.7 + 0.2, 0.1], 1.0, [1.0, 0.0])]
)
@reference.forms(linear.descend)
def test_equal_rows_with_different_terms_move_to_the_bound(form, start, u, end):
    """The second sum is below 1 by rounding."""
    X, p = np.ones((2, 3)), np.array([0.0, 1.0])
    alpha, G, tally = np.array(start), np.zeros(2), np.zeros(3)
    assert alpha.sum() < 1.0
    rows = X.ravel(), np.zeros(0, np.uint32), np.array([0, 3, 6], np.uint64)
    how = np.array([0, 1]), 2, 1, alpha, G, np.zeros(3), tally
    form(*rows, np.full(2, 3.0), np.full(3, u), p, 1.0, *how)
    np.testing.assert_array_equal(alpha, end)


@reference.forms(linear.extremes)
def test_extremes(form):
    case = Case()
    rows = np.arange(0, 24, 2)
    G, alpha = case.gradients, case.alpha
    least, most = form(G, alpha, rows)
    assert least == G[[i for i in rows if alpha[i] < 1.0]].min()
    assert most == G[[i for i in rows if alpha[i] > 0.0]].max()
    assert form(G, np.ones(24), rows)[0] == np.inf
    assert form(G, np.zeros(24), rows)[1] == -np.inf


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("ties", [False, True])
@reference.forms(linear.violating_pairs)
def test_pairs(form, ties, limit):
    for seed in range(5):
        case = Case(n=40, seed=seed)
        G = np.round(case.gradients) if ties else case.gradients
        rows = np.arange(40)[case.rng.random(40) < 0.8]
        least, most = linear.extremes(G, case.alpha, rows)
        work = np.full((2, 40), -1), np.full((2, 40), np.nan)
        found = form(G, case.alpha, rows, least, most, limit, *work)
        assert found.tolist() == reference.violating_pairs(G, case.alpha, rows.tolist(), limit)


@reference.forms(linear.violating_pairs)
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_pairs_of_many_rows_with_equal_gradients(form, levels):
    """The rows that share the last place are taken in their order."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        G = np.sort(rng.integers(0, levels, 300))[:: 1 if seed % 2 else -1].astype(float)
        G = rng.permutation(G) if seed > 1 else G
        alpha = rng.choice([0.0, 0.5, 1.0], 300)
        rows = np.arange(300)
        least, most = linear.extremes(G, alpha, rows)
        work = np.empty((2, 300), np.int64), np.empty((2, 300))
        for limit in (1, 7, 60, 299):
            found = form(G, alpha, rows, least, most, limit, *work)
            assert found.tolist() == reference.violating_pairs(G, alpha, rows.tolist(), limit)


@reference.forms(linear.shrink)
def test_rows_that_stay_in_play(form):
    G = np.array([-3.0, -3.0, 0.0, 2.0, 2.0, 0.0, -1.0])
    alpha = np.array([1.0, 0.0, 0.5, 0.0, 1.0, 1.0, 1.0])
    assert form(G, alpha, np.arange(7), -2.0, 1.0).tolist() == [1, 2, 4, 5, 6]
