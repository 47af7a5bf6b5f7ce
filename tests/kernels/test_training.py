from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels import training as kernels
from tests import reference
from tests.normal_rows import rows

CODES = {
    "removal": kernels.REMOVAL,
    "project-nearest": kernels.PROJECT_NEAREST,
    "project-random": kernels.PROJECT_RANDOM,
    "merge": kernels.MERGE,
}
NEVER = 10**9

cheapest = numba.njit(lambda loss, n, p: kernels._cheapest(loss, n, p))


class Model:
    """The arrays of one descent, with room for all rows."""

    def __init__(self, d, capacity, random=12345):
        self.S = np.zeros((d, capacity), np.float32)
        self.counts, self.counts32 = np.zeros(capacity), np.zeros(capacity, np.float32)
        self.born, self.moments = np.zeros(capacity, np.int64), np.zeros(capacity)
        self.state, self.sums = np.zeros(6, np.uint64), np.zeros(2)
        self.state[kernels.RANDOM] = random

    def feed(self, X, gamma, C, budget=NEVER, strategy="merge", k=5, theta=0.0):
        arrays = self.S, self.counts, self.counts32, self.born, self.moments, self.state, self.sums
        return kernels.descend(X, *arrays, gamma, C, budget, CODES[strategy], k, theta)

    n = property(lambda self: int(self.state[kernels.N_VECTORS]))
    vectors = property(lambda self: self.S[:, : self.n].T.astype(np.float64))
    held = property(lambda self: self.counts[: self.n])


def maintained(strategy, vectors, counts, k=5, gamma=0.5, born=None, random=12345):
    """A model of these vectors, and the one that remains after a row far away from all came in.

    The second is without that row.
    """
    vectors = np.asarray(vectors, np.float32)
    n, d = vectors.shape
    before, after = Model(d, n + 1), Model(d, n + 1, random)
    for m in (before, after):
        m.S[:, :n] = vectors.T
        m.counts[:n] = m.counts32[:n] = counts
        m.born[:n] = range(n) if born is None else born
        m.state[kernels.N_VECTORS], m.state[kernels.STEP] = n, n
    far = np.full((1, d), 1e4, np.float32)
    after.feed(far, gamma, 10.0, n, strategy, k)
    assert after.state[kernels.MAINTAINED] == 1
    assert after.n == n
    others = [j for j in range(n) if after.vectors[j, 0] != 1e4]
    assert len(others) == n - 1, "the newest stays"
    return before, after, others


def loss(strategy, vectors, counts, **kwargs):
    """Squared norm lost by one maintenance, without the row far away."""
    before, after, others = maintained(strategy, vectors, counts, **kwargs)
    gone = reference.distance(
        before.vectors, before.held, after.vectors[others], after.held[others], 0.5
    )
    return gone**2


@pytest.mark.parametrize("strategy", CODES)
@pytest.mark.parametrize("seed", range(4))
def test_twin_descend(strategy, seed):
    X, gamma, C = rows(120, d=2 + seed, seed=seed), 0.5, 30.0
    X[60:80] = X[:20]
    fast, slow = Model(X.shape[1], 7), reference.Descent(gamma, C, 6, strategy, random=12345)
    for x in X:
        fast.feed(x[None], gamma, C, 6, strategy)
        slow.step(x.astype(np.float64))
        gap = reference.distance(fast.vectors, fast.held, slow.vectors, slow.counts(), gamma)
        assert gap <= 5e-3 * np.sqrt(reference.squared_norm(slow.vectors, slow.counts(), gamma))
        if strategy == "merge":
            # partners that are equally good up to rounding differ later on: start both again
            slow.vectors = list(fast.vectors)
            slow.alpha = [Fraction(n) * slow.C / slow.t for n in fast.held.tolist()]
        else:
            assert (fast.vectors == slow.vectors).all()
        if strategy == "removal":
            assert fast.held.tolist() == slow.counts()
    assert fast.state[kernels.HITS] == slow.hits
    assert fast.state[kernels.MAINTAINED] == slow.maintained > 20
    assert fast.n == 6


def test_twin_descend_without_budget():
    X, gamma, C = rows(150), 0.25, 5.0
    fast, slow = Model(2, 151), reference.Descent(gamma, C, NEVER, "removal")
    assert fast.feed(X, gamma, C) == 150
    for x in X:
        slow.step(x.astype(np.float64))
    assert fast.held.tolist() == slow.counts()
    assert (fast.vectors == slow.vectors).all()
    assert 0 < slow.hits < 150


@pytest.mark.parametrize("strategy", CODES)
def test_the_cut_into_blocks_does_not_matter(strategy):
    X = rows(200, d=3)
    whole = Model(3, 20)
    whole.feed(X, 0.3, 20.0, 15, strategy, theta=1e-6)
    cut = Model(3, 20)
    for part in np.split(X, [1, 2, 50, 117, 199]):
        cut.feed(part, 0.3, 20.0, 15, strategy, theta=1e-6)
    for name in ("S", "counts", "counts32", "born", "moments", "state", "sums"):
        assert (getattr(cut, name) == getattr(whole, name)).all(), name


def test_removal_takes_the_oldest_of_the_smallest():
    vectors, counts = rows(5), [2.0, 1.0, 3.0, 1.0, 1.0]
    _, after, _ = maintained("removal", vectors, counts, born=[1, 9, 0, 4, 7])
    assert (after.vectors[3] == 1e4).all()  # the new one took the place of the oldest
    assert after.held.tolist() == [2.0, 1.0, 3.0, 1.0, 1.0]
    _, after, _ = maintained("removal", vectors, counts, born=[1, 4, 0, 9, 7])
    assert (after.vectors[1] == 1e4).all()


@pytest.mark.parametrize("strategy", CODES)
def test_the_newest_is_never_the_one(strategy):
    # far apart and all hit once: without the rule every new row would be tied for removal
    X = (50.0 * np.arange(30)[:, None] @ np.ones((1, 2))).astype(np.float32)
    m = Model(2, 7)
    for t, x in enumerate(X):
        m.feed(x[None], 1.0, 100.0, 5, strategy)
        assert (m.vectors[: m.n] == x).all(axis=1).any(), t
    if strategy == "removal":
        assert sorted(m.vectors[:, 0]) == X[-5:, 0].tolist()


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("strategy", ["project-nearest", "project-random"])
def test_projection_weights(strategy, k):
    vectors, counts = rows(8, spread=1.0), [5.0, 4.0, 1.0, 4.0, 6.0, 3.0, 7.0, 2.0]
    before, after, others = maintained(strategy, vectors, counts, k=k)
    gained = after.held - before.held
    gained[2] = 0.0  # the place of the projected vector, now the new row's
    assert (gained >= 0.0).all()
    twin = reference.Descent(0.5, 1, 8, strategy, k, random=12345)
    twin.vectors = [*before.vectors, np.full(2, 1e4)]
    chosen = twin.nearest(2) if strategy == "project-nearest" else twin.others(2)
    weights = reference.cone_weights(twin.vectors, 2, chosen, 0.5)
    expected = np.zeros(9)
    expected[chosen] = weights
    np.testing.assert_allclose(gained, expected[:8], atol=2e-4)
    assert len(others) == 7


@given(st.lists(st.sampled_from([-2.5, -1e-30, -0.0, 0.0, 1e-30, 0.5, 3e38]), min_size=2))
@settings(max_examples=60, deadline=None)
def test_the_cheapest_partner_is_the_first_of_the_least_losses(values):
    for p in range(len(values)):
        loss = np.array([*values, -9.0], np.float32)  # the last slot holds no vector
        others = [j for j in range(len(values)) if j != p]
        expected = min(others, key=lambda j: values[j])
        assert cheapest(loss.copy(), len(values), p) == expected
        assert reference.plain(kernels._cheapest)(loss, len(values), p) == expected


@pytest.mark.parametrize("strategy", CODES)
def test_the_norm_is_tracked(strategy):
    X, m = rows(150, seed=3), Model(2, 12)
    for x in X:
        m.feed(x[None], 0.4, 15.0, 10, strategy, theta=1e-9)
        direct = reference.squared_norm(m.vectors, m.held, 0.4)
        assert m.sums[1] == pytest.approx(direct, rel=1e-5)


@pytest.mark.parametrize("strategy", CODES)
@pytest.mark.parametrize("theta", [0.5, 0.2, 0.1])
def test_it_stops_at_the_first_short_step(strategy, theta):
    X, gamma, C = rows(150, seed=4), 0.4, 15.0
    slow = reference.Descent(gamma, C, 10, strategy, random=12345)
    norms = np.array([slow.step(x.astype(np.float64)) for x in X])
    m = Model(2, 12)
    used = m.feed(X, gamma, C, 10, strategy, theta=theta)
    assert used == 1 + int((norms <= theta).argmax())
    assert m.state[kernels.STEP] == used
    assert m.state[kernels.STOPPED_FLAG] == 1


def test_theta_zero_never_stops():
    m = Model(1, 3)
    assert m.feed(np.zeros((1000, 1), np.float32), 1.0, 1.0) == 1000
    assert m.state[kernels.STOPPED_FLAG] == 0


def points(n, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def solve(K, bound, tolerance=1e-10, max_sweeps=100_000):
    a = np.zeros(len(K))
    return a, kernels.coordinate_ascent(K, a, bound, tolerance, max_sweeps)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_twin_gram_matrix(d):
    X = points(20, d)
    K = kernels.gram_matrix(X, 0.7)
    np.testing.assert_allclose(K, reference.gaussian(X, X, 0.7), rtol=1e-13)
    assert (K == K.T).all()
    assert (np.diag(K) == 1.0).all()


@pytest.mark.parametrize("bound", [0.02, 0.1, 5.0])
def test_twin_coordinate_ascent(bound):
    K = reference.gaussian(points(40), points(40), 2.0)
    a, _ = solve(K, bound)
    slow = reference.dual_optimum(K, bound)
    assert a.sum() - a @ K @ a / 2 == pytest.approx(slow.sum() - slow @ K @ slow / 2, rel=1e-7)
    np.testing.assert_allclose(K @ a, K @ slow, atol=1e-4)


def test_the_number_of_sweeps_is_limited():
    a, sweeps = solve(kernels.gram_matrix(points(50), 0.1), 1.0, 1e-12, 3)
    assert sweeps == 3
    assert a.sum() > 0.0


def test_one_row():
    assert solve(np.ones((1, 1)), 5.0)[0].tolist() == [1.0]
    assert solve(np.ones((1, 1)), 0.5)[0].tolist() == [0.5]
