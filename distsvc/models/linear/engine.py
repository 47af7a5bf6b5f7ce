"""Engines that solve linear one-class problems: first for a sample, then for the whole table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from distsvc.errors import ParameterError
from distsvc.job.parameters import Given
from distsvc.models.linear.coordinate_descent import (
    Method,
    Problem,
    Rows,
    duality_gap,
    solve,
    start,
    threshold,
)
from distsvc.models.linear.rule import BallRule, LinearRule, OneClassRule
from distsvc.models.linear.working_set import WorkingSet
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import State
from distsvc.models.rules.fields import Facts

MIN_SOLVED_ROWS = 100
MEMORY_BYTES = 256 * 2**20

ORIGIN_INSIDE = (
    "the origin lies among the rows, so no hyperplane separates a share 1 - nu of the rows from "
    "the origin (its normal w is 0); use LinearSVDD, or columns that are not centred"
)


@dataclass(frozen=True)
class Solution:
    """Result of a descent, in the units of the paper's problem."""

    weights: np.ndarray  # (d,) float64: w, or the centre of a ball
    offset: float  # rho, or -R^2 of a ball
    objective: float
    violation: float  # the largest violation of optimality by a pair
    n_iter: int  # outer steps, at least 1
    converged: bool  # whether the tolerance was reached
    duality_gap: float | None = None  # of rows in memory, if it was computed
    n_passes: int | None = None  # over a table that did not fit in memory


class LinearEngine(ABC):
    """Solver of the linear one-class SVM or SVDD.

    An estimator calls `fit_rows` with all rows. A job calls `set_width`, `key_ranges`, `set_pilot`,
    and `fit_rows` with the rows in these ranges. If the ranges leave out rows, outer steps over all
    rows start with `begin_outer` and end with `end_outer`. `parameters` are checked
    parameters of the estimator. The cyclic solvers use `seed`.
    """

    is_ball: ClassVar[bool]
    rule_type: ClassVar[type[LinearRule]]
    problem: ClassVar[Callable[..., Problem]]

    n_features: int
    centre: np.ndarray  # (d,) float64, the rows' origin
    solution: Solution  # set by `fit_rows`, and by `end_outer` for the whole table
    support: np.ndarray  # (n_SV,) int64, rows of `fit_rows` with a positive alpha
    dual_coef: np.ndarray  # (n_SV,) float64, alpha of these rows, divided by its sum

    def __init__(self, parameters: Given, seed: int):
        self.parameters = dict(parameters)
        self.method = Method(**{field.name: parameters[field.name] for field in fields(Method)})
        self.tol: float = parameters["tol"]
        self.max_iter: int = parameters["max_iter"]
        self.seed = seed
        self.sparse = False  # whether rows come in CSR form
        self.notes: list[str] = []

    @abstractmethod
    def total(self, n_rows: int) -> float:
        """Return the sum of alpha over `n_rows` rows, as in `Problem`."""

    def set_width(self, n_features: int, sparse: bool = False) -> None:
        self.n_features, self.sparse = n_features, sparse

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        """Return the key ranges of the rows to solve in memory: all rows, or a sample."""
        most = max(MEMORY_BYTES // (8 * self.n_features), MIN_SOLVED_ROWS)
        wanted = MIN_SOLVED_ROWS if self.sparse else self.parameters["memory_rows"] or most
        return sampling.key_blocks(n_rows, min(n_rows, wanted))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the rows' origin: the mean of pilot rows (m, d) for a ball of dense rows, else 0."""
        mean = pilot.mean(axis=0, dtype=np.float64)
        self.centre = mean if self.is_ball and not self.sparse else np.zeros_like(mean)

    def fit_rows(self, X: np.ndarray | sparse.csr_matrix) -> bool:
        """Solve for rows X (n, d), float64 in C order or CSR; return True if `tol` was reached."""
        total = self.total(X.shape[0])
        centred = self.is_ball and not sparse.issparse(X)
        origin = X.mean(axis=0) if centred else np.zeros(X.shape[1])
        rows = Rows(X - origin if centred else X)
        state = start(rows, self.problem, total, self.parameters["start"])
        converged = solve(state, self.method, self.tol, self.max_iter, self.seed)
        unit = state.problem.unit
        self.support = np.flatnonzero(state.alpha).astype(np.int64)
        self.dual_coef = state.alpha[self.support] / total
        rho = threshold(state.G, state.alpha, state.problem.rounding) * self._per_score(total)
        weights, offset = self._decision(state.u / total, rho, origin)
        self.solution = Solution(
            weights,
            offset,
            objective=state.objective * unit,
            violation=state.violation * self._per_score(total),
            n_iter=max(state.n_iter, 1),
            converged=bool(converged),
            duality_gap=duality_gap(state) * unit if self.parameters["compute_gap"] else None,
        )
        # A smaller |w|^2 is only rounding.
        if not self.is_ball and (weights**2).sum() <= 1e-12 * state.problem.largest:
            self.notes.append(ORIGIN_INSIDE)
        return converged

    def begin_outer(self, n_rows: int) -> tuple[np.ndarray, float, float]:
        """Return u, rho and scale, from which the first pass sets alpha of all `n_rows` rows."""
        total, w, offset = self.total(n_rows), self.solution.weights, self.solution.offset
        if self.is_ball:
            return total * w, float((w * w).sum()) + offset, 2.0 / total
        return total * w, total * offset, 1.0

    def end_outer(self, outer: WorkingSet, n_passes: int) -> None:
        """Set the solution from outer steps over a whole table."""
        total = outer.total
        rho = outer.rho() * self._per_score(total)
        weights, offset = self._decision(outer.u / total, rho, np.zeros_like(outer.u))
        self.solution = replace(
            self.solution,
            weights=weights,
            offset=offset,
            objective=outer.objective * (1.0 / total if self.is_ball else 1.0 / total**2),
            violation=outer.violation * self._per_score(total),
            n_iter=outer.n_iter,
            converged=bool(outer.converged(self.tol)),
            n_passes=n_passes,
        )

    def rule(self, mean: np.ndarray) -> LinearRule:
        offset, weights = self.solution.offset, self.solution.weights
        return self.rule_type(weights, mean, offset, self.is_ball)

    def fitted_facts(self) -> Facts:
        known = dict(vars(self.solution))
        if self.is_ball:
            known["radius"] = radius(self.solution.offset)
        names = ["objective", "violation", "n_iter", "n_passes", "offset", "radius", "duality_gap"]
        return {name: known[name] for name in names if known.get(name) is not None}

    def solved(self) -> State:
        facts = vars(self.solution) | {"notes": list(self.notes)}
        return facts, {"weights": facts.pop("weights")}

    def restore(self, facts: Facts, arrays: Mapping[str, np.ndarray]) -> None:
        known = {**facts, **arrays}
        self.solution = Solution(**{field.name: known[field.name] for field in fields(Solution)})
        self.notes = list(facts["notes"])

    def _per_score(self, total: float) -> float:
        """Return the factor that turns differences of gradients into differences of scores."""
        return 1.0 if self.is_ball else 1.0 / total

    def _decision(self, u: np.ndarray, rho: float, origin: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the rule's weights (d,) and offset, for rows that are not centred.

        `u` (d,) is the state's u divided by `total`. `rho` is in units of scores. `origin` (d,) was
        subtracted from the rows.
        """
        if not self.is_ball:
            return u, rho
        return origin + u, min(rho - float((u * u).sum()), 0.0)


class OneClassEngine(LinearEngine):
    """Solver of `LinearOneClassSVM`."""

    is_ball = False
    rule_type = OneClassRule
    problem = Problem.one_class

    def total(self, n_rows: int) -> float:
        return float(self.parameters["nu"]) * n_rows


class BallEngine(LinearEngine):
    """Solver of `LinearSVDD`; dense rows are centred first."""

    is_ball = True
    rule_type = BallRule
    problem = Problem.data_description

    def total(self, n_rows: int) -> float:
        """Return the sum of alpha: 1 / C if C is given, else nu n; at least 1 and at most n.

        Raise ParameterError if C is too small.
        """
        nu, C = self.parameters["nu"], self.parameters["C"]
        if C is None:
            return max(float(0.5 if nu is None else nu) * n_rows, 1.0)
        if C * n_rows < 1.0 - 1e-12:
            raise ParameterError(
                f"C must be at least 1 / n = {1.0 / n_rows:.6g} for {n_rows} rows, found {C!r}"
            )
        return min(max(1.0 / float(C), 1.0), float(n_rows))


def radius(offset: float) -> float:
    """Return the radius R of a ball, from its offset -R^2."""
    return float(np.sqrt(-offset))
