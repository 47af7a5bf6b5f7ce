"""Linear one-class SVM and SVDD: outliers of wide, often sparse tables, without a kernel.

| Chou, Lin and Lin (2020) | here |
|---|---|
| alpha of (3.14) and (3.16) | ``dual_coef_`` of the rows ``support_`` |
| w and rho; a and R | ``coef_``, ``offset_``; ``center_``, ``radius_`` |
| nu; C, or 1 / (nu l) where nu is given | ``nu``, ``C`` |
| Algorithms 2, 4 and 5 | ``solver`` (`distsvc.models.linear.coordinate_descent`) |
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from distsvc.errors import ParameterError, UnusableRowsError
from distsvc.models import sampling
from distsvc.models.linear.coordinate_descent import (
    DenseRows,
    Problem,
    Rows,
    SparseRows,
    State,
    duality_gap,
    solve,
    start,
    threshold,
)
from distsvc.models.linear.working_set import WorkingSet
from distsvc.models.sampling import seed_of
from distsvc.parameters import check_parameters

DEFAULT_NU = 0.5
FEWEST_ROWS = 100
MEMORY_BYTES = 256 * 2**20
NOTHING = 1e-12
"""|w|^2 of a one-class SVM that is rounding, as a share of the largest |x|^2."""


@dataclass(frozen=True)
class LinearRule:
    """A decision on dense rows: w and rho, or for a ball the centre and -R^2."""

    weights: np.ndarray
    offset: float
    ball: bool

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """Return the decision values (n,) float64 of rows Z (n, d) float64, less the offset."""
        if self.ball:
            E = Z - self.weights
            return -np.einsum("ij,ij->i", E, E)
        return np.einsum("ij,j->i", Z, self.weights)

    def pulls(self, Z: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return how far each column pulls rows Z out, (n, d) float64, in units of the score.

        For a ball that is its part of the squared distance from the centre; else the weight times
        the deviation from the column's mean (d,), which is negative where the column pulls in.
        """
        return (Z - self.weights) ** 2 if self.ball else (mean - Z) * self.weights


class LinearModel(OutlierMixin, BaseEstimator):
    """What both problems share: checks, the descent, and what follows from alpha."""

    solver: str
    tol: float
    max_iter: int
    compute_gap: bool
    memory_rows: int | None
    random_state: Any
    is_ball: bool
    algorithm: str
    offset_: float
    notes_: list[str]

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from the rows of X (n, d), dense or sparse, float32 or float64, n >= 2.

        Raises
        ------
        ValueError
            For NaN or infinity in X, indices of a sparse matrix that are not columns, fewer than 2
            rows, or a parameter out of range.

        """
        X = _checked(self, X, reset=True, ensure_min_samples=2)
        self.begin()
        converged = self.fit_rows(X)
        if not converged:
            warnings.warn(
                f"max_iter = {self.max_iter} reached with a violation of {self.violation_:.2g}; "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        for note in self.notes_:
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 (n,) int64 for every row of X (n, d) that is inside, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return `score_samples` less ``offset_``, (n,) float64: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: Any) -> np.ndarray:
        """Return how much inside every row of X (n, d) is, (n,) float64, without the offset."""
        check_is_fitted(self, "offset_")
        return self._scores(_checked(self, X, reset=False))

    def begin(self) -> None:
        """Check the parameters and forget an earlier fit."""
        check_parameters(self.algorithm, self.get_params())
        self.seed_ = seed_of(self.random_state)
        self.notes_ = []

    # What `fit` and the distributed job have in common, and what the job needs besides.

    def fit_rows(self, X: Any) -> bool:
        """Learn from checked rows X (n, d); return whether the tolerance was reached."""
        total = self.total(X.shape[0])
        state, converged = self._solve(X, total)
        support = np.flatnonzero(state.alpha)
        self.support_ = support.astype(np.int64)
        self.dual_coef_ = state.alpha[support][None, :] / total
        self.n_iter_ = max(state.n_iter, 1)
        self.violation_ = state.violation * self._per_unit(total)
        self.objective_ = state.objective * state.problem.unit
        if self.compute_gap:
            self.duality_gap_ = duality_gap(state) * state.problem.unit
        rho = threshold(state.G, state.alpha, state.problem.rounding)
        self.publish(state.u / total, rho * self._per_unit(total))
        self._look(state.problem.largest)
        return converged

    def begin_outer(self, n_rows: int) -> tuple[np.ndarray, float, float]:
        """Return u, rho and scale at which a table of `n_rows` rows begins, by a sample's fit."""
        total, w = self.total(n_rows), self.rule.weights
        if self.is_ball:
            return total * w, float((w * w).sum()) + self.offset_, 2.0 / total
        return total * w, total * self.offset_, 1.0

    def end_outer(self, outer: WorkingSet, n_passes: int) -> None:
        """Take the answer of outer steps over a whole table."""
        total = outer.total
        self._origin = np.zeros_like(outer.u)
        self.n_iter_, self.n_passes_ = outer.n_iter, n_passes
        self.violation_ = outer.violation * self._per_unit(total)
        self.objective_ = outer.objective * (1.0 / total if self.is_ball else 1.0 / total**2)
        self.publish(outer.u / total, outer.rho() * self._per_unit(total))

    def set_width(self, n_features: int, sparse: bool = False) -> None:
        """Say how many columns the table has, and whether its rows come in CSR form."""
        self.n_features_in_, self.sparse_ = n_features, sparse

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        """Return the key ranges of the rows to be solved in memory: all, or a sample."""
        wanted = self.memory_rows or max(MEMORY_BYTES // (8 * self.n_features_in_), FEWEST_ROWS)
        wanted = FEWEST_ROWS if self.sparse_ else wanted
        return sampling.key_blocks(n_rows, min(n_rows, wanted))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle the rows' origin from pilot rows (m, d): their mean, where any will do."""
        mean = pilot.mean(axis=0, dtype=np.float64)
        self.centre_ = mean if self.is_ball and not self.sparse_ else np.zeros_like(mean)

    @property
    def rule(self) -> LinearRule:
        """What scores dense rows."""
        weights = self.center_ if self.is_ball else self.coef_[0]
        return LinearRule(weights, self.offset_, self.is_ball)

    def fitted_facts(self) -> dict[str, Any]:
        """Return the numbers that the fit arrived at."""
        names = ("objective_", "violation_", "n_iter_", "n_passes_", "offset_", "radius_")
        facts = {name[:-1]: getattr(self, name) for name in names if hasattr(self, name)}
        if hasattr(self, "duality_gap_"):
            facts["duality_gap"] = self.duality_gap_
        return facts

    def __sklearn_tags__(self) -> Any:
        """Say that sparse rows are fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solve(self, X: Any, total: float) -> tuple[State, bool]:
        rows: Rows = SparseRows(X) if sparse.issparse(X) else DenseRows(X)
        state = start(rows, self._problem, total)
        return state, solve(state, self.solver, self.tol, self.max_iter, self.seed_)


class LinearOneClassSVM(LinearModel):
    """The hyperplane that separates most rows from the origin by the widest margin.

    The linear one-class SVM of Schoelkopf et al. (2001), solved in the dual by coordinate descent
    (Chou, Lin and Lin 2020). It separates from the origin, so the origin has to mean something, as
    it does for counts, shares and text; on centred columns w is 0 and nothing is learned. Use
    `LinearSVDD` there, which does not depend on where the origin is.

    Parameters
    ----------
    nu : float in (0, 1]
        At most this share of the rows is outside, and at least it are support vectors.
    solver : {"greedy-cyclic", "cyclic-4cd-greedy", "cyclic-2cd", "greedy-2cd"}
        Algorithm 5 with R = 0.1, Algorithm 4 with |B| = 4 and r = 1, Algorithm 2, or one most
        violating pair at a time.
    tol : float
        The descent ends when no pair violates optimality by more than tol |f| / (nu n), so that
        the objective is within `tol` of the optimum, relatively. LIBLINEAR's bound is absolute, on
        a scale that grows with nu n.
    max_iter : int
        Most outer steps; for the cyclic solvers, sweeps.
    compute_gap : bool
        Whether to find ``duality_gap_``.
    memory_rows : int or None
        Rows that a job solves in memory, 1000 at least; of a larger table that many are, as a
        sample, and then all rows in outer steps, one pass over the table each. None is as many as
        fit in 256 MiB. `fit` does not use it.
    random_state : int, RandomState or None
        Decides the order of the cyclic solvers; the others do not use it.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d), float64
        w of the paper's problem: that of LIBLINEAR, or of `sklearn.svm.OneClassSVM`, over nu n.
    offset_ : float
        rho, over nu n too: ``decision_function(X) = X @ coef_[0] - offset_``.
    support_ : ndarray of shape (n_SV,), int64
        Rows with a positive alpha.
    dual_coef_ : ndarray of shape (1, n_SV), float64
        Their alpha, at most 1 / (nu n); the sum is 1.
    objective_ : float
        1/2 |w|^2, the optimum of (3.14).
    violation_ : float
        The largest difference between w.x of a row whose alpha could fall and one whose could grow.
    duality_gap_ : float
        The primal minus the dual objective; only with `compute_gap`.
    n_iter_ : int
        Outer steps, at least 1.
    notes_ : list of str
        What is remarkable about the answer; also issued as warnings by `fit`.

    Notes
    -----
    The start is not the paper's, which gives the mass to the first rows: it goes to the rows that
    lie lowest along the mean of all, so that the order of rows does not matter. With nu = 1 every
    offset from the largest w.x on is optimal; the least of them is taken.

    """

    is_ball = False
    algorithm = "linear-one-class"

    def __init__(
        self,
        nu: float = DEFAULT_NU,
        *,
        solver: str = "greedy-cyclic",
        tol: float = 1e-5,
        max_iter: int = 10_000,
        compute_gap: bool = False,
        memory_rows: int | None = None,
        random_state: Any = None,
    ):
        self.nu = nu
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.compute_gap = compute_gap
        self.memory_rows = memory_rows
        self.random_state = random_state

    def total(self, n_rows: int) -> float:
        """Return nu n, the sum of alpha when its bound is 1."""
        return float(self.nu) * n_rows

    def _problem(self, rows: Rows, squares: np.ndarray, total: float) -> Problem:
        return Problem.one_class(rows, squares, total)

    def _per_unit(self, total: float) -> float:
        return 1.0 / total

    def publish(self, w: np.ndarray, rho: float) -> None:
        """Set what a weighted sum of rows w (d,) and its threshold decide."""
        self.coef_, self.offset_ = w[None, :], rho

    def _look(self, largest: float) -> None:
        if (self.coef_**2).sum() <= NOTHING * largest:
            self.notes_.append(
                "w is 0: the origin lies among the rows, so no hyperplane separates a share of "
                "1 - nu of them from it; use LinearSVDD, or columns that are not centred"
            )

    def _scores(self, X: Any) -> np.ndarray:
        return _products(X, self.coef_[0]) if sparse.issparse(X) else self.rule.scores(X)


class LinearSVDD(LinearModel):
    """The smallest ball that holds most rows.

    Support vector data description (Tax and Duin 2004) without a kernel, solved in the dual by
    coordinate descent (Chou, Lin and Lin 2020). It does not depend on where the origin is, but on
    the columns' scales.

    Parameters
    ----------
    nu : float in (0, 1] or None
        At most this share of the rows is outside: C = 1 / (nu n). 0.5 when C is None too.
    C : float or None
        The paper's trade-off in R^2 + C sum xi_i; at least 1 / n. From 1 on the ball holds every
        row. Not with `nu`.
    solver, tol, max_iter, compute_gap, memory_rows, random_state
        As in `LinearOneClassSVM`.

    Attributes
    ----------
    center_ : ndarray of shape (d,), float64
        a, the centre of the ball.
    radius_ : float
        R.
    offset_ : float
        -R^2: ``decision_function(X) = score_samples(X) - offset_ = R^2 - |x - a|^2``.
    support_, dual_coef_, duality_gap_, n_iter_, notes_
        As in `LinearOneClassSVM`.
    objective_ : float
        The optimum of (3.16), which is minus the mean squared distance from a under alpha.
    violation_ : float
        The largest difference between |x - a|^2 of a row whose alpha could grow and one whose could
        fall.

    Notes
    -----
    Dense rows are centred first, which loses fewer digits; sparse rows are not. The start is the
    paper's with the rows in the order of their distance from the mean. Where no alpha is free, R^2
    is midway between the farthest row inside and the nearest outside; with nu = 1, where every R^2
    up to the nearest row's is optimal, it is the largest of them.

    """

    is_ball = True
    algorithm = "linear-svdd"

    def __init__(
        self,
        nu: float | None = None,
        *,
        C: float | None = None,
        solver: str = "greedy-cyclic",
        tol: float = 1e-5,
        max_iter: int = 10_000,
        compute_gap: bool = False,
        memory_rows: int | None = None,
        random_state: Any = None,
    ):
        self.nu = nu
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.compute_gap = compute_gap
        self.memory_rows = memory_rows
        self.random_state = random_state

    def total(self, n_rows: int) -> float:
        """Return 1 / C, the sum of alpha when its bound is 1."""
        if self.C is None:
            return max(float(DEFAULT_NU if self.nu is None else self.nu) * n_rows, 1.0)
        if self.C * n_rows < 1.0 - 1e-12:
            raise ParameterError(
                f"C must be at least 1 / n = {1.0 / n_rows:.6g} for {n_rows} rows, found {self.C!r}"
            )
        return min(max(1.0 / float(self.C), 1.0), float(n_rows))

    def _solve(self, X: Any, total: float) -> tuple[State, bool]:
        self._origin = np.zeros(X.shape[1])
        if not sparse.issparse(X):
            self._origin = X.mean(axis=0)
            X = X - self._origin
        return super()._solve(X, total)

    def _problem(self, rows: Rows, squares: np.ndarray, total: float) -> Problem:
        return Problem.data_description(rows, squares, total)

    def _per_unit(self, total: float) -> float:
        return 1.0

    def publish(self, centre: np.ndarray, rho: float) -> None:
        """Set what a weighted mean of centred rows (d,) and its threshold decide."""
        self.center_ = self._origin + centre
        self.offset_ = min(rho - float((centre * centre).sum()), 0.0)
        self.radius_ = float(np.sqrt(-self.offset_))

    def _look(self, largest: float) -> None:
        pass

    def _scores(self, X: Any) -> np.ndarray:
        if sparse.issparse(X):
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
            return 2.0 * _products(X, self.center_) - squares - (self.center_**2).sum()
        return self.rule.scores(X)


def _products(X: Any, w: np.ndarray) -> np.ndarray:
    return np.asarray(X @ w).ravel()


def _checked(estimator: Any, X: Any, **options: Any) -> Any:
    """Return X as float64, CSR with columns once each if sparse, else in C order."""
    if sparse.issparse(X):
        _check_indices(X)
    X = validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, order="C", **options)
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_indices(X: Any) -> None:
    """Raise UnusableRowsError where a CSR or CSC matrix names a column or row that is not there."""
    if X.format not in ("csr", "csc") or not X.indices.size:
        return
    size, what = (X.shape[1], "column") if X.format == "csr" else (X.shape[0], "row")
    least, most = int(X.indices.min()), int(X.indices.max())
    if least < 0 or most >= size:
        wrong = least if least < 0 else most
        raise UnusableRowsError(
            f"the indices of the sparse matrix must lie in [0, {size}), found {what} {wrong}"
        )
