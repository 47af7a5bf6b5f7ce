"""What an estimator says of the rows of its fit, found when it is first asked for.

How sure each row is of its cluster, and how far out it is, takes as long as some fits do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from distsvc.models.rows.threads import of_blocks

LAZY_ATTRIBUTES = ("probabilities_", "outlier_scores_")

N_EXEMPLARS = 5
"""Maximum number of exemplars of a cluster."""

OfRows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class HeldRows:
    """Rows (n, d) of a fit, which nobody changes, and what finds the values (m,) of rows (m, d).

    `sure` finds the shares of rows in their own clusters, `far` how far out they are.
    """

    rows: np.ndarray
    sure: OfRows
    far: OfRows


class DescribesRows(BaseEstimator):
    """An estimator that describes the rows of its `fit`.

    These are `probabilities_`, `outlier_scores_` and `exemplars_`.
    It holds the rows until both were asked for, or it is pickled or copied.
    """

    n_jobs: int | None
    labels_: Any
    _held: HeldRows | None = None

    @cached_property
    def probabilities_(self) -> Any:
        """The share of its own cluster in every row of `fit`; found when it is first asked for."""
        return self._of_held("probabilities_")

    @cached_property
    def outlier_scores_(self) -> Any:
        """How far out every row of `fit` is; found when it is first asked for."""
        return self._of_held("outlier_scores_")

    @property
    def exemplars_(self) -> list[np.ndarray]:
        """The rows of `fit` that are deepest inside each cluster: their numbers, by cluster."""
        labels, scores = np.asarray(self.labels_), np.asarray(self.outlier_scores_)
        members = (np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1))
        return [rows[np.argsort(scores[rows], kind="stable")[:N_EXEMPLARS]] for rows in members]

    def _hold(self, rows: np.ndarray, sure: OfRows, far: OfRows) -> None:
        """Hold rows (n, d) to find their values when asked; those of an earlier fit are forgotten.

        `sure` and `far` are as of `HeldRows`.
        """
        for name in LAZY_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._held = HeldRows(rows, sure, far)

    def _forget_rows(self) -> None:
        """Forget what is known of the rows of `fit`, which more rows make untrue."""
        for name in ("labels_", "_held", *LAZY_ATTRIBUTES):
            self.__dict__.pop(name, None)

    def _of_held(self, name: str) -> np.ndarray:
        held = self._held
        if held is None:
            raise AttributeError(f"{type(self).__name__} has {name} after fit")
        of_rows = held.sure if name == "probabilities_" else held.far
        found = of_blocks(of_rows, held.rows, self.n_jobs)
        if all(other in self.__dict__ for other in LAZY_ATTRIBUTES if other != name):
            self._held = None
        return found

    def __getstate__(self) -> Any:
        """Return what is pickled: the values of the rows, and not the rows."""
        if self._held is not None:
            for name in LAZY_ATTRIBUTES:
                getattr(self, name)
        return super().__getstate__()
