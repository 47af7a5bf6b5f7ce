"""Two-level dual coordinate descent for linear one-class problems: Algorithms 2 to 5 of the paper.

| Chou, Lin and Lin (2020) | here |
|---|---|
| (3.17) with Q scaled, p, C_i = 1, y_i = 1, Delta | `Problem`: ``scale``, ``p``, ``total`` |
| greedy-R-cyclic, R = 0.1 (Algorithm 5) | ``greedy-cyclic``; ``share`` |
| cyclic-|B|cd-greedy (Algorithm 4) | ``cyclic-4cd-greedy`` |
| |B| = 4, r = 1 | ``block_size``, ``inner_iterations`` |
| cyclic-2cd (Algorithm 2), greedy-2cd | the same names |
| u of (2.4); the number of O(n) operations | `State.u`, `State.cost` |

``greedy-sweeps`` is not in the paper. Its outer step is that of Algorithm 5 with R = 0.05. Two more
sweeps follow, over groups of six rows of the pairs; in each group the most violating two rows move
as in Algorithm 4.

Left out are the labels y_i and the bounds C_i of (3.17), which one-class problems don't have, and
the inner solver of Algorithm 4 that keeps the matrix of the sub-problem (supplement, section 6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels import dual_cd as kernels
from distsvc.models.rows import checkpoints
from distsvc.models.rules.fields import ArrayField, Facts, Field, check_fields, real, whole

SOLVERS = ("greedy-sweeps", "greedy-cyclic", "cyclic-4cd-greedy", "cyclic-2cd", "greedy-2cd")
SHARES = {"greedy-cyclic": 0.1, "greedy-sweeps": 0.05}
"""R: pairs of an outer step, as a share of the rows, where the user gives none."""

SWEEPS, SWEPT = 2, 6
"""Further sweeps in an outer step of greedy-sweeps, over the rows of its pairs in groups of six.

The pairs' moves make their gradients old and leave differences between pairs. Sweeps of these few
rows take less time than the gradients of all rows in play, of which fewer are then needed.
"""

DOUBT = 0.01
CYCLIC = ("cyclic-4cd-greedy", "cyclic-2cd")
"""Solvers that choose groups of rows without looking at gradients."""

ROUNDING = 1e-13

FIELDS: dict[str, Field] = {
    "n_iter": whole(0, checkpoints.MAX_STATE_COUNT),
    "doubtful": real(ge=0.0),
    "alpha": ArrayField("float64", "n", least=0.0),
    "u": ArrayField("float64", "d"),
    "tally": ArrayField("float64", "3"),
    "active": ArrayField("int64", "m", least=0, may_be_empty=True),
}
"""The state of a `CoordinateDescent`, but for values that may be infinite or NaN."""


class DenseRows:
    """Rows of a matrix (n, d), float64 in C order."""

    def __init__(self, X: np.ndarray):
        self.X = np.ascontiguousarray(X, np.float64)
        self.shape = self.X.shape

    def gradient(self, u: np.ndarray, p: np.ndarray, scale: float, rows: Any, G: Any) -> None:
        """Write the gradients of `rows` into G."""
        kernels.gradient_dense(self.X, u, p, scale, rows, G)

    def weighted_sum(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_i weights_i x_i (d,)."""
        u = np.zeros(self.shape[1])
        kernels.weighted_sum_dense(self.X, weights, u)
        return u

    def squares(self) -> np.ndarray:
        """Return |x_i|^2 (n,)."""
        squares = np.empty(self.shape[0])
        kernels.squares_dense(self.X, squares)
        return squares

    def descend(self, state: State, order: np.ndarray, size: int, inner: int = 1) -> None:
        """Move the most violating pairs of groups of `size` rows, at most `inner` in each."""
        of = state.problem
        arrays = state.alpha, state.G, state.tally
        kernels.descend_dense(self.X, state.u, of.p, of.scale, order, size, inner, 0.0, *arrays)


class SparseRows:
    """Rows of a CSR matrix (n, d); its indices may be int32 or int64."""

    def __init__(self, X: Any):
        self.shape = X.shape
        self.data = np.ascontiguousarray(X.data, np.float64)
        self.indices = X.indices.astype(np.uint32)
        self.indptr = X.indptr.astype(np.uint64)
        self._arrays = self.data, self.indices, self.indptr
        self._spread = np.zeros(self.shape[1])

    def gradient(self, u: np.ndarray, p: np.ndarray, scale: float, rows: Any, G: Any) -> None:
        """Write the gradients of `rows` into G."""
        kernels.gradient_sparse(*self._arrays, u, p, scale, rows, G)

    def weighted_sum(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_i weights_i x_i (d,)."""
        u = np.zeros(self.shape[1])
        kernels.weighted_sum_sparse(*self._arrays, weights, u)
        return u

    def squares(self) -> np.ndarray:
        """Return |x_i|^2 (n,)."""
        squares = np.empty(self.shape[0])
        kernels.squares_sparse(self.data, self.indptr, squares)
        return squares

    def descend(self, state: State, order: np.ndarray, size: int, inner: int = 1) -> None:
        """Move the most violating pairs of groups of `size` rows, at most `inner` in each."""
        of = state.problem
        arrays = state.alpha, state.G, self._spread, state.tally
        kernels.descend_sparse(
            *self._arrays, of.squares, state.u, of.p, of.scale, order, size, inner, 0.0, *arrays
        )


Rows = DenseRows | SparseRows


@dataclass(frozen=True)
class Problem:
    """min 1/2 scale a'XX'a + p'a over 0 <= a <= 1 with the sum `total`.

    The paper's alpha is a / total and its C, or 1/(nu l), is 1 / total; its objective is `unit`
    times ours. squares (n,) are |x_i|^2.
    """

    rows: Rows
    scale: float
    p: np.ndarray
    total: float
    squares: np.ndarray
    unit: float

    @cached_property
    def largest(self) -> float:
        """The largest |x_i|^2."""
        return float(self.squares.max())

    @property
    def rounding(self) -> float:
        """A violation that rounding alone makes."""
        return ROUNDING * self.scale * self.total * self.largest

    @classmethod
    def one_class(cls, rows: Rows, squares: np.ndarray, total: float) -> Problem:
        """Return the problem of a one-class SVM with nu l = `total`, eq. (3.14)."""
        return cls(rows, 1.0, np.zeros(rows.shape[0]), total, squares, 1.0 / total**2)

    @classmethod
    def data_description(cls, rows: Rows, squares: np.ndarray, total: float) -> Problem:
        """Return the problem of SVDD with 1 / C = `total`, eq. (3.16)."""
        return cls(rows, 2.0 / total, -squares, total, squares, 1.0 / total)


@dataclass
class State:
    """A feasible alpha (n,), u = X'alpha (d,), gradients (n,) as last seen, and what was done."""

    problem: Problem
    alpha: np.ndarray
    u: np.ndarray
    G: np.ndarray
    begun_at: float
    tally: np.ndarray
    n_iter: int = 0
    least: float = -np.inf
    most: float = np.inf

    @classmethod
    def at(cls, problem: Problem, alpha: np.ndarray, cost: float = 0.0) -> State:
        """Return the state that begins at a feasible alpha (n,)."""
        u = problem.rows.weighted_sum(alpha)
        value = 0.5 * problem.scale * (u * u).sum() + (problem.p * alpha).sum()
        tally = np.array([0.0, 0.0, cost + np.count_nonzero(alpha)])
        return cls(problem, alpha, u, np.full(alpha.size, np.nan), float(value), tally)

    @property
    def objective(self) -> float:
        """The objective of `Problem`."""
        return float(self.begun_at + self.tally[kernels.CHANGE])

    @property
    def violation(self) -> float:
        """The largest violation of optimality by a pair, with the gradients last seen."""
        return max(self.most - self.least, 0.0)

    def tolerated(self, tol: float) -> float:
        """Return the violation that is as good as none."""
        of = self.problem
        return tol * abs(self.objective) / of.total + of.rounding

    @property
    def cost(self) -> float:
        """Operations of the length of a row so far."""
        return float(self.tally[kernels.COST])

    def refresh(self, active: np.ndarray) -> None:
        """Take the gradients of the `active` rows and their extremes."""
        of = self.problem
        of.rows.gradient(self.u, of.p, of.scale, active, self.G)
        self.tally[kernels.COST] += len(active)
        self.least, self.most = kernels.extremes(self.G, self.alpha, active)


def first_alpha(G: np.ndarray, total: float) -> np.ndarray:
    """Return the alpha (n,) with the sum `total` that minimises G'alpha, whatever the rows' order.

    Rows with equal G at the border share what is left.
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
    """Return the state to descend from: all mass on the rows that the mean of all suits least.

    With `at` "first" the mass is on the first rows (section 4.1).
    """
    n = rows.shape[0]
    if at == "first":
        alpha = np.clip(total - np.arange(n), 0.0, 1.0)
        return State.at(make(rows, rows.squares(), total), alpha)
    mean = rows.weighted_sum(np.full(n, total / n))
    problem = make(rows, rows.squares(), total)
    G = np.empty(n)
    rows.gradient(mean, problem.p, problem.scale, np.arange(n), G)
    return State.at(problem, first_alpha(G, total), cost=2.0 * n)


@dataclass(frozen=True)
class Method:
    """A solver with its settings.

    Attributes
    ----------
    solver : str
        One of `SOLVERS`.
    share : float or None
        R, of the greedy solvers with several pairs; None for `SHARES`.
    block_size : int
        Number of rows in a group of cyclic-4cd-greedy.
    inner_iterations : int
        Most pairs that move in such a group, r of Algorithm 4.
    shrinking : bool
        Leave out rows that their gradients hold at a bound until the others have converged.
    """

    solver: str
    share: float | None = None
    block_size: int = 4
    inner_iterations: int = 1
    shrinking: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Method:
        """Return the method from the parameters of an estimator."""
        return cls(**{field.name: given[field.name] for field in fields(cls)})

    @property
    def is_greedy(self) -> bool:
        """Whether an outer step takes all gradients and then the most violating pairs."""
        return self.solver not in CYCLIC

    @property
    def group(self) -> tuple[int, int]:
        """The size of a group, and the most pairs that move in it."""
        four = self.solver == "cyclic-4cd-greedy"
        return (self.block_size, self.inner_iterations) if four else (2, 1)

    def most_pairs(self, n_rows: int) -> int:
        """Return the most pairs of a greedy outer step over so many rows."""
        share = self.share or SHARES.get(self.solver, 0.0)
        return 1 if self.solver == "greedy-2cd" else max(int(share * n_rows), 1)


@dataclass
class CoordinateDescent:
    """A descent under way: the rows in play, when it mistrusts old gradients, what is random."""

    state: State
    active: np.ndarray
    random: np.random.Generator
    doubtful: float = 0.0

    def kept(self) -> checkpoints.State:
        """Return all that decides how the descent goes on; `restore` takes it back."""
        of = self.state
        facts = {"n_iter": of.n_iter, "least": of.least, "most": of.most, "doubtful": self.doubtful}
        arrays = {"alpha": of.alpha, "u": of.u, "G": of.G, "tally": of.tally, "active": self.active}
        return facts | {"random": self.random.bit_generator.state}, arrays

    def restore(self, facts: Facts, arrays: dict[str, np.ndarray]) -> CoordinateDescent:
        """Go on from what `kept` returned; `DataError` where it is of another problem."""
        of, n = self.state, self.state.alpha.size
        check_fields(FIELDS, {**facts, **arrays}, {"n": n, "d": of.u.size})
        G, active = arrays.get("G"), arrays["active"]
        if G is None or G.dtype != np.float64 or G.shape != (n,) or active.max(initial=0) >= n:
            raise DataError(f"expected the gradients of {n} rows, and numbers of such rows")
        try:
            least, most = float(facts["least"]), float(facts["most"])
            self.random.bit_generator.state = facts["random"]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the state can't be read: {error}") from None
        for name in ("alpha", "u", "G", "tally"):
            getattr(of, name)[:] = arrays[name]
        of.n_iter, of.least, of.most = facts["n_iter"], least, most
        self.active, self.doubtful = active, facts["doubtful"]
        return self


def solve(
    state: State,
    method: Method,
    tol: float,
    max_iter: int,
    seed: int = 0,
    watch: Callable[[State], Any] | None = None,
    checkpoint: checkpoints.Checkpoint = checkpoints.NO_CHECKPOINT,
) -> bool:
    """Descend to a violation of `tol` |f| / total, and say whether it was reached.

    No feasible change moves more than `total`, so the objective is then within `tol` of the
    optimum, relatively. Rows that their gradients hold at a bound are left out until the others
    have converged. The cyclic solvers judge by the gradients that they saw on their way, which are
    old, so they take all of them again whenever the violation is a hundredth of the last true one.
    ``watch`` is called after every outer step; when it returns true, the descent ends.
    """
    everyone = np.arange(state.alpha.size)
    greedy, limit = method.is_greedy, method.most_pairs(everyone.size)
    sweeps = SWEEPS if method.solver == "greedy-sweeps" else 0
    numbers, keys = np.empty((2, everyone.size), np.int64), np.empty((3, everyone.size))
    state.least, state.most = -np.inf, np.inf
    course = CoordinateDescent(state, everyone, np.random.default_rng(seed))
    checkpoint.last(course.restore)
    while True:
        if greedy:
            state.refresh(course.active)
        elif state.n_iter:
            state.least, state.most = kernels.extremes(state.G, state.alpha, course.active)
            course.doubtful = course.doubtful or DOUBT * state.violation
        if (
            state.violation <= max(state.tolerated(tol), course.doubtful)
            or state.n_iter >= max_iter
        ):
            if not greedy or len(course.active) < everyone.size:
                course.active = everyone
                state.refresh(everyone)
                course.doubtful = 0.0 if greedy else DOUBT * state.violation
            converged = state.violation <= state.tolerated(tol)
            if converged or state.n_iter >= max_iter:
                return converged
        state.n_iter += 1
        active = course.active
        if method.shrinking:
            active = kernels.shrink(state.G, state.alpha, active, state.least, state.most)
            course.active = active
        if greedy:
            extremes = state.least, state.most
            order = kernels.violating_pairs(
                state.G, state.alpha, active, *extremes, limit, numbers, keys
            )
        else:
            order = course.random.permutation(active)
        state.problem.rows.descend(state, order, *method.group)
        for _ in range(sweeps):
            order = kernels.dealt(order)
            state.problem.rows.descend(state, order, SWEPT)
        if watch is not None and watch(state):
            return False
        checkpoint.keep(state.n_iter, course.kept)


def threshold(G: np.ndarray, alpha: np.ndarray, rounding: float = 0.0) -> float:
    """Return rho, the multiplier of the sum: G where alpha is free, else midway between bounds.

    Of the free rows, whose G are equal at the optimum, the least is taken, less `rounding`, and not
    the mean: so they are inside, as they should be, and not half of them by chance. With all of
    alpha at 1, every rho from the largest G on is optimal, and the least of them is returned.
    """
    free = (alpha > 0.0) & (alpha < 1.0)
    if free.any():
        return float(G[free].min()) - rounding
    below = G[alpha == 1.0].max(initial=-np.inf)
    above = G[alpha == 0.0].min(initial=np.inf)
    return float(below) if np.isinf(above) else float(0.5 * (below + above))


def duality_gap(state: State) -> float:
    """Return the primal minus the dual objective, in the units of `Problem`, at the best rho.

    At least as much as the objective is above its optimum. The gradients have to be those of all
    rows at the end.
    """
    G, total = state.G, state.problem.total
    rho = np.partition(G, int(total))[int(total)] if total < G.size else G.max()
    return float((state.alpha * G).sum() - rho * total + np.maximum(rho - G, 0.0).sum())
