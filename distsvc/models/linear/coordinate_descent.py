"""Two-level dual coordinate descent for linear one-class problems (Chou, Lin and Lin 2020).

`Problem` is (3.17) of the paper with C_i = 1 and y_i = 1; `LinearOneClassSVM` lists the solvers.
The solver "greedy-sweeps" is not in the paper. After each outer step of Algorithm 5, it sweeps
twice over the rows of the step's pairs, in groups of six. In each group, the two most violating
rows move, as in Algorithm 4. Sweeps over few rows are cheap, and save outer steps, which need all
gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from distsvc.kernels import linear as kernels

SOLVER_SHARES = {"greedy-cyclic": 0.1, "greedy-sweeps": 0.05}
"""Default R by solver: the number of pairs in an outer step, as a share of the rows."""

DOUBT = 0.01
"""Factor by which the violation must fall before a cyclic solver recomputes all gradients. The
violation is compared with its value after the first sweep, or at the last recomputation."""


class Rows:
    """Rows of a matrix (n, d) float64, dense in C order or CSR, for `kernels.linear`."""

    def __init__(self, X: Any):
        self.shape = X.shape
        if sparse.issparse(X):
            arrays = X.data, X.indices, X.indptr
        else:
            arrays = np.ravel(X), np.zeros(0), np.arange(X.shape[0] + 1) * X.shape[1]
        kinds = zip(arrays, (np.float64, np.uint32, np.uint64), strict=True)
        self._arrays = tuple(np.ascontiguousarray(array, kind) for array, kind in kinds)
        self._spread = np.zeros(X.shape[1])

    def gradient(
        self, u: np.ndarray, p: np.ndarray, scale: float, rows: np.ndarray, G: np.ndarray
    ) -> None:
        """Set the entries `rows` (m,) of G (n,) to their gradients scale u.x_i + p_i."""
        kernels.gradient(*self._arrays, u, p, scale, rows, G)

    def gradients(self, u: np.ndarray, p: np.ndarray, scale: float) -> np.ndarray:
        G = np.empty(self.shape[0])
        self.gradient(u, p, scale, np.arange(self.shape[0]), G)
        return G

    def weighted_sum(self, weights: np.ndarray) -> np.ndarray:
        u = np.zeros(self.shape[1])
        kernels.weighted_sum(*self._arrays, weights, u)
        return u

    def squares(self) -> np.ndarray:
        squares = np.empty(self.shape[0])
        kernels.squares(*self._arrays[::2], squares)
        return squares

    def descend(self, state: "State", order: np.ndarray, size: int, inner: int = 1) -> None:
        """Move the most violating pair of each group of `size` rows, at most `inner` times."""
        of = state.problem
        common = of.squares, state.u, of.p, of.scale, order, size, inner, state.alpha, state.G
        kernels.descend(*self._arrays, *common, self._spread, state.tally)


@dataclass(frozen=True)
class Problem:
    """Dual problem: minimise 1/2 scale a'XX'a + p'a over 0 <= a <= 1, where a sums to `total`.

    The paper's alpha is a / total. Its C, or 1 / (nu l) in the one-class SVM, is 1 / total.
    """

    rows: Rows  # X (n, d)
    scale: float
    p: np.ndarray  # (n,)
    total: float
    squares: np.ndarray  # (n,): |x_i|^2
    unit: float  # the paper's objective divided by this objective

    @cached_property
    def largest(self) -> float:
        return float(self.squares.max())

    @property
    def rounding(self) -> float:
        """Largest violation of optimality that rounding alone can cause."""
        return 1e-13 * self.scale * self.total * self.largest

    @classmethod
    def one_class(cls, rows: Rows, squares: np.ndarray, total: float) -> Self:
        """Return the problem of a one-class SVM with nu l = `total`, eq. (3.14)."""
        return cls(rows, 1.0, np.zeros(rows.shape[0]), total, squares, 1.0 / total**2)

    @classmethod
    def data_description(cls, rows: Rows, squares: np.ndarray, total: float) -> Self:
        """Return the problem of SVDD, eq. (3.16), whose alpha add up to `total` = 1 / C.

        `squares` (l,) are the squared norms of the rows.
        """
        return cls(rows, 2.0 / total, -squares, total, squares, 1.0 / total)


@dataclass
class State:
    """State of a descent: alpha, arrays that depend on alpha, and counters."""

    problem: Problem
    alpha: np.ndarray  # (n,)
    u: np.ndarray  # (d,): X'alpha
    G: np.ndarray  # (n,): gradients, as last computed
    first_objective: float  # objective of the first alpha
    tally: np.ndarray  # (3,): counters; see `distsvc.kernels.linear`
    n_iter: int = 0  # outer steps, or sweeps of a cyclic solver
    least: float = -np.inf  # lowest gradient where alpha can increase
    most: float = np.inf  # highest gradient where alpha can decrease

    @classmethod
    def at(cls, problem: Problem, alpha: np.ndarray, cost: float = 0.0) -> Self:
        u = problem.rows.weighted_sum(alpha)
        value = 0.5 * problem.scale * (u * u).sum() + (problem.p * alpha).sum()
        tally = np.array([0.0, 0.0, cost + np.count_nonzero(alpha)])
        return cls(problem, alpha, u, np.full(alpha.size, np.nan), float(value), tally)

    @property
    def objective(self) -> float:
        return float(self.first_objective + self.tally[kernels.CHANGE])

    @property
    def violation(self) -> float:
        """Largest violation of optimality by a pair of rows, according to `G`; 0 at the optimum."""
        return max(self.most - self.least, 0.0)

    def tolerated(self, tol: float) -> float:
        """Return the violation at which a descent with the relative tolerance `tol` ends."""
        of = self.problem
        return tol * abs(self.objective) / of.total + of.rounding

    @property
    def cost(self) -> float:
        """Number of O(d) operations on a row so far, the paper's unit of cost."""
        return float(self.tally[kernels.COST])

    def refresh(self, active: np.ndarray) -> None:
        of = self.problem
        of.rows.gradient(self.u, of.p, of.scale, active, self.G)
        self.tally[kernels.COST] += len(active)
        self.least, self.most = kernels.extremes(self.G, self.alpha, active)


def first_alpha(G: np.ndarray, total: float) -> np.ndarray:
    """Return the alpha (n,) that minimises G'alpha among all with the sum `total`.

    It is 1 for the rows with the lowest gradients G, and 0 for the highest. Rows tied at the border
    get equal values, so that the order of rows does not matter.
    """
    n = G.size
    if total >= n:
        return np.ones(n)
    border = np.partition(G, int(total))[int(total)]
    alpha = (border > G).astype(np.float64)
    ties = border == G
    alpha[ties] = (total - alpha.sum()) / ties.sum()
    return alpha


def start(rows: Rows, make: Callable[..., Problem], total: float, at: str = "mean") -> State:
    """Return the first state of a descent for the problem that `make` builds from the rows.

    Alpha is positive for the rows whose gradients are lowest if all alpha are equal. If `at` is
    "first", alpha is positive for the first rows, as in section 4.1 of the paper.
    """
    n = rows.shape[0]
    if at == "first":
        alpha = np.clip(total - np.arange(n), 0.0, 1.0)
        return State.at(make(rows, rows.squares(), total), alpha)
    mean = rows.weighted_sum(np.full(n, total / n))
    problem = make(rows, rows.squares(), total)
    G = rows.gradients(mean, problem.p, problem.scale)
    return State.at(problem, first_alpha(G, total), cost=2.0 * n)


@dataclass(frozen=True)
class Method:
    """A solver with its settings."""

    solver: str  # a `LinearSolver`
    share: float | None = None  # R of a solver in `SOLVER_SHARES`; None for the solver's default
    block_size: int = 4  # |B| of Algorithm 4
    inner_iterations: int = 1  # r of Algorithm 4
    shrinking: bool = True  # skip rows that stay at a bound until the others have converged


def solve(
    state: State,
    method: Method,
    tol: float,
    max_iter: int,
    seed: int = 0,
    watch: Callable[[State], object] | None = None,
) -> bool:
    """Descend until the violation is at most `tol` |f| / total; return True if it is.

    The objective f is then within a relative `tol` of the optimum, because the alpha that moves
    between rows is at most `total`. Cyclic solvers use the gradients computed during their last
    sweep; see `DOUBT`. ``watch`` is called after every outer step. If it returns true, the descent
    ends.
    """
    everyone = np.arange(state.alpha.size)
    greedy = not method.solver.startswith("cyclic")  # moves the most violating of all pairs
    share = method.share or SOLVER_SHARES.get(method.solver, 0.0)
    limit = 1 if method.solver == "greedy-2cd" else max(int(share * everyone.size), 1)
    by_blocks = method.solver == "cyclic-4cd-greedy"
    group = (method.block_size, method.inner_iterations) if by_blocks else (2, 1)
    # Further sweeps of an outer step go over the pairs in groups of six rows.
    sweeps = 2 if method.solver == "greedy-sweeps" else 0
    numbers, keys = np.empty((2, everyone.size), np.int64), np.empty((2, everyone.size))
    state.least, state.most = -np.inf, np.inf
    active, random = everyone, np.random.default_rng(seed)
    doubtful = 0.0  # violation at which a cyclic solver recomputes all gradients
    while True:
        if greedy:
            state.refresh(active)
        elif state.n_iter:
            state.least, state.most = kernels.extremes(state.G, state.alpha, active)
            doubtful = doubtful or DOUBT * state.violation
        if state.violation <= max(state.tolerated(tol), doubtful) or state.n_iter >= max_iter:
            if not greedy or len(active) < everyone.size:
                active = everyone
                state.refresh(everyone)
                doubtful = 0.0 if greedy else DOUBT * state.violation
            converged = state.violation <= state.tolerated(tol)
            if converged or state.n_iter >= max_iter:
                return converged
        state.n_iter += 1
        if method.shrinking:
            active = kernels.shrink(state.G, state.alpha, active, state.least, state.most)
        if greedy:
            extremes = state.least, state.most
            order = kernels.violating_pairs(
                state.G, state.alpha, active, *extremes, limit, numbers, keys
            )
        else:
            order = random.permutation(active)
        state.problem.rows.descend(state, order, *group)
        for _ in range(sweeps):
            order = interleave(order)
            state.problem.rows.descend(state, order, 6)
        if watch is not None and watch(state):
            return False


def interleave(pairs: np.ndarray) -> np.ndarray:
    """Return pairs of rows (2 m,), alternately from the first and the second half of `pairs`.

    `solve` reorders the pairs before each sweep, so that other pairs share a group.
    """
    order, n = pairs.copy(), len(pairs) // 4 * 4
    order[:n] = np.hstack(np.split(pairs[:n].reshape(-1, 2), 2)).ravel()
    return order


def threshold(G: np.ndarray, alpha: np.ndarray, rounding: float = 0.0) -> float:
    """Return rho, the Lagrange multiplier of the constraint on alpha's sum.

    At the optimum, all rows with 0 < alpha < 1 have the gradient rho. The lowest gradient of these
    rows, minus `rounding`, is returned: their mean would leave about half of them outside. Without
    such rows, rho is midway between the highest G with alpha = 1 and the lowest G with alpha = 0.
    If every alpha is 1, rho is the highest G.
    """
    free = (alpha > 0.0) & (alpha < 1.0)
    if free.any():
        return float(G[free].min()) - rounding
    below = G[alpha == 1.0].max(initial=-np.inf)
    above = G[alpha == 0.0].min(initial=np.inf)
    return float(below) if np.isinf(above) else float(0.5 * (below + above))


def duality_gap(state: State) -> float:
    """Return the primal minus the dual objective, in the units of `Problem`.

    It is an upper bound on the objective's distance to its optimum. The primal is at the rho that
    makes the gap smallest. The state's gradients of all rows must be current.
    """
    G, total = state.G, state.problem.total
    rho = np.partition(G, int(total))[int(total)] if total < G.size else G.max()
    return float((state.alpha * G).sum() - rho * total + np.maximum(rho - G, 0.0).sum())
