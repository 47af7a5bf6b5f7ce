"""Bases of estimators that also learn from a stream of blocks, or have settings of a paper."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from distsvc.job.parameters import published
from distsvc.models.bases.validation import TableLike


class StreamEstimator:
    """Estimator that also learns from a stream, one block of rows at a time."""

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        """Learn from the next rows of a stream.

        The notes of the class describe what the first block decides. Rows should come in random
        order.

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
            For infinity in X, or a parameter that is out of range or needs all rows at once. For
            NaN, unless the class takes missing values.

        Examples
        --------
        >>> from distsvc import MixtureClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(2000, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = MixtureClustering(random_state=0)
        >>> for block in (X[:1000], X[1000:]):
        ...     model = model.partial_fit(block)
        >>> model.n_clusters_
        3

        """
        self._add_block(X)
        return self

    def _add_block(self, X: TableLike) -> None:
        """Learn from a block of rows (n, d), not checked yet."""
        raise NotImplementedError


class PublishedSettings:
    """The base of estimators whose paper prints its settings."""

    _algorithm: ClassVar[str]
    """Name of the algorithm in a job file."""

    @classmethod
    def published(cls, **parameters: Any) -> Self:
        """Return an estimator with exactly the settings of its paper.

        The notes of the class list them, with paper and section.

        Parameters
        ----------
        **parameters
            Parameters without a value in the paper, and settings to change.

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
