"""Documentation of methods that several estimators have, each with its own implementation."""

import warnings
from typing import Any, ClassVar, Self

from distsvc.job.parameters import published
from distsvc.models.bases.validation import LazyValues, TableLike


class FitsRows:
    """Base of all estimators."""

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn from the rows of X.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, float32 or float64. Baselines and linear models take rows in memory; linear models
            also take sparse matrices. Other estimators also take a table that is read block by
            block, several times: a dask array or dataframe, a Zarr array, an Arrow reader, or a
            frame of polars, pandas or DuckDB.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
            The estimator. ``labels_`` are as lazy as X: a dask array for rows of dask.

        Raises
        ------
        ValueError
            X has infinite values or too few rows, or a parameter is out of range. X has NaN or
            text, unless the class takes missing values and categories.

        Examples
        --------
        >>> from distsvc import SupportVectorClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> SupportVectorClustering(random_state=0).fit(X).n_clusters_
        3

        """
        raise NotImplementedError


class ScoresRows:
    """Base of estimators that score rows."""

    def score_samples(self, X: TableLike) -> LazyValues:
        """Return a score of every row: the higher, the farther inside its cluster.

        The docstring of the class defines the score.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, as `fit` takes them.

        Returns
        -------
        scores : ndarray of shape (n,), float64
            As lazy as X is.

        Examples
        --------
        >>> from distsvc import LinearSVDD
        >>> model = LinearSVDD(nu=0.5).fit([[0.0], [1.0], [2.0], [3.0]])
        >>> inside, outside = model.score_samples([[1.5], [10.0]])
        >>> inside > outside
        np.True_

        """
        raise NotImplementedError


class DecidesRows(ScoresRows):
    """Base of estimators whose rows lie inside or outside a boundary."""

    def decision_function(self, X: TableLike) -> LazyValues:
        """Return the score of every row, negative outside all clusters.

        The docstring of the class defines the score's unit.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, as `fit` takes them.

        Returns
        -------
        scores : ndarray of shape (n,), float64
            As lazy as X is.

        Examples
        --------
        >>> from distsvc import LinearSVDD
        >>> model = LinearSVDD(nu=0.5).fit([[0.0], [1.0], [2.0], [3.0]])
        >>> model.decision_function([[1.5], [10.0]]) > 0
        array([ True, False])

        """
        raise NotImplementedError


class StreamEstimator:
    """Estimator that also learns from a stream, one block of rows at a time."""

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        """Learn from the next rows of a stream, which should come in random order.

        The notes of the class describe what the first block decides. A class that can't go on from
        `fit` begins anew, with a warning.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The next rows, in memory.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : object
            The estimator.

        Raises
        ------
        ValueError
            X has infinite values, or a parameter is out of range or needs all rows at once. X has
            NaN, unless the class takes missing values.

        Examples
        --------
        >>> from distsvc.baselines import BICO
        >>> model = BICO(n_clusters=2).partial_fit([[0.0], [8.0]]).partial_fit([[9.0], [9.5]])
        >>> model.predict([[1.0], [10.0]])
        array([1, 0], dtype=int32)

        """
        raise NotImplementedError

    def _warn_of_new_beginning(self) -> None:
        """Warn that `partial_fit` drops what `fit` learned."""
        warnings.warn(
            "partial_fit discards the model of fit and starts over. To learn from more rows, call "
            "fit with all rows. To keep the model of fit, use a new estimator for the stream, such "
            "as sklearn.base.clone(model)",
            UserWarning,
            stacklevel=3,
        )


class PublishedSettings:
    """Base of estimators whose paper prints its settings."""

    _algorithm: ClassVar[str]
    """Name of the algorithm in a job file."""

    @classmethod
    def published(cls, **parameters: Any) -> Self:
        """Return an estimator with exactly the settings of its paper.

        The notes of the class list the settings, with paper and section.

        Parameters
        ----------
        **parameters
            Parameters that the paper does not set, and settings to change.

        Returns
        -------
        estimator : object
            Not fitted.

        Examples
        --------
        >>> from distsvc import IncrementalMDH
        >>> IncrementalMDH.published(n_clusters=3).alpha
        0.1

        """
        return cls(**published(cls._algorithm, parameters))
