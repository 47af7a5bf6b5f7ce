"""The phases of linear one-class models: solve rows in memory, and go on over a whole table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from distsvc.errors import ParameterError
from distsvc.models.linear.coordinate_descent import (
    DenseRows,
    Method,
    Problem,
    Rows,
    SparseRows,
    duality_gap,
    solve,
    start,
    threshold,
)
from distsvc.models.linear.rule import BallRule, LinearRule, OneClassRule
from distsvc.models.linear.working_set import WorkingSet
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint, State
from distsvc.models.rules.fields import Facts

DEFAULT_NU = 0.5
FEWEST_ROWS = 100
MEMORY_BYTES = 256 * 2**20
NOTHING = 1e-12
"""|w|^2 of a one-class SVM that is rounding, as a share of the largest |x|^2."""

ORIGIN_INSIDE = (
    "w is 0: the origin lies among the rows, so no hyperplane separates a share of 1 - nu of them "
    "from it; use LinearSVDD, or columns that are not centred"
)


@dataclass(frozen=True)
class Solution:
    """The end of a descent.

    `weights` (d,) float64 are w, or the centre of a ball; `offset` is rho, or -R^2 of a ball.
    Objective and violation have the units of the paper's problem; `n_iter` counts outer steps, at
    least 1. `converged` says whether the tolerance was reached. `duality_gap` is that of rows in
    memory, where it was asked for; `n_passes` counts those over a table that did not fit in memory.
    """

    weights: np.ndarray
    offset: float
    objective: float
    violation: float
    n_iter: int
    converged: bool
    duality_gap: float | None = None
    n_passes: int | None = None


class LinearEngine(ABC):
    """Solves one of the two problems, for `fit` and for a job.

    A job says by `set_width` what the table is like, learns from `key_ranges` which rows to solve
    in memory, settles their origin by `set_pilot`, and calls `fit_rows`. Where these are not all
    rows, outer steps over the table begin with `begin_outer` and end with `end_outer`. `parameters`
    are all those of the estimator, in range; `seed` is that of the cyclic solvers.
    """

    algorithm: ClassVar[str]
    is_ball: ClassVar[bool]
    rule_type: ClassVar[type[LinearRule]]
    problem: ClassVar[Callable[..., Problem]]

    n_features: int
    centre: np.ndarray  # (d,) float64, the rows' origin
    solution: Solution  # of `fit_rows`, or of `end_outer` for the whole table
    support: np.ndarray  # (n_SV,) int64, rows of `fit_rows` with a positive alpha
    dual_coef: np.ndarray  # (n_SV,) float64, their alpha with the sum 1

    def __init__(self, parameters: Mapping[str, Any], seed: int):
        self.parameters = dict(parameters)
        self.method = Method.of(parameters)
        self.tol: float = parameters["tol"]
        self.max_iter: int = parameters["max_iter"]
        self.seed = seed
        self.sparse = False  # whether rows come in CSR form
        self.notes: list[str] = []

    @abstractmethod
    def total(self, n_rows: int) -> float:
        """Return the sum of alpha over so many rows when its bound is 1."""

    def set_width(self, n_features: int, sparse: bool = False) -> None:
        """Say how many columns the table has, and whether its rows come in CSR form."""
        self.n_features, self.sparse = n_features, sparse

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        """Return the key ranges of the rows to be solved in memory: all, or a sample."""
        most = max(MEMORY_BYTES // (8 * self.n_features), FEWEST_ROWS)
        wanted = FEWEST_ROWS if self.sparse else self.parameters["memory_rows"] or most
        return sampling.key_blocks(n_rows, min(n_rows, wanted))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle the rows' origin from pilot rows (m, d): their mean, where any will do."""
        mean = pilot.mean(axis=0, dtype=np.float64)
        self.centre = mean if self.is_ball and not self.sparse else np.zeros_like(mean)

    def fit_rows(self, X: Any, checkpoint: Checkpoint = NO_CHECKPOINT) -> bool:
        """Learn from rows X (n, d), float64 in C order or CSR; return whether `tol` was reached.

        Raises
        ------
        ParameterError
            Where C is too small for so few rows.

        """
        total = self.total(X.shape[0])
        origin = X.mean(axis=0) if self.is_ball and not sparse.issparse(X) else None
        rows = _rows(X if origin is None else X - origin)
        state = start(rows, self.problem, total, self.parameters["start"])
        converged = solve(
            state, self.method, self.tol, self.max_iter, self.seed, checkpoint=checkpoint
        )
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
        if not self.is_ball and (weights**2).sum() <= NOTHING * state.problem.largest:
            self.notes.append(ORIGIN_INSIDE)
        return converged

    def begin_outer(self, n_rows: int) -> tuple[np.ndarray, float, float]:
        """Return u, rho and scale at which a table of `n_rows` rows begins, by a sample's fit."""
        total, w, offset = self.total(n_rows), self.solution.weights, self.solution.offset
        if self.is_ball:
            return total * w, float((w * w).sum()) + offset, 2.0 / total
        return total * w, total * offset, 1.0

    def end_outer(self, outer: WorkingSet, n_passes: int) -> None:
        """Take the answer of outer steps over a whole table."""
        total = outer.total
        rho = outer.rho() * self._per_score(total)
        weights, offset = self._decision(outer.u / total, rho, None)
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

    @property
    def violation(self) -> float:
        """The largest violation of optimality at the end."""
        return self.solution.violation

    def rule(self, mean: np.ndarray) -> LinearRule:
        """Return the rule, with the prepared rows' mean (d,)."""
        offset, weights = self.solution.offset, self.solution.weights
        return self.rule_type(weights, mean, offset, self.is_ball)

    def fitted_facts(self) -> Facts:
        """Return the numbers that the fit arrived at."""
        of = self.solution
        facts = {
            "objective": of.objective,
            "violation": of.violation,
            "n_iter": of.n_iter,
            "n_passes": of.n_passes,
            "offset": of.offset,
            "radius": radius(of.offset) if self.is_ball else None,
            "duality_gap": of.duality_gap,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def solved(self) -> State:
        """Return facts, which JSON can hold, and arrays: what `restore` goes on from."""
        facts = vars(self.solution) | {"notes": list(self.notes)}
        return facts, {"weights": facts.pop("weights")}

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Go on as the engine whose `solved` these are; its notes replace those so far."""
        known = {**facts, **arrays}
        self.solution = Solution(**{field.name: known[field.name] for field in fields(Solution)})
        self.notes = list(facts["notes"])

    def _per_score(self, total: float) -> float:
        """Return the unit of the score in that of the gradients."""
        return 1.0 if self.is_ball else 1.0 / total

    def _decision(
        self, u: np.ndarray, rho: float, origin: np.ndarray | None
    ) -> tuple[np.ndarray, float]:
        """Return weights (d,) and offset by a weighted mean of rows (d,) and its threshold."""
        if not self.is_ball:
            return u, rho
        centre = (np.zeros_like(u) if origin is None else origin) + u
        return centre, min(rho - float((u * u).sum()), 0.0)


class OneClassEngine(LinearEngine):
    """The hyperplane of `LinearOneClassSVM`."""

    algorithm = "linear-one-class"
    is_ball = False
    rule_type = OneClassRule
    problem = Problem.one_class

    def total(self, n_rows: int) -> float:
        """Return nu n."""
        return float(self.parameters["nu"]) * n_rows


class BallEngine(LinearEngine):
    """The ball of `LinearSVDD`; dense rows are solved about their mean."""

    algorithm = "linear-svdd"
    is_ball = True
    rule_type = BallRule
    problem = Problem.data_description

    def total(self, n_rows: int) -> float:
        """Return 1 / C, or nu n; raises ParameterError where C is too small for so few rows."""
        nu, C = self.parameters["nu"], self.parameters["C"]
        if C is None:
            return max(float(DEFAULT_NU if nu is None else nu) * n_rows, 1.0)
        if C * n_rows < 1.0 - 1e-12:
            raise ParameterError(
                f"C must be at least 1 / n = {1.0 / n_rows:.6g} for {n_rows} rows, found {C!r}"
            )
        return min(max(1.0 / float(C), 1.0), float(n_rows))


def radius(offset: float) -> float:
    """Return R of a ball's offset -R^2."""
    return float(np.sqrt(-offset))


def _rows(X: Any) -> Rows:
    return SparseRows(X) if sparse.issparse(X) else DenseRows(X)
