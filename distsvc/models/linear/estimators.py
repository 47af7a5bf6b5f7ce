"""The linear one-class SVM and SVDD, which detect outliers in wide, often sparse tables."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from distsvc.errors import UnusableRowsError
from distsvc.inputs.given import is_elsewhere
from distsvc.inputs.rows import RowValues
from distsvc.job.parameters import LinearSolver, LinearStart, RandomState, check_parameters
from distsvc.models.bases.interface import DecidesRows, FitsRows, PublishedSettings
from distsvc.models.bases.passes import Phases, map_rows
from distsvc.models.bases.validation import LazyValues, TableLike, check_rows, reject_weights
from distsvc.models.linear.engine import BallEngine, LinearEngine, OneClassEngine, radius
from distsvc.models.linear.rule import scores
from distsvc.models.rows.sampling import seed_of
from distsvc.models.rows.scaling import check_length


@dataclass(frozen=True)
class Decision:
    """Picklable function from dense rows to decision values, or to 1 and -1 if `sides`."""

    weights: np.ndarray
    offset: float
    ball: bool
    sides: bool

    @property
    def answer(self) -> RowValues:
        return RowValues("label", np.int64) if self.sides else RowValues("score", np.float64)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        check_length(X)
        found = scores(np.asarray(X, np.float64), self.weights, self.ball) - self.offset
        return np.where(found >= 0.0, 1, -1) if self.sides else found


@dataclass(eq=False, repr=False)
class _LinearEstimator(PublishedSettings, DecidesRows, FitsRows, OutlierMixin, BaseEstimator):
    """Base of `LinearOneClassSVM` and `LinearSVDD`."""

    _engine_type: ClassVar[type[LinearEngine]]

    _: KW_ONLY
    solver: LinearSolver = "greedy-sweeps"
    share: float | None = None
    block_size: int = 4
    inner_iterations: int = 1
    shrinking: bool = True
    start: LinearStart = "mean"
    tol: float = 1e-5
    max_iter: int = 10_000
    compute_gap: bool = False
    memory_rows: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    @reject_weights
    def fit(self, X: TableLike, y: object = None) -> Self:
        X = _checked(self, X, reset=True, ensure_min_samples=2)
        parameters = self.get_params()
        check_parameters(self._algorithm, parameters)
        engine = self._engine_type(parameters, seed_of(self.random_state))
        phases = Phases(self)
        converged = engine.fit_rows(X)
        phases.ended(f"{engine.solution.n_iter:,} outer steps on {X.shape[0]:,} rows")
        self._publish(engine)
        if not converged:
            warnings.warn(
                f"max_iter = {self.max_iter} reached with the optimality conditions violated by "
                f"{self.violation_:.2g}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        for note in self.notes_:
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def predict(self, X: TableLike) -> LazyValues:
        """Return 1 for rows inside, and -1 for outliers.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n, d)
            Rows; a table is read block by block.

        Returns
        -------
        sides : ndarray of shape (n,), int64
            A lazy array if X is lazy, such as a dask array.

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
            return map_rows(self, X, self._decision(self.offset_, sides=True))
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def decision_function(self, X: TableLike) -> LazyValues:
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: TableLike) -> LazyValues:
        check_is_fitted(self, "offset_")
        if is_elsewhere(X):
            return map_rows(self, X, self._decision(0.0))
        X = _checked(self, X, reset=False)
        w, ball = self._weights, self._engine_type.is_ball
        if not sparse.issparse(X):
            return scores(X, w, ball)
        products = np.asarray(X @ w).ravel()
        if not ball:
            return products
        return 2.0 * products - np.asarray(X.multiply(X).sum(axis=1)).ravel() - (w**2).sum()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _decision(self, offset: float, sides: bool = False) -> Decision:
        return Decision(self._weights, offset, self._engine_type.is_ball, sides)

    def _publish(self, engine: LinearEngine) -> None:
        of = engine.solution
        self._weights = of.weights
        self.support_, self.dual_coef_ = engine.support, engine.dual_coef[None, :]
        self.offset_, self.objective_, self.violation_ = of.offset, of.objective, of.violation
        self.n_iter_, self.notes_ = of.n_iter, engine.notes
        self.__dict__.pop("duality_gap_", None)
        if of.duality_gap is not None:
            self.duality_gap_ = of.duality_gap


@dataclass(eq=False, repr=False)
class LinearOneClassSVM(_LinearEstimator):
    r"""The hyperplane that separates most rows from the origin by the widest margin.

    The linear one-class SVM of Schoelkopf et al. (2001), solved in the dual by coordinate descent
    (Chou, Lin and Lin 2020). It needs a natural zero, as for counts, shares and text. On centred
    columns, w is 0 and nothing is learned. Rows with lower values of w.x than most are outside.
    Rows with higher values, such as bursts of counts, are inside; `LinearSVDD` puts them outside.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the share of rows outside, and lower bound on the share of support vectors.
        The default is scikit-learn's; a job has 0.05.
    solver : str, default="greedy-sweeps"
        "greedy-cyclic" is the paper's Algorithm 5, "cyclic-4cd-greedy" Algorithm 4, "cyclic-2cd"
        Algorithm 2; "greedy-2cd" moves the most violating pair at every step. "greedy-sweeps" is
        not in the paper, and faster: Algorithm 5 with two further sweeps over each step's pairs.
    share : float in (0, 1] or None, default=None
        R of Algorithm 5: pairs in an outer step, as a share of the rows. None is 0.1 with
        "greedy-cyclic", as in the paper, and 0.05 with "greedy-sweeps". Other solvers ignore it.
    block_size : int, default=4
        Rows of a block of Algorithm 4, \|B\|, at least 2. Only with "cyclic-4cd-greedy".
    inner_iterations : int, default=1
        Maximum number of pairs moved in a block of Algorithm 4, r. Only with "cyclic-4cd-greedy".
    shrinking : bool, default=True
        Skip rows whose alpha stays at a bound until the other rows have converged. The paper does
        not.
    start : {"mean", "first"}, default="mean"
        Rows with a positive alpha at the start. "mean": the rows with the lowest projections on
        the mean of all rows; for the ball, the rows farthest from the mean. "first": the first
        rows, as in the paper.
    tol : float, default=1e-05
        The descent ends when no pair of rows violates optimality by more than
        ``tol |f| / (nu n)``. The objective f is then within a relative `tol` of the optimum.
    max_iter : int, default=10000
        Maximum number of outer steps, or of the cyclic solvers' sweeps.
    compute_gap : bool, default=False
        Compute ``duality_gap_``.
    memory_rows : int or None, default=None
        Rows that a job solves in memory, at least 1000. For a larger table, a job solves a sample
        of this size, then makes outer steps of one pass over the table each. None: as many rows as
        fit in 256 MiB. `fit` ignores this parameter.
    verbose : int, default=0
        If 1 or more, `fit` prints the duration of each phase.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows in the cyclic solvers.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d), float64
        w of the paper's problem: w of LIBLINEAR or `sklearn.svm.OneClassSVM`, divided by nu n.
    offset_ : float
        rho, divided by nu n as well: ``decision_function(X) = X @ coef_[0] - offset_``.
    support_ : ndarray of shape (n_SV,), int64
        Numbers of the rows with a positive alpha.
    dual_coef_ : ndarray of shape (1, n_SV), float64
        Alpha of these rows, at most 1 / (nu n); the sum is 1.
    objective_ : float
        ``1/2 |w|^2``, the optimum of the paper's (3.14).
    violation_ : float
        The largest difference of w.x between a row whose alpha can decrease and a row whose alpha
        can increase.
    duality_gap_ : float
        The primal minus the dual objective; only with `compute_gap`.
    n_iter_ : int
        Outer steps, at least 1.
    notes_ : list of str
        Remarks on the answer; also issued as warnings by `fit`.

    Notes
    -----
    With nu = 1, every offset from the largest w.x upwards is optimal, and `offset_` is the
    smallest. `published` has the settings of Chou, Lin and Lin (2020): Algorithm 5 with R = 0.1, no
    shrinking, and the start of section 4.1. The paper has nu = 0.1. The page "Departures from the
    papers" lists what is different.

    See Also
    --------
    LinearSVDD : The smallest ball around most rows; needs no origin.
    sklearn.svm.OneClassSVM : The same problem with kernels.

    References
    ----------
    Chou, Lin and Lin (2020), "Dual Coordinate-Descent Methods for Linear One-class SVM and SVDD";
    Schoelkopf et al. (2001), "Estimating the Support of a High-dimensional Distribution".

    Examples
    --------
    >>> import numpy as np
    >>> from distsvc import LinearOneClassSVM
    >>> X = np.random.default_rng(0).poisson(5.0, size=(200, 20)).astype(float)
    >>> model = LinearOneClassSVM(nu=0.05).fit(X)
    >>> model.predict([X.mean(axis=0), np.zeros(20)])
    array([ 1, -1])

    """

    _algorithm = "linear-one-class"
    _engine_type = OneClassEngine

    nu: float = 0.5

    def _publish(self, engine: LinearEngine) -> None:
        super()._publish(engine)
        self.coef_ = self._weights[None, :]


@dataclass(eq=False, repr=False)
class LinearSVDD(_LinearEstimator):
    """The smallest ball that contains most rows.

    Support vector data description (Tax and Duin 2004) without a kernel, solved in the dual by
    coordinate descent (Chou, Lin and Lin 2020). The ball depends on the columns' scales, not on
    the origin.

    Parameters
    ----------
    nu : float in (0, 1] or None, default=None
        Upper bound on the share of rows outside: C = 1 / (nu n). If `nu` and C are None, `nu` is
        0.5, or 0.05 in a job.
    C : float or None, default=None
        The paper's trade-off in R^2 + C sum xi_i, at least 1 / n, in place of `nu`. If C is 1 or
        more, the ball contains every row.
    solver : str, default="greedy-sweeps"
    share : float in (0, 1] or None, default=None
    block_size : int, default=4
    inner_iterations : int, default=1
    shrinking : bool, default=True
    start : {"mean", "first"}, default="mean"
    tol : float, default=1e-05
    max_iter : int, default=10000
    compute_gap : bool, default=False
    memory_rows : int or None, default=None
    verbose : int, default=0
    random_state : int, RandomState or None, default=None
        As in `LinearOneClassSVM`, like all parameters from `solver` on.

    Attributes
    ----------
    center_ : ndarray of shape (d,), float64
        a, the centre of the ball.
    radius_ : float
        R, the radius.
    offset_ : float
        -R^2: ``decision_function(X) = score_samples(X) - offset_ = R^2 - |x - a|^2``.
    support_, dual_coef_, duality_gap_, n_iter_, notes_
        As in `LinearOneClassSVM`.
    objective_ : float
        The optimum of the paper's (3.16): minus the mean squared distance from a, weighted by
        alpha.
    violation_ : float
        The largest difference of ``|x - a|^2`` between a row whose alpha can increase and a row
        whose alpha can decrease.

    Notes
    -----
    Dense rows are centred first, which loses fewer digits. If all alpha are at a bound, R^2 is
    midway between the farthest row inside and the nearest outside. With nu = 1, every R^2 up to the
    nearest row's squared distance from a is optimal, and the largest is used. `published` has the
    settings that it has in `LinearOneClassSVM`.

    See Also
    --------
    LinearOneClassSVM : A hyperplane that separates the rows from the origin.

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

    _algorithm = "linear-svdd"
    _engine_type = BallEngine

    nu: float | None = None
    _: KW_ONLY
    C: float | None = None

    def _publish(self, engine: LinearEngine) -> None:
        super()._publish(engine)
        self.center_, self.radius_ = self._weights, radius(self.offset_)


def _checked(
    estimator: BaseEstimator, X: TableLike, **options: bool | int
) -> np.ndarray | sparse.csr_matrix:
    """Return X as float64: a sparse X in CSR without repeated columns, a dense X in C order."""
    if sparse.issparse(X) and X.format in ("csr", "csc") and X.indices.size:
        size, what = (X.shape[1], "column") if X.format == "csr" else (X.shape[0], "row")
        least, most = int(X.indices.min()), int(X.indices.max())
        if least < 0 or most >= size:
            wrong = least if least < 0 else most
            raise UnusableRowsError(
                f"the indices of the sparse matrix must lie in [0, {size}), found {what} {wrong}"
            )
    X = check_rows(estimator, X, accept_sparse="csr", dtype=np.float64, order="C", **options)
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
