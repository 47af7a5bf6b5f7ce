"""Fuzzy c-means by alternating optimisation.

Bezdek, "Pattern recognition with fuzzy objective function algorithms", 1981.

| the book's | here |
|---|---|
| c, m | ``n_clusters``, ``m`` |
| u_ik, the membership of row k in cluster i | ``memberships_[k, i]`` |
| v_i | ``cluster_centers_[i]`` |
| J_m(U, v), the sum of u_ik^m times the squared distance of x_k and v_i | ``objective_`` |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from distsvc.errors import ParameterError
from distsvc.job.parameters import RandomState
from distsvc.models.baselines.estimator import Baseline
from distsvc.models.baselines.merging import merged_centres
from distsvc.models.baselines.rules import Centres
from distsvc.models.rows.checkpoints import MAX_STATE_COUNT, NO_CHECKPOINT, State
from distsvc.models.rows.sampling import seed_of
from distsvc.models.rows.threads import of_blocks, on_threads
from distsvc.models.rows.validation import validated
from distsvc.models.rules.fields import FLAG, ArrayField, Facts, Field, check_fields, whole


class Alternation(NamedTuple):
    """The end of the iterations from one start."""

    centres: np.ndarray
    memberships: np.ndarray
    objectives: np.ndarray
    converged: bool


SEARCH_FIELDS: dict[str, Field] = {
    "n_iter": whole(0, MAX_STATE_COUNT),
    "n_ended": whole(0, MAX_STATE_COUNT),
    "key": ArrayField("uint32", "624"),
    "position": whole(0, 624),
    "centres": ArrayField("float64", "k d"),
    "objectives": ArrayField("float64", "n", may_be_empty=True),
}
BEST: dict[str, Field] = {
    "best_centres": ArrayField("float64", "k d"),
    "best_objectives": ArrayField("float64", "m"),
    "best_converged": FLAG,
}
"""The state of a `Search`: always, and once a start has ended."""


@dataclass
class Search:
    """Starts so far: what draws them, those that ended and their iterations, the one under way."""

    random: np.random.RandomState
    n_ended: int = 0
    n_iter: int = 0
    best: Alternation | None = None
    centres: np.ndarray | None = None
    objectives: Sequence[float] = ()

    def end(self, run: Alternation) -> None:
        """Take the run of a start, and go on to the next."""
        if self.best is None or run.objectives[-1] < self.best.objectives[-1]:
            self.best = run
        self.n_ended, self.n_iter = self.n_ended + 1, self.n_iter + len(run.objectives)
        self.centres, self.objectives = None, ()

    def state(self) -> State:
        """Return facts and arrays while a start is under way; `restored` takes them back."""
        assert self.centres is not None
        _, key, position, *_ = self.random.get_state()
        facts: Facts = {"n_ended": self.n_ended, "n_iter": self.n_iter, "position": position}
        arrays = {"key": np.asarray(key), "centres": self.centres}
        arrays["objectives"] = np.array(self.objectives, np.float64)
        if self.best is not None:
            facts["best_converged"] = self.best.converged
            arrays["best_centres"] = self.best.centres
            arrays["best_objectives"] = self.best.objectives
        return facts, arrays

    @classmethod
    def restored(
        cls, X: np.ndarray, k: int, m: float, facts: Facts, arrays: dict[str, np.ndarray]
    ) -> Search:
        """Return a search on rows X (n, d); `DataError` for what is no state of one."""
        found = {**facts, **arrays}
        check_fields(
            SEARCH_FIELDS | BEST if found.get("n_ended") else SEARCH_FIELDS,
            found,
            {"k": k, "d": X.shape[1]},
        )
        random, best = np.random.RandomState(), None
        random.set_state(("MT19937", arrays["key"], facts["position"], 0, 0.0))
        if facts["n_ended"]:
            centres = arrays["best_centres"]
            memberships = memberships_of(squared_distances(X, centres), m)
            best = Alternation(
                centres, memberships, arrays["best_objectives"], facts["best_converged"]
            )
        started = arrays["centres"], arrays["objectives"].tolist()
        return cls(random, facts["n_ended"], facts["n_iter"], best, *started)


class FuzzyCMeans(Baseline):
    """k-means with rows that belong to every cluster in part.

    Memberships that are best for the centres, and centres that are best for the memberships, are
    found in turns. Neither step raises the objective, the sum of u^m times squared distance.

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters wanted.
    m : float, default=2.0
        The fuzzifier, above 1. Near 1 memberships are 0 or 1, as those of k-means; for large m all
        are 1 / k, and centres can all end at the mean.
    tol : float, default=0.0001
        Iterations end when no membership has changed by more.
    max_iter : int, default=300
        Most iterations; a warning says when they were not enough.
    n_init : int, default=3
        Starts, from rows that k-means++ draws. The one of the lowest objective is kept.
    n_jobs : int or None, default=None
        Threads, for the starts; as in `SupportVectorClustering`.
    random_state : int, RandomState or None, default=None
        Decides the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        The cluster of the highest membership, which is that of the nearest centre.
    probabilities_ : ndarray of shape (n,), float32
        The highest membership of every row.
    outlier_scores_ : ndarray of shape (n,), float64
        The distance of every row to the nearest hyperplane midway to another centre, with its sign
        turned: high near another cluster. No row is outside, however far it is from all others.
    memberships_ : ndarray of shape (n, k), float64
        Of every row, with the sum 1.
    cluster_centers_ : ndarray of shape (k, d), float64
    objective_ : float
        Of ``memberships_`` and ``cluster_centers_``.
    objectives_ : ndarray of shape (n_iter,), float64
        After every iteration of the start that was kept; never rising, but for rounding.
    n_iter_ : int

    Notes
    -----
    A row that coincides with a centre belongs to it alone, or in equal parts to all that it
    coincides with. A centre to which no row belongs stays where it is.

    See Also
    --------
    sklearn.cluster.KMeans : Rows that belong to one cluster each.

    References
    ----------
    Bezdek (1981), "Pattern Recognition with Fuzzy Objective Function Algorithms".

    Examples
    --------
    >>> from distsvc.baselines import FuzzyCMeans
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> model = FuzzyCMeans(n_clusters=3, random_state=0).fit(X)
    >>> model.memberships_.shape
    (300, 3)

    """

    algorithm = "fuzzy-c-means"
    _fitted_attribute = "cluster_centers_"
    cluster_centers_: np.ndarray

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        m: float = 2.0,
        tol: float = 1e-4,
        max_iter: int = 300,
        n_init: int = 3,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_clusters = n_clusters
        self.m = m
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, X: np.ndarray) -> None:
        if len(X) < self.n_clusters:
            raise ParameterError(f"n_samples={len(X)} should be >= n_clusters={self.n_clusters}")
        X = np.ascontiguousarray(X, np.float64)
        seed = seed_of(self.random_state)
        order = self._order(len(X), seed)
        best = self._best_run(X[order], seed)
        if not best.converged:
            text = f"memberships still change by more than tol after {self.max_iter} iterations"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        self.cluster_centers_, self.memberships_ = best.centres, np.empty_like(best.memberships)
        self.memberships_[order] = best.memberships
        self.objectives_ = best.objectives
        self.objective_, self.n_iter_ = float(best.objectives[-1]), len(best.objectives)
        self.labels_ = self.memberships_.argmax(axis=1).astype(np.int32)
        self._hold_rows(X)
        self.probabilities_ = self.memberships_.max(axis=1).astype(np.float32)

    def memberships(self, X: Any) -> np.ndarray:
        """Return how much of every row each cluster has; a row's memberships add up to 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows in memory.

        Returns
        -------
        memberships : ndarray of shape (n, k), float64

        See Also
        --------
        predict : The cluster of the highest membership.

        Examples
        --------
        >>> from distsvc.baselines import FuzzyCMeans
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = FuzzyCMeans(n_clusters=3, random_state=0).fit(X)
        >>> model.memberships([[3.0, 0.0]]).sum().round(6)
        np.float64(1.0)

        """
        check_is_fitted(self)
        return self._memberships(validated(self, X, reset=False))

    def _memberships(self, X: np.ndarray) -> np.ndarray:
        centres, m = self.cluster_centers_, float(self.m)
        return of_blocks(
            lambda block: memberships_of(squared_distances(block, centres), m), X, self.n_jobs
        )

    def _labels(self, X: np.ndarray) -> np.ndarray:
        return self._memberships(X).argmax(axis=1).astype(np.int32)

    def _best_run(self, X: np.ndarray, seed: int) -> Alternation:
        """Return the run of the lowest objective."""
        k, m = int(self.n_clusters), float(self.m)
        search = Search(np.random.RandomState(seed))
        search = self._checkpoint.last(partial(Search.restored, X, k, m)) or search

        def watch(centres: np.ndarray, objectives: list[float]) -> None:
            search.centres, search.objectives = centres, objectives
            self._checkpoint.keep(search.n_iter + len(objectives), search.state)

        def run(start: np.ndarray, *watched: Any) -> Alternation:
            return alternate(X, start, m, float(self.tol), int(self.max_iter), *watched)

        def drawn() -> np.ndarray:
            return kmeans_plusplus(X, k, random_state=search.random)[0]

        if self.n_jobs != 1 and self._checkpoint is NO_CHECKPOINT:
            starts = [drawn() for _ in range(self.n_init)]
            for found in on_threads(run, starts, self.n_jobs):
                search.end(found)
        while search.n_ended < self.n_init:
            start = drawn() if search.centres is None else search.centres
            search.end(run(start, search.objectives, watch))
        assert search.best is not None
        return search.best

    def _rule(self) -> Centres:
        return Centres.by_size(self.cluster_centers_, self.labels_)

    def _groups(self, k: int) -> np.ndarray:
        return merged_centres(self.cluster_centers_, self.memberships_.sum(axis=0), k)


def squared_distances(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the squared distances (n, k) of rows and centres, from differences: no cancelling."""
    return cdist(np.ascontiguousarray(X, np.float64), centres, "sqeuclidean")


def memberships_of(squared: np.ndarray, m: float) -> np.ndarray:
    """Return the memberships (n, k) that are best for squared distances (n, k).

    u_ik is proportional to (least squared distance / squared distance)^(1 / (m - 1)), which is at
    most 1 however near m is to 1.
    """
    least = squared.min(axis=1, keepdims=True)
    nearness = np.divide(least, squared, out=np.ones_like(squared), where=squared > 0.0)
    nearness **= 1.0 / (m - 1.0)
    return nearness / nearness.sum(axis=1, keepdims=True)


def best_centres(X: np.ndarray, memberships: np.ndarray, m: float, old: np.ndarray) -> np.ndarray:
    """Return the centres (k, d) that are best for memberships (n, k): means weighted by u^m."""
    weights = memberships**m
    total = weights.sum(axis=0)[:, np.newaxis]
    return np.divide(weights.T @ X, total, out=old.copy(), where=total > 0.0)


def alternate(
    X: np.ndarray,
    centres: np.ndarray,
    m: float,
    tol: float,
    max_iter: int,
    begun: Sequence[float] = (),
    watch: Callable[[np.ndarray, list[float]], None] = lambda centres, objectives: None,
) -> Alternation:
    """Iterate from centres (k, d) on rows X (n, d), float64.

    `begun` are the objectives of the iterations that led to these centres; ``watch`` is told both
    after each further one but the last.
    """
    memberships = memberships_of(squared_distances(X, centres), m)
    objectives = list(begun)
    converged = False
    while not converged and len(objectives) < max_iter:
        centres = best_centres(X, memberships, m, centres)
        squared = squared_distances(X, centres)
        before, memberships = memberships, memberships_of(squared, m)
        objectives.append(float((memberships**m * squared).sum()))
        converged = bool(np.abs(memberships - before).max() <= tol)
        if not converged:
            watch(centres, objectives)
    return Alternation(centres, memberships, np.array(objectives), converged)
