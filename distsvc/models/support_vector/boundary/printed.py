"""Algorithms 1 and 2 as printed in the papers: one drawn row a step, in float64, no shortcuts.

| Pham, Le and Dang (2017), Pham, Le, Le and Tran (2016) | here |
|---|---|
| n_t ~ Uniform([N]) | `drawn_rows` |
| w_{t+1} = (t - 1) / t w_t + alpha_t phi(x_{n_t}) | `PrintedDescent.step` |
| n_t not in I_t | ``PrintedDescent.numbers``: rows are identified by their numbers |
| p_t = argmin abs(alpha_i) K(x_i, x_i) over I_{t+1} | `PrintedDescent.maintain` |
| kNN, kRD; P_t, the projection on the span | ``strategy``; `PrintedDescent.maintain` |
| norm(w_{t+1} - w_t) <= theta | ``theta``; w_{t+1} is taken before budget maintenance |
| mean of w_1 .. w_T (Theorem 7); w_r, r ~ Uniform([T]) (Theorem 3 of 2016) | ``iterate`` |

As in `distsvc.kernels.training`, w_{t+1} is (C / t) sum_j n_j phi(s_j) with the counts n_j. So
equal coefficients stay equal in spite of rounding. The papers do not say which of several smallest
coefficients is removed; here it is the oldest.
"""

from collections.abc import Callable, Iterator

import numpy as np


def drawn_rows(n_rows: int, seed: int) -> Iterator[int]:
    """Yield row numbers below `n_rows`, drawn with replacement, without end."""
    random = np.random.default_rng(seed)
    while True:
        yield from random.integers(n_rows, size=8192).tolist()


def other_slots(seed: int) -> np.random.Generator:
    """Return the generator that chooses vectors at random for the strategy "project-random"."""
    return np.random.default_rng((seed, 1))


class PrintedDescent:
    """Stochastic gradient descent for J(w) on rows X (N, d), as printed in the papers."""

    def __init__(
        self,
        X: np.ndarray,
        gamma: float,
        C: float,
        budget: int | None,  # None without a budget
        strategy: str,  # "removal", "project-nearest" or "project-random", above the budget
        size: int,  # number of vectors on which a removed one is projected
        seed: int,  # seed of the drawn rows, and of the random vectors
    ):
        self.X = np.asarray(X, np.float64)
        self.gamma, self.C, self.budget = gamma, C, budget
        self.strategy, self.size, self.seed = strategy, size, seed
        self.draws, self.random = drawn_rows(len(self.X), seed), other_slots(seed)
        self.numbers = np.zeros(0, np.int64)
        self.counts = np.zeros(0)
        self.n_steps = 0
        self.total = np.zeros(0)  # sum of the coefficients of w_1 .. w_t
        self._square = 0.0  # ||sum_j n_j phi(s_j)||^2

    def kernel(self, rows: np.ndarray) -> np.ndarray:
        """Return the kernel values (m, B) between rows of X, given by number, and all vectors."""
        apart = self.X[rows][:, None, :] - self.X[self.numbers][None, :, :]
        return np.exp(-self.gamma * (apart * apart).sum(axis=2))

    def step(self, averaging: bool = False) -> float:
        """Do one step; return ||w_{t+1} - w_t|| before budget maintenance."""
        row = next(self.draws)
        t = self.n_steps + 1
        scale = self.C / max(t - 1, 1)
        if averaging:
            self.total += scale * self.counts
        value = float(self.kernel(np.array([row]))[0] @ self.counts)
        hit = scale * value < 1.0
        square = scale * scale * self._square
        if hit:
            square += self.C * self.C - 2.0 * self.C * scale * value
            self._square += 2.0 * value + 1.0
            known = np.flatnonzero(self.numbers == row)
            if len(known):
                self.counts[known[0]] += 1.0
            else:
                self.numbers = np.append(self.numbers, row)
                self.counts = np.append(self.counts, 1.0)
                self.total = np.append(self.total, 0.0) if averaging else self.total
        self.n_steps = t
        if self.budget is not None and len(self.numbers) > self.budget:
            self.maintain()
        return float(np.sqrt(max(square, 0.0))) / t

    def maintain(self) -> None:
        """Delete the vector of smallest coefficient. The "project" strategies project it first."""
        n = len(self.numbers)
        p = int(np.argmin(np.abs(self.counts)))
        weight = self.counts[p]
        others = np.delete(np.arange(n), p)
        row = self.kernel(self.numbers[p : p + 1])[0]
        change = -weight * float(row @ self.counts)
        gap = 1.0
        if self.strategy != "removal" and len(others):
            if self.strategy == "project-nearest":
                chosen = others[np.argsort(-row[others], kind="stable")[: self.size]]
            else:
                chosen = self.random.choice(others, min(self.size, n - 1), replace=False)
            rows = self.kernel(self.numbers[chosen])
            shares = np.linalg.lstsq(rows[:, chosen], row[chosen], rcond=None)[0]
            change += weight * float(shares @ (rows @ self.counts))
            gap += float(shares @ rows[:, chosen] @ shares) - 2.0 * float(shares @ row[chosen])
            self.counts[chosen] += weight * shares
        self._square += 2.0 * change + weight * weight * gap
        self.numbers, self.counts = self.numbers[others], self.counts[others]

    def run(self, max_iter: int, theta: float = -1.0, averaging: bool = False) -> None:
        """Do steps until `step` returns at most `theta`, or `max_iter` steps are done."""
        while self.n_steps < max_iter:
            if self.step(averaging) <= theta:
                return

    @property
    def coefficients(self) -> np.ndarray:
        """The coefficients alpha (B,) of the last iterate."""
        return self.C / max(self.n_steps, 1) * self.counts


def descend(
    make: Callable[[], PrintedDescent], theta: float, max_iter: int, iterate: str
) -> tuple[np.ndarray, np.ndarray, int]:
    """Run a new descent; return its vectors S (d, B) float32, weights (B,) float64, and steps T.

    `iterate` is "last", "average" or "random". The average is the mean of w_1 to w_T. The random
    iterate is w_{r+1}, the result of r steps of a second run, with r uniform in 1 .. T. It is never
    w_1 = 0, which has no clusters.
    """
    found = make()
    found.run(max_iter, theta, iterate == "average")
    n_iter = found.n_steps
    if iterate == "random":
        r = int(np.random.default_rng((found.seed, 2)).integers(1, n_iter + 1))
        found = make()
        found.run(r)
    weights = found.total / n_iter if iterate == "average" else found.coefficients
    return np.ascontiguousarray(found.X[found.numbers].T, np.float32), weights, n_iter
