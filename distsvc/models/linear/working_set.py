"""Algorithm 5 of Chou, Lin and Lin (2020) on a table that is read once for each outer step.

Workers read the table, compute all gradients, store alpha and return the most violating rows. The
driver stores u and the working set. At the start, alpha is 1 outside the hyperplane or ball of a
sample, and 0 inside; the rows nearest to the boundary are the first working set.

Two departures from the paper save passes. A working set is solved to the tolerance, not swept once.
Rows of earlier working sets stay if 0 < alpha < 1, or if they are nearest to the threshold.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from distsvc.kernels import linear as kernels
from distsvc.models.linear.coordinate_descent import Method, Problem, Rows, State, solve, threshold


def working_rows(n_features: int) -> int:
    """Return the maximum number of rows of a `Candidates`: what fits in 8 MiB, but at least 100."""
    return max(100, 2**20 // n_features)


@dataclass(frozen=True)
class Candidates:
    """Rows that may enter the working set, sorted by ascending key, then by row number."""

    keys: np.ndarray  # (m,) float64, sort keys
    rows: np.ndarray  # (m,) int64, row numbers
    X: np.ndarray  # (m, d) float64
    alpha: np.ndarray  # (m,) float64

    @classmethod
    def empty(cls, n_features: int) -> Self:
        nothing = np.zeros(0)
        return cls(nothing, np.zeros(0, np.int64), np.zeros((0, n_features)), nothing)

    def merge(self, other: "Candidates", limit: int) -> "Candidates":
        names = ("keys", "rows", "X", "alpha")
        joined = [np.concatenate([getattr(self, n), getattr(other, n)]) for n in names]
        order = np.lexsort((joined[1], joined[0]))[:limit]
        return Candidates(*(array[order] for array in joined))

    @classmethod
    def lowest(
        cls,
        keys: np.ndarray,
        rows: np.ndarray,
        X: np.ndarray,
        alpha: np.ndarray,
        wanted: np.ndarray,
        limit: int,
    ) -> Self:
        """Return the `limit` rows with the lowest keys, of the rows where `wanted` (n,) is True."""
        places = np.flatnonzero(wanted)
        if len(places) > limit:
            bound = np.partition(keys[places], limit - 1)[limit - 1]
            places = places[keys[places] <= bound]
        places = places[np.lexsort((rows[places], keys[places]))[:limit]]
        return cls(keys[places], rows[places], X[places], alpha[places])


def gradients(Z: np.ndarray, u: np.ndarray, scale: float, ball: bool) -> np.ndarray:
    """Return G (n,) float64 of rows Z (n, d) float64: scale u.z, minus |z|^2 for a ball."""
    rows = Rows(Z)
    return rows.gradients(u, -rows.squares() if ball else np.zeros(len(Z)), scale)


def extremes(G: np.ndarray, alpha: np.ndarray) -> tuple[float, float]:
    """Return the lowest G (n,) where alpha < 1, and the highest G where alpha > 0."""
    return kernels.extremes(G, alpha, np.arange(G.size))


class WorkingSet:
    """Rows whose alpha is optimised in memory, and sums over the table.

    X (m, d) are the rows, `rows` (m,) int64 their ascending numbers, and G (m,) their gradients.
    """

    def __init__(self, ball: bool, total: float, u: np.ndarray, linear: float):
        self.ball = ball  # whether the problem is SVDD
        self.total = total  # sum of alpha over the table: nu N or 1 / C
        self.u = u  # (d,): sum of alpha x over the table
        self.scale = 2.0 / total if ball else 1.0
        # Objective of `Problem` over all rows; `linear` is its term p'alpha at the start.
        self.objective = 0.5 * self.scale * float((u * u).sum()) + linear
        self.n_iter = 0  # outer steps
        self.violation = np.inf  # of optimality, by two rows of the last pass
        self.least, self.most = -np.inf, np.inf  # extremes of G after `descend`

    def settle(self, n_outside: int, inside: Candidates, outside: Candidates) -> bool:
        """Set the first working set. Change its alpha so that the table's alpha sums to `total`.

        `inside` are the rows with the lowest G among the rows with alpha = 0. `outside` are the
        rows with the highest G among the `n_outside` rows with alpha = 1. Return False if `inside`
        or `outside` has too few rows.
        """
        lacking = self.total - n_outside
        giving = inside if lacking > 0.0 else outside
        if abs(lacking) > len(giving.rows):
            return False
        change = np.clip(abs(lacking) - np.arange(len(giving.rows)), 0.0, 1.0)
        alpha = change if lacking > 0.0 else 1.0 - change
        moved = alpha - giving.alpha
        linear = 0.0
        if self.ball:
            linear = -float((moved * (giving.X * giving.X).sum(axis=1)).sum())
        before = 0.5 * self.scale * float((self.u * self.u).sum())
        self.u = self.u + (moved[:, None] * giving.X).sum(axis=0)
        self.objective += 0.5 * self.scale * float((self.u * self.u).sum()) - before + linear
        giving = Candidates(giving.keys, giving.rows, giving.X, alpha)
        taking = outside if lacking > 0.0 else inside
        self._hold(giving.merge(taking, len(giving.rows) + len(taking.rows)))
        return True

    def descend(self, method: Method, tol: float, max_iter: int, seed: int) -> None:
        make = Problem.data_description if self.ball else Problem.one_class
        problem = make(Rows(self.X), (self.X * self.X).sum(axis=1), self.total)
        room = np.full(len(self.X), np.nan)
        state = State(problem, self.alpha, self.u, room, self.objective, np.zeros(3))
        solve(state, method, 0.5 * tol, max_iter, seed)
        self.objective, self.G = state.objective, state.G
        self.n_iter += state.n_iter
        self.least, self.most = state.least, state.most
        self.rounding = state.problem.rounding

    def see_extremes(self, least: float, most: float) -> None:
        self.violation = max(most - least, 0.0)
        self.table_extremes = least, most

    def take(self, grow: Candidates, fall: Candidates) -> None:
        """Add the most violating rows to the working set.

        `grow` are the rows with the lowest G whose alpha can increase, and `fall` the rows with the
        highest G whose alpha can decrease.
        """
        limit = working_rows(self.X.shape[1])
        free = (self.alpha > 0.0) & (self.alpha < 1.0)
        far = np.abs(self.G - 0.5 * (self.least + self.most))
        far[free] = -1.0
        kept = np.lexsort((self.rows, far))[: max(limit, int(free.sum()))]
        held = Candidates(far[kept], self.rows[kept], self.X[kept], self.alpha[kept])
        found = grow.merge(fall, len(grow.rows) + len(fall.rows))
        new = ~np.isin(found.rows, held.rows)
        more = Candidates(*(a[new] for a in (found.keys, found.rows, found.X, found.alpha)))
        self._hold(held.merge(more, len(held.rows) + len(more.rows)))

    def converged(self, tol: float) -> bool:
        return self.violation <= tol * abs(self.objective) / self.total + self.rounding

    def rho(self) -> float:
        """Return rho of the whole table, as defined in `coordinate_descent.threshold`."""
        if ((self.alpha > 0.0) & (self.alpha < 1.0)).any():
            return threshold(self.G, self.alpha, self.rounding)
        least, most = self.table_extremes
        return most if np.isinf(least) else 0.5 * (least + most)

    def _hold(self, rows: Candidates) -> None:
        numbers, places = np.unique(rows.rows, return_index=True)
        self.rows = numbers
        self.X = np.ascontiguousarray(rows.X[places])
        self.alpha = rows.alpha[places].copy()
        self.G = np.full(len(numbers), np.nan)
