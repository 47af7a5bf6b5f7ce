"""Estimators with the settings of a paper."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from distsvc.job.parameters import published


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
