"""Algorithm 5 of Chou, Lin and Lin (2020) on a table that is read once for each outer step.

Whoever reads the table takes all gradients, keeps alpha and returns the most violating rows; this
side keeps u and the working set, whose rows it holds. It starts near the end: with the hyperplane
or ball of a sample, alpha is 1 outside it and 0 inside, and the rows next to it are the first
working set. Two departures make passes over the table few. A working set is solved to the
tolerance, not swept once; and rows of earlier working sets stay, those with a free alpha always,
the others while they are among the nearest to the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distsvc.kernels import dual_cd as kernels
from distsvc.models.linear.coordinate_descent import (
    DenseRows,
    Method,
    Problem,
    State,
    solve,
    threshold,
)
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint
from distsvc.models.rows.checkpoints import State as Kept
from distsvc.models.rules.fields import Facts

WORKING_BYTES = 8 * 2**20
"""Of the rows in one list of candidates."""

NUMBERS = ("objective", "n_iter", "least", "most", "rounding")
OF_ROWS = ("rows", "X", "alpha", "G")


def working_rows(n_features: int) -> int:
    """Return how many candidates of each kind there are at most."""
    return max(100, WORKING_BYTES // (8 * n_features))


@dataclass(frozen=True)
class Candidates:
    """Rows in the order of their keys, equal keys in that of row numbers: the lowest there are.

    keys (m,) float64, their numbers rows (m,) int64, X (m, d) and alpha (m,) float64.
    """

    keys: np.ndarray
    rows: np.ndarray
    X: np.ndarray
    alpha: np.ndarray

    @classmethod
    def empty(cls, n_features: int) -> Candidates:
        """Return no rows."""
        nothing = np.zeros(0)
        return cls(nothing, np.zeros(0, np.int64), np.zeros((0, n_features)), nothing)

    def merge(self, other: Candidates, limit: int) -> Candidates:
        """Return the `limit` lowest rows of both."""
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
    ) -> Candidates:
        """Return the `limit` lowest of the `wanted` (n,) bool among a block's rows."""
        places = np.flatnonzero(wanted)
        if len(places) > limit:
            bound = np.partition(keys[places], limit - 1)[limit - 1]
            places = places[keys[places] <= bound]
        places = places[np.lexsort((rows[places], keys[places]))[:limit]]
        return cls(keys[places], rows[places], X[places], alpha[places])


def gradients(Z: np.ndarray, u: np.ndarray, scale: float, ball: bool) -> np.ndarray:
    """Return G (n,) float64 of rows Z (n, d) float64: u.z, or for a ball scale u.z - |z|^2."""
    n = len(Z)
    p, G = np.zeros(n), np.empty(n)
    if ball:
        kernels.squares_dense(Z, G)
        p = -G
    kernels.gradient_dense(Z, u, p, scale, np.arange(n), G)
    return G


def extremes(G: np.ndarray, alpha: np.ndarray) -> tuple[float, float]:
    """Return the least G (n,) of rows whose alpha can grow, the largest where it can fall."""
    return kernels.extremes(G, alpha, np.arange(G.size))


class WorkingSet:
    """The rows next to the threshold, and the sums over the whole table.

    `total` is the sum of alpha over the whole table, nu N or 1 / C; `u` (d,) float64 that of alpha
    x over all rows, which begins with those of alpha = 1, as does p'alpha, `linear`. `ball` says
    whether the problem is SVDD's, and `objective` is that of `Problem` over all rows. `rows` (m,)
    int64 are the numbers of the rows in the set, ascending; X (m, d), alpha (m,) and G (m,) are
    theirs, and `least` and `most` the extremes of G as `descend` left them. `violation` is that of
    optimality by any two rows of the table, in the last pass; `n_iter` counts outer steps.
    """

    def __init__(self, ball: bool, total: float, u: np.ndarray, linear: float):
        self.ball, self.total, self.u = ball, total, u
        self.scale = 2.0 / total if ball else 1.0
        self.objective = 0.5 * self.scale * float((u * u).sum()) + linear
        self.n_iter = 0
        self.violation = np.inf
        self.least, self.most = -np.inf, np.inf

    def settle(self, n_outside: int, inside: Candidates, outside: Candidates) -> bool:
        """Begin with the rows next to the threshold, so that alpha has the sum it should have.

        `inside` have the lowest G of the rows with alpha = 0, `outside` the lowest -G of those with
        alpha = 1; there are `n_outside` of them. False when the lists do not reach far enough.
        """
        lacking = self.total - n_outside
        giving = inside if lacking > 0.0 else outside
        if abs(lacking) > len(giving.rows):
            return False
        change = np.zeros(len(giving.rows))
        whole = int(abs(lacking))
        change[:whole] = 1.0
        if whole < abs(lacking):
            change[whole] = abs(lacking) - whole
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

    def descend(
        self,
        method: Method,
        tol: float,
        max_iter: int,
        seed: int,
        checkpoint: Checkpoint = NO_CHECKPOINT,
    ) -> None:
        """Solve the working set."""
        rows = DenseRows(self.X)
        squares = (self.X * self.X).sum(axis=1)
        p = -squares if self.ball else np.zeros(len(squares))
        problem = Problem(rows, self.scale, p, self.total, squares, 1.0)
        room = np.full(len(squares), np.nan)
        state = State(problem, self.alpha, self.u, room, self.objective, np.zeros(3))
        solve(state, method, 0.5 * tol, max_iter, seed, checkpoint=checkpoint)
        self.objective, self.G = state.objective, state.G
        self.n_iter += state.n_iter
        self.least, self.most = state.least, state.most
        self.rounding = state.problem.rounding

    def descended(self) -> Kept:
        """Return what `descend` ended with, as facts and arrays; `restored` takes it back."""
        facts = {name: getattr(self, name) for name in ("ball", "total", *NUMBERS)}
        return facts, {name: getattr(self, name) for name in ("u", *OF_ROWS)}

    @classmethod
    def restored(cls, facts: Facts, arrays: dict[str, np.ndarray]) -> WorkingSet:
        """Return the working set as it was when `descended` returned these."""
        found = cls(facts["ball"], facts["total"], arrays["u"], 0.0)
        for name, value in [(n, facts[n]) for n in NUMBERS] + [(n, arrays[n]) for n in OF_ROWS]:
            setattr(found, name, value)
        return found

    def see_extremes(self, least: float, most: float) -> None:
        """Take the extremes of G over all rows, which a pass with the present u found."""
        self.violation = max(most - least, 0.0)
        self.table_extremes = least, most

    def take(self, grow: Candidates, fall: Candidates) -> None:
        """Take rows that violate with the working set into it.

        `grow` have the lowest G of rows whose alpha can grow, `fall` the lowest -G of those whose
        alpha can fall.
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
        """Return whether the last pass found no violation above `tol` |f| / total."""
        return self.violation <= tol * abs(self.objective) / self.total + self.rounding

    def rho(self) -> float:
        """Return the threshold of G, as `coordinate_descent.threshold` does for all rows."""
        if ((self.alpha > 0.0) & (self.alpha < 1.0)).any():
            return threshold(self.G, self.alpha, self.rounding)
        least, most = self.table_extremes
        return most if np.isinf(least) else 0.5 * (least + most)

    def _hold(self, rows: Candidates) -> None:
        """Make rows the working set, in the order of their numbers, each once."""
        numbers, places = np.unique(rows.rows, return_index=True)
        self.rows = numbers
        self.X = np.ascontiguousarray(rows.X[places])
        self.alpha = rows.alpha[places].copy()
        self.G = np.full(len(numbers), np.nan)
