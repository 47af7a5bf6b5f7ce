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
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from distsvc.errors import UnusableRowsError
from distsvc.inputs.given import is_elsewhere
from distsvc.inputs.rows import RowValues
from distsvc.job.parameters import (
    LinearSolver,
    LinearStart,
    RandomState,
    check_parameters,
    published,
)
from distsvc.models.linear.engine import (
    DEFAULT_NU,
    BallEngine,
    LinearEngine,
    OneClassEngine,
    radius,
)
from distsvc.models.linear.rule import scores
from distsvc.models.rows.passes import answered
from distsvc.models.rows.phases import Phases
from distsvc.models.rows.sampling import seed_of
from distsvc.models.rows.validation import check_length, unweighted, validated


@dataclass(frozen=True)
class Decision:
    """Scores dense rows less an offset, in a form that can be sent to where they are.

    With `sides` it is 1 for rows that are inside and -1 for others.
    """

    weights: np.ndarray
    offset: float
    ball: bool
    sides: bool

    @property
    def answer(self) -> RowValues:
        """The form of the values."""
        return RowValues("label", np.int64) if self.sides else RowValues("score", np.float64)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the values (n,) of rows X (n, d)."""
        check_length(X)
        found = scores(np.asarray(X, np.float64), self.weights, self.ball) - self.offset
        return np.where(found >= 0.0, 1, -1) if self.sides else found


class _LinearEstimator(OutlierMixin, BaseEstimator):
    """The base of both estimators: rows are checked, solved by an engine, and scored."""

    _engine_type: type[LinearEngine]

    solver: str
    tol: float
    max_iter: int
    memory_rows: int | None
    verbose: int
    random_state: RandomState
    offset_: float
    coef_: np.ndarray
    center_: np.ndarray
    notes_: list[str]

    @classmethod
    def published(cls, **parameters: Any) -> Self:
        """Return an estimator with the settings of Chou, Lin and Lin (2020).

        They are Algorithm 5 with R = 0.1, no shrinking, and the mass on the first rows at the
        start.

        Parameters
        ----------
        **parameters
            Other parameters, such as ``nu``, and settings that differ from the paper's. The paper
            has nu = 0.1.

        Returns
        -------
        estimator : object
            Not fitted.

        See Also
        --------
        fit : Learn from rows.

        Examples
        --------
        >>> from distsvc import LinearOneClassSVM
        >>> LinearOneClassSVM.published(nu=0.1).solver
        'greedy-cyclic'

        """
        return cls(**published(cls._engine_type.algorithm, parameters))

    @unweighted
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Rows in memory; n >= 2, float32 or float64.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            For NaN or infinity in X, indices of a sparse matrix that are not columns, fewer than 2
            rows, or a parameter out of range.

        See Also
        --------
        predict : The side of other rows.

        Examples
        --------
        >>> import numpy as np
        >>> from distsvc import LinearSVDD
        >>> X = np.random.default_rng(0).normal(size=(200, 5))
        >>> LinearSVDD(nu=0.05).fit(X).center_.shape
        (5,)

        """
        X = _checked(self, X, reset=True, ensure_min_samples=2)
        parameters = self.get_params()
        check_parameters(self._engine_type.algorithm, parameters)
        engine = self._engine_type(parameters, seed_of(self.random_state))
        phases = Phases(self)
        converged = engine.fit_rows(X)
        phases.ended(f"{engine.solution.n_iter:,} outer steps on {X.shape[0]:,} rows")
        self._publish(engine)
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

    def predict(self, X: Any) -> Any:
        """Return 1 for every row that is inside, and -1 for outliers.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n, d)
            Rows; a table is read block by block.

        Returns
        -------
        sides : ndarray of shape (n,), int64
            As lazy as X is.

        See Also
        --------
        decision_function : How far inside.

        Examples
        --------
        >>> import numpy as np
        >>> from distsvc import LinearSVDD
        >>> X = np.random.default_rng(0).normal(size=(200, 5))
        >>> LinearSVDD(nu=0.05).fit(X).predict([[0] * 5, [9] * 5])
        array([ 1, -1])

        """
        check_is_fitted(self, "offset_")
        if is_elsewhere(X):
            return answered(self, X, self._of_rows(self.offset_, sides=True))
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def decision_function(self, X: Any) -> Any:
        """Return `score_samples` less ``offset_``: negative for outliers.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n, d)
            Rows; a table is read block by block.

        Returns
        -------
        values : ndarray of shape (n,), float64
            As lazy as X is.

        See Also
        --------
        predict : The sign.

        Examples
        --------
        >>> import numpy as np
        >>> from distsvc import LinearSVDD
        >>> X = np.random.default_rng(0).normal(size=(200, 5))
        >>> LinearSVDD(nu=0.05).fit(X).decision_function([[0] * 5, [9] * 5]) > 0
        array([ True, False])

        """
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: Any) -> Any:
        """Return how much inside every row is, without the offset.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n, d)
            Rows; a table is read block by block.

        Returns
        -------
        scores : ndarray of shape (n,), float64
            As lazy as X is.

        See Also
        --------
        decision_function : The same, 0 at the border.

        Examples
        --------
        >>> import numpy as np
        >>> from distsvc import LinearSVDD
        >>> X = np.random.default_rng(0).normal(size=(200, 5))
        >>> inside, outside = LinearSVDD(nu=0.05).fit(X).score_samples([[0] * 5, [9] * 5])
        >>> inside > outside
        np.True_

        """
        check_is_fitted(self, "offset_")
        if is_elsewhere(X):
            return answered(self, X, self._of_rows(0.0))
        return self._scores(_checked(self, X, reset=False))

    def __sklearn_tags__(self) -> Any:
        """Say that sparse rows are fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _of_rows(self, offset: float, sides: bool = False) -> Decision:
        """Return the function that scores dense rows, or tells their side."""
        ball = self._engine_type is BallEngine
        weights = self.center_ if ball else self.coef_[0]
        return Decision(weights, offset, ball, sides)

    def _publish(self, engine: LinearEngine) -> None:
        """Set the attributes that both problems have."""
        of = engine.solution
        self.support_, self.dual_coef_ = engine.support, engine.dual_coef[None, :]
        self.offset_, self.objective_, self.violation_ = of.offset, of.objective, of.violation
        self.n_iter_, self.notes_ = of.n_iter, engine.notes
        self.__dict__.pop("duality_gap_", None)
        if of.duality_gap is not None:
            self.duality_gap_ = of.duality_gap


class LinearOneClassSVM(_LinearEstimator):
    r"""The hyperplane that separates most rows from the origin by the widest margin.

    The linear one-class SVM of Schoelkopf et al. (2001), solved in the dual by coordinate descent
    (Chou, Lin and Lin 2020). It separates from the origin, so the origin has to mean something, as
    it does for counts, shares and text; on centred columns w is 0 and nothing is learned. Rows are
    outside that have too little of what the others have. Those with too much of it, such as bursts
    among counts, are the most inside of all. `LinearSVDD` finds both, wherever the origin is.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        At most this share of the rows is outside, and at least it are support vectors. The default
        is scikit-learn's; a job has 0.05.
    solver : str, default="greedy-sweeps"
        "greedy-cyclic" is the paper's Algorithm 5, "cyclic-4cd-greedy" Algorithm 4, "cyclic-2cd"
        Algorithm 2; "greedy-2cd" takes one most violating pair at a time. "greedy-sweeps" is not in
        the paper: Algorithm 5 with two further sweeps of each step's pairs, which is faster.
    share : float in (0, 1] or None, default=None
        R of Algorithm 5: the pairs of an outer step, as a share of the rows. None is 0.1, the
        paper's, and 0.05 with "greedy-sweeps". Only with these two solvers.
    block_size : int, default=4
        Rows of a block of Algorithm 4, \|B\|, at least 2. Only with "cyclic-4cd-greedy".
    inner_iterations : int, default=1
        Most pairs that move in a block of Algorithm 4, r. Only with "cyclic-4cd-greedy".
    shrinking : bool, default=True
        Leave out rows that their gradients hold at a bound until the others have converged. The
        paper does not.
    start : {"mean", "first"}, default="mean"
        The rows that have all the mass at first: those that lie lowest along the mean of all rows
        (for the ball farthest from it), or the first ones, as in the paper.
    tol : float, default=1e-05
        The descent ends when no pair violates optimality by more than ``tol |f| / (nu n)``, so that
        the objective is within `tol` of the optimum, relatively. LIBLINEAR's bound is absolute, on
        a scale that grows with nu n.
    max_iter : int, default=10000
        Most outer steps; for the cyclic solvers, sweeps.
    compute_gap : bool, default=False
        Whether to find ``duality_gap_``.
    memory_rows : int or None, default=None
        Rows that a job solves in memory, 1000 at least; of a larger table that many are, as a
        sample, and then all rows in outer steps, one pass over the table each. None is as many as
        fit in 256 MiB. `fit` does not use it.
    verbose : int, default=0
        0 is silent; from 1 on a line is printed for each phase of `fit`, with its seconds.
    random_state : int, RandomState or None, default=None
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
        ``1/2 |w|^2``, the optimum of (3.14).
    violation_ : float
        The largest difference between w.x of a row whose alpha could fall and one whose could grow.
    duality_gap_ : float
        The primal minus the dual objective; only with `compute_gap`.
    n_iter_ : int
        Outer steps, at least 1.
    notes_ : list of str
        Remarks on the answer; also issued as warnings by `fit`.

    Notes
    -----
    The default start does not depend on the order of rows. With nu = 1 every offset from the
    largest w.x on is optimal; the least of them is taken. Left out of the paper are the labels y_i
    and the bounds C_i of (3.17), which one-class problems do not have, and the inner solver of
    Algorithm 4 that keeps the matrix of the sub-problem (supplement, section 6).

    See Also
    --------
    LinearSVDD : The smallest ball, wherever the origin is.
    sklearn.svm.OneClassSVM : The same problem, with kernels.

    References
    ----------
    Chou, Lin and Lin (2020), "Dual Coordinate-Descent Methods for Linear One-class SVM and SVDD";
    Schoelkopf et al. (2001), "Estimating the Support of a High-dimensional Distribution".

    Examples
    --------
    Machines whose counts of events are all near 5, and one that counts nothing:

    >>> import numpy as np
    >>> from distsvc import LinearOneClassSVM
    >>> X = np.random.default_rng(0).poisson(5.0, size=(200, 20)).astype(float)
    >>> model = LinearOneClassSVM(nu=0.05).fit(X)
    >>> model.predict([X.mean(axis=0), np.zeros(20)])
    array([ 1, -1])

    """

    _engine_type = OneClassEngine

    def __init__(
        self,
        nu: float = DEFAULT_NU,
        *,
        solver: LinearSolver = "greedy-sweeps",
        share: float | None = None,
        block_size: int = 4,
        inner_iterations: int = 1,
        shrinking: bool = True,
        start: LinearStart = "mean",
        tol: float = 1e-5,
        max_iter: int = 10_000,
        compute_gap: bool = False,
        memory_rows: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.nu = nu
        self.solver = solver
        self.share = share
        self.block_size = block_size
        self.inner_iterations = inner_iterations
        self.shrinking = shrinking
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.compute_gap = compute_gap
        self.memory_rows = memory_rows
        self.verbose = verbose
        self.random_state = random_state

    def _publish(self, engine: LinearEngine) -> None:
        super()._publish(engine)
        self.coef_ = engine.solution.weights[None, :]

    def _scores(self, X: Any) -> np.ndarray:
        w = self.coef_[0]
        return _products(X, w) if sparse.issparse(X) else scores(X, w, ball=False)


class LinearSVDD(_LinearEstimator):
    """The smallest ball that holds most rows.

    Support vector data description (Tax and Duin 2004) without a kernel, solved in the dual by
    coordinate descent (Chou, Lin and Lin 2020). It does not depend on where the origin is, but on
    the columns' scales.

    Parameters
    ----------
    nu : float in (0, 1] or None, default=None
        At most this share of the rows is outside: C = 1 / (nu n). 0.5 when C is None too;
        a job has 0.05.
    C : float or None, default=None
        The paper's trade-off in R^2 + C sum xi_i; at least 1 / n. From 1 on the ball holds every
        row. Not with `nu`.
    solver : str, default="greedy-sweeps"
        As in `LinearOneClassSVM`.
    share : float in (0, 1] or None, default=None
        As in `LinearOneClassSVM`.
    block_size : int, default=4
        As in `LinearOneClassSVM`.
    inner_iterations : int, default=1
        As in `LinearOneClassSVM`.
    shrinking : bool, default=True
        As in `LinearOneClassSVM`.
    start : {"mean", "first"}, default="mean"
        As in `LinearOneClassSVM`.
    tol : float, default=1e-05
        As in `LinearOneClassSVM`.
    max_iter : int, default=10000
        As in `LinearOneClassSVM`.
    compute_gap : bool, default=False
        As in `LinearOneClassSVM`.
    memory_rows : int or None, default=None
        As in `LinearOneClassSVM`.
    verbose : int, default=0
        As in `LinearOneClassSVM`.
    random_state : int, RandomState or None, default=None
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
        The largest difference between ``|x - a|^2`` of a row whose alpha could grow and one whose
        could fall.

    Notes
    -----
    Dense rows are centred first, which loses fewer digits; sparse rows are not. Where no alpha is
    free, R^2 is midway between the farthest row inside and the nearest outside; with nu = 1, where
    every R^2 up to the nearest row's is optimal, it is the largest of them.

    See Also
    --------
    LinearOneClassSVM : A hyperplane, where the origin means something.

    References
    ----------
    Chou, Lin and Lin (2020), "Dual Coordinate-Descent Methods for Linear
    One-class SVM and SVDD"; Tax and Duin (2004), "Support Vector Data Description".

    Examples
    --------
    >>> import numpy as np
    >>> from distsvc import LinearSVDD
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = LinearSVDD(nu=0.05).fit(X)
    >>> bool((model.predict(X) < 0).mean() <= 0.05)
    True
    >>> model.predict([[9.0] * 5])
    array([-1])

    """

    _engine_type = BallEngine

    def __init__(
        self,
        nu: float | None = None,
        *,
        C: float | None = None,
        solver: LinearSolver = "greedy-sweeps",
        share: float | None = None,
        block_size: int = 4,
        inner_iterations: int = 1,
        shrinking: bool = True,
        start: LinearStart = "mean",
        tol: float = 1e-5,
        max_iter: int = 10_000,
        compute_gap: bool = False,
        memory_rows: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        self.nu = nu
        self.C = C
        self.solver = solver
        self.share = share
        self.block_size = block_size
        self.inner_iterations = inner_iterations
        self.shrinking = shrinking
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.compute_gap = compute_gap
        self.memory_rows = memory_rows
        self.verbose = verbose
        self.random_state = random_state

    def _publish(self, engine: LinearEngine) -> None:
        super()._publish(engine)
        self.center_, self.radius_ = engine.solution.weights, radius(self.offset_)

    def _scores(self, X: Any) -> np.ndarray:
        if sparse.issparse(X):
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
            return 2.0 * _products(X, self.center_) - squares - (self.center_**2).sum()
        return scores(X, self.center_, ball=True)


def _products(X: Any, w: np.ndarray) -> np.ndarray:
    return np.asarray(X @ w).ravel()


def _checked(estimator: Any, X: Any, **options: Any) -> Any:
    """Return X as float64, CSR with columns once each if sparse, else in C order."""
    if sparse.issparse(X):
        _check_indices(X)
    X = validated(estimator, X, accept_sparse="csr", dtype=np.float64, order="C", **options)
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_indices(X: Any) -> None:
    """Raise UnusableRowsError where CSR or CSC names a column or row that is not there."""
    if X.format not in ("csr", "csc") or not X.indices.size:
        return
    size, what = (X.shape[1], "column") if X.format == "csr" else (X.shape[0], "row")
    least, most = int(X.indices.min()), int(X.indices.max())
    if least < 0 or most >= size:
        wrong = least if least < 0 else most
        raise UnusableRowsError(
            f"the indices of the sparse matrix must lie in [0, {size}), found {what} {wrong}"
        )
