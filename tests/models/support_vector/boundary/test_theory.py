"""Lemmas 1 to 6 and Theorem 7 of Pham, Le and Dang (2017), Theorems 2 and 3 of Pham et al. (2016).

All rows have ||phi(x)|| = R = 1. `Run` has every iterate of the printed descent, as coefficients of
all rows, so that each quantity is computed from its definition.
"""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from distsvc.models.support_vector.boundary.printed import PrintedDescent, drawn_rows
from tests import reference

N, T, GAMMA = 60, 400, 2.0
X = make_moons(N, noise=0.1, random_state=0)[0]
K = reference.gaussian(X, X, GAMMA)
TOLERANCE = 1 + 1e-9
CASES = pytest.mark.parametrize(("C", "budget"), [(4.0, 8), (16.0, 15), (16.0, None)])


class Run:
    """w_1 .. w_{T+1} as coefficients (T + 1, N), the drawn rows, and what was removed."""

    def __init__(self, C, budget, seed=0):
        self.C = C
        descent = PrintedDescent(X, GAMMA, C, budget, "removal", 5, seed)
        draws = drawn_rows(N, seed)
        self.drawn = [next(draws) for _ in range(T)]
        self.w = np.zeros((T + 1, N))
        self.removed = np.zeros(T)  # alpha_p at step t, where Z_t = 1
        hits, self.m = np.zeros(N), 1
        for t in range(1, T + 1):
            row, before = self.drawn[t - 1], set(descent.numbers.tolist())
            hit = K[row] @ self.w[t - 1] < 1.0
            hits[row] += hit
            step = self.w[t - 1] * (t - 1) / t + (np.arange(N) == row) * hit * C / t
            descent.step()
            self.w[t, descent.numbers] = descent.coefficients
            for gone in (before | {row} if hit else before) - set(descent.numbers.tolist()):
                self.removed[t - 1] = step[gone]
                self.m, hits[gone] = max(self.m, int(hits[gone])), 0.0
        self.G, self.H = 2.0 * C, self.m * C  # CR + CR^2, m C R^2
        self.W = self.H + np.sqrt(self.H**2 + (self.G + self.H) ** 2)

    def subgradients(self):
        """g_t = w_t - C I[w_t.phi(x) < 1] phi(x) (T, N)."""
        g = self.w[:-1].copy()
        for t, row in enumerate(self.drawn):
            g[t, row] -= self.C * (K[row] @ self.w[t] < 1.0)
        return g


def norms(coefficients):
    return np.sqrt(np.maximum(np.einsum("ti,ij,tj->t", coefficients, K, coefficients), 0.0))


def objective(w, C):
    return 0.5 * w @ K @ w + C * np.maximum(0.0, 1.0 - K @ w).mean()


def optimum(C):
    return reference.dual_optimum(K, C / N)


@CASES
def test_lemmas_1_to_5_bound_every_step(C, budget):
    run, t = Run(C, budget), np.arange(1, T + 1)
    assert np.abs(run.w).sum(axis=1).max() <= C * TOLERANCE  # Lemma 1
    assert norms(run.w).max() <= C * TOLERANCE  # Lemma 2
    assert norms(run.subgradients()).max() <= run.G * TOLERANCE  # Lemma 3
    assert (np.abs(run.removed) <= run.m * C / t * TOLERANCE).all()  # Lemma 4
    assert (t * np.abs(run.removed)).max() <= run.H * TOLERANCE  # Lemma 5
    assert (run.removed > 0.0).any() == (budget is not None)


@CASES
def test_lemma_6_bounds_the_distance_from_the_optimum(C, budget):
    w = optimum(C)
    runs = [Run(C, budget, seed) for seed in range(4)]
    squares = np.mean([norms(run.w - w) ** 2 for run in runs], axis=0)
    assert squares.max() <= min(run.W for run in runs) ** 2


@CASES
def test_theorem_7_bounds_the_regret_of_the_average(C, budget):
    best, seeds = objective(optimum(C), C), range(4)
    runs = [Run(C, budget, seed) for seed in seeds]
    t = np.arange(1, T + 1)
    average = np.mean([objective(run.w[:-1].mean(axis=0), C) for run in runs]) - best
    each = np.mean([[objective(w, C) for w in run.w[:-1]] for run in runs]) - best
    rho = np.array([t * run.removed for run in runs])
    maintained = (rho > 0.0).mean(axis=0) * np.sqrt((rho**2).mean(axis=0))
    G, H, W = (max(getattr(run, name) for run in runs) for name in "GHW")
    H, W = (H, W) if budget is not None else (0.0, 0.0)
    bound = (G + H) ** 2 * (np.log(T) + 1.0) / (2.0 * T) + W / T * maintained.sum()
    assert 0.0 <= average <= each * TOLERANCE
    assert each <= bound


def test_without_a_budget_the_gap_falls_at_least_as_log_t_over_t():
    C = 16.0
    best = objective(optimum(C), C)
    run = Run(C, None)
    steps = np.array([50, 100, 200, 400])
    gaps = [objective(run.w[:s].mean(axis=0), C) - best for s in steps]
    scaled = np.array(gaps) * steps / np.log(steps)
    assert (np.diff(scaled) <= 0.0).all()


@pytest.mark.parametrize("C", [4.0, 16.0])
def test_theorem_2_of_2016_bounds_the_regret_against_any_other(C):
    run = Run(C, None)
    losses = np.array([
        0.5 * w @ K @ w + C * max(0.0, 1.0 - K[row] @ w)
        for w, row in zip(run.w[:-1], run.drawn, strict=True)
    ])  # fmt: skip
    random = np.random.default_rng(0)
    others = [optimum(C), np.zeros(N), run.w[-1]]
    others += [random.dirichlet(np.ones(N)) * C * random.random() for _ in range(20)]
    for u in others:
        theirs = 0.5 * u @ K @ u + C * np.maximum(0.0, 1.0 - K[run.drawn] @ u)
        assert (losses - theirs).sum() <= 2.0 * C**2 * (1.0 + np.log(T))


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.9])
def test_theorem_3_of_2016_holds_for_a_random_iterate(delta):
    C = 16.0
    best = objective(optimum(C), C)
    run = Run(C, None)
    gaps = np.array([objective(w, C) for w in run.w[:-1]]) - best
    bound = 2.0 * C**2 * (1.0 + np.log(T)) / (delta * T)
    assert (gaps < bound).mean() >= 1.0 - delta
