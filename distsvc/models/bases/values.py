"""Functions that compute labels, scores and shares of rows, and lazy attributes of estimators.

Probabilities and outlier scores can take as long as a fit, so they are computed on first access.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from distsvc.inputs.rows import RowValues
from distsvc.models.bases.interface import FitsRows
from distsvc.models.bases.validation import LazyValues, TableLike
from distsvc.models.rows.scaling import check_length
from distsvc.models.rows.threads import map_blocks
from distsvc.models.rules.membership import Membership
from distsvc.models.rules.rule import Rule

DTYPES = {
    "label": np.int32,
    "score": np.float64,
    "share": np.float32,
    "probability": np.float32,
    "outlier_score": np.float64,
}


class ModelledColumns(Protocol):
    """A model of columns, which turns raw rows (n, d) into prepared rows (n, D)."""

    @property
    def firsts(self) -> np.ndarray:
        """Index (d,) int64 of the first prepared column of each raw column."""

    def centred(self, X: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return prepared rows (n, D) float32, relative to `origin` (D,) float64."""


@dataclass(frozen=True)
class Values:
    """A picklable function that computes labels, scores or shares of rows by a rule.

    `column` is a key of `DTYPES`: ``label``, ``score``, ``share`` (the shares of all clusters),
    ``probability`` (the share of the row's own cluster) or ``outlier_score`` (minus the score).
    """

    rule: Rule
    centre: np.ndarray  # (D,) float64, subtracted from rows
    column: str
    least: float = -np.inf  # rows with a lower score have label -1 and probability 0
    columns: ModelledColumns | None = None  # model that prepares raw rows first

    @property
    def answer(self) -> RowValues:
        clusters = range(self.rule.n_clusters) if self.column == "share" else None
        return RowValues(self.column, DTYPES[self.column], clusters)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        check_length(X)
        return self.of_centred(self.prepared(X))

    def firsts(self, d: int) -> np.ndarray:
        return np.arange(d) if self.columns is None else self.columns.firsts

    def prepared(self, X: np.ndarray) -> np.ndarray:
        """Convert raw rows X (n, d) to the rows (n, D) that the rule takes."""
        if self.columns is not None:
            return self.columns.centred(X, self.centre)
        dtype = np.float64 if self.rule.float64 else np.float32
        return np.ascontiguousarray(X - self.centre, dtype)

    def of_centred(self, Z: np.ndarray) -> np.ndarray:
        """Return the values named by `column` for rows Z (n, D), which `prepared` returned."""
        if self.column == "share":
            return self.rule.shares(Z)
        if self.column in ("score", "outlier_score"):
            scores = self.rule.scores(Z).astype(np.float64)
            return scores if self.column == "score" else -scores
        if self.column == "probability":
            own = Membership.of(self.rule, Z, self.rule.labels(Z), most=0).own
            if self.least > -np.inf:
                own[self.rule.scores(Z) < self.least] = 0.0
            return own
        if self.least == -np.inf:
            return self.rule.labels(Z)
        found = self.rule.label(Z)
        return np.where(found["score"] < self.least, np.int32(-1), found["label"])


LAZY_ATTRIBUTES = {"probabilities_": "probability", "outlier_scores_": "outlier_score"}
"""Attributes that are computed on first access, and the `Values.column` that each contains."""


class DescribesRows(FitsRows, BaseEstimator):
    """Estimator with `probabilities_` and `outlier_scores_` of its rows, computed on first access.

    The rows of `fit` are stored until both are computed, or the estimator is pickled or copied.
    """

    n_jobs: int | None
    labels_: LazyValues
    _held: np.ndarray | None = None  # prepared rows of `fit`, while attributes are missing

    @cached_property
    def probabilities_(self) -> LazyValues:
        return self._of_held("probabilities_")

    @cached_property
    def outlier_scores_(self) -> LazyValues:
        return self._of_held("outlier_scores_")

    @property
    def exemplars_(self) -> list[np.ndarray]:
        """Indices of up to five rows of `fit` for each cluster: its rows of the highest scores."""
        labels, scores = np.asarray(self.labels_), np.asarray(self.outlier_scores_)
        members = (np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1))
        return [rows[np.argsort(scores[rows], kind="stable")[:5]] for rows in members]

    def predict(self, X: TableLike) -> LazyValues:
        """Return the cluster of every row.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, as `fit` takes them.

        Returns
        -------
        labels : ndarray of shape (n,), int32
            As lazy as X: a dask array for rows of dask.

        Examples
        --------
        >>> from distsvc import SupportVectorClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = SupportVectorClustering(random_state=0).fit(X)
        >>> first, second = model.predict([[0.1, 0.2], [6.1, 0.2]])
        >>> bool(first == second)
        False

        """
        raise NotImplementedError

    def cut(self, n_clusters: int, X: TableLike = None) -> LazyValues:
        """Return the labels for another number of clusters, without learning again.

        Baselines merge their clusters: centres by Ward's method, and a tree by undoing its latest
        splits.

        Parameters
        ----------
        n_clusters : int
            Number of clusters. If there are too few rows, or a baseline has too few clusters, there
            are fewer clusters and a warning.
        X : array-like or table of shape (n, d) or None, default=None
            Rows to label, as `fit` takes them; None for the rows of `fit`.

        Returns
        -------
        labels : ndarray of shape (n,), int32
            As lazy as X is.

        Raises
        ------
        ValueError
            X is not given, and the rows of `fit` were read block by block.

        Examples
        --------
        >>> from distsvc.baselines import KMeans
        >>> KMeans(n_clusters=3).fit([[0.0], [1.0], [8.0], [9.0], [9.5]]).cut(2)
        array([1, 1, 0, 0, 0], dtype=int32)

        """
        raise NotImplementedError

    def _settle(self) -> None:
        """Raise NotFittedError before a fit. After `partial_fit`, find clusters if necessary."""
        check_is_fitted(self, "labels_")

    def _values(self, column: str) -> Values:
        raise NotImplementedError

    def _hold(self, rows: np.ndarray) -> None:
        """Store prepared rows (n, d), and drop attributes of earlier rows."""
        for name in LAZY_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._held = rows

    def _forget(self, *names: str) -> None:
        """Delete the attributes that describe the rows of `fit`, and the attributes `names`."""
        for name in ("labels_", "_held", "_rows", *LAZY_ATTRIBUTES, *names):
            self.__dict__.pop(name, None)

    def _of_held(self, name: str) -> np.ndarray:
        if self._held is None:
            raise AttributeError(f"{type(self).__name__} has {name} only after fit")
        values = self._values(LAZY_ATTRIBUTES[name])
        found = map_blocks(values.of_centred, self._held, self.n_jobs)
        if all(other in self.__dict__ for other in LAZY_ATTRIBUTES if other != name):
            self._held = None
        return found

    def __getstate__(self) -> object:
        """Compute the lazy attributes, and return the state to pickle, without the rows."""
        if self._held is not None:
            for name in LAZY_ATTRIBUTES:
                getattr(self, name)
        return super().__getstate__()
