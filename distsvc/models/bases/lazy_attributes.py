"""Attributes of an estimator about the rows of its fit, computed on first access.

Probabilities and outlier scores take as long as some fits do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator

from distsvc.models.bases.validation import LazyValues, TableLike
from distsvc.models.rows.threads import map_blocks

LAZY_ATTRIBUTES = ("probabilities_", "outlier_scores_")
"""Names of the attributes that are computed on first access."""


OfRows = Callable[[np.ndarray], np.ndarray]


class FitsRows:
    """Base of all estimators."""

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn from the rows of X.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, float32 or float64. Baselines and linear models take rows in memory; linear models
            also take sparse matrices. Other estimators also take a table that is read block by
            block, several times, such as a dask array or dataframe, a Zarr array, an Arrow reader,
            or a frame of polars, pandas or DuckDB.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
            The estimator. ``labels_`` are as lazy as X: a dask array for rows of dask.

        Raises
        ------
        ValueError
            For infinity in X, too few rows, or a parameter out of range. For NaN or columns
            that are no numbers, unless the class takes missing values and categories.

        Examples
        --------
        >>> from distsvc import SupportVectorClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> SupportVectorClustering(random_state=0).fit(X).n_clusters_
        3

        """
        raise NotImplementedError


class DescribesRows(FitsRows, BaseEstimator):
    """Estimator with lazy attributes of the rows of its `fit`.

    These are `probabilities_`, `outlier_scores_` and `exemplars_`. The rows are stored until both
    of the first two are computed, or the estimator is pickled or copied.
    """

    n_jobs: int | None
    labels_: LazyValues
    _held: tuple[np.ndarray, dict[str, OfRows]] | None = None  # rows, functions of attributes

    @cached_property
    def probabilities_(self) -> LazyValues:
        """Membership of each row of `fit` in its own cluster, computed on first access."""
        return self._of_held("probabilities_")

    @cached_property
    def outlier_scores_(self) -> LazyValues:
        """Outlier score of every row of `fit`, computed on first access."""
        return self._of_held("outlier_scores_")

    @property
    def exemplars_(self) -> list[np.ndarray]:
        """Indices of the rows of `fit` deepest inside each cluster, by cluster."""
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

        Baselines merge clusters: centres by Ward's method, the leaves of a tree by its later
        splits.

        Parameters
        ----------
        n_clusters : int
            Clusters wanted. There are fewer if there are too few rows, or clusters of a baseline.
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
        >>> from distsvc import MixtureClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = MixtureClustering(random_state=0).fit(X)
        >>> len(set(model.cut(2).tolist()))
        2

        """
        raise NotImplementedError

    def _hold(self, rows: np.ndarray, *functions: OfRows) -> None:
        """Store rows (n, d) and the functions of `LAZY_ATTRIBUTES`, and drop earlier values."""
        for name in LAZY_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._held = rows, dict(zip(LAZY_ATTRIBUTES, functions, strict=True))

    def _forget_rows(self) -> None:
        """Drop all values of the rows of `fit`; they are invalid after another fit or block."""
        for name in ("labels_", "_held", "_rows", *LAZY_ATTRIBUTES):
            self.__dict__.pop(name, None)

    def _of_held(self, name: str) -> np.ndarray:
        if self._held is None:
            raise AttributeError(f"{type(self).__name__} has {name} only after fit")
        rows, functions = self._held
        found = map_blocks(functions[name], rows, self.n_jobs)
        if all(other in self.__dict__ for other in LAZY_ATTRIBUTES if other != name):
            self._held = None
        return found

    def __getstate__(self) -> object:
        """Return the state to pickle: the values of the rows without the rows."""
        if self._held is not None:
            for name in LAZY_ATTRIBUTES:
                getattr(self, name)
        return super().__getstate__()
