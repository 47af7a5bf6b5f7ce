"""Base of estimators for tables with categories and missing values."""

import numpy as np
from sklearn.utils import Tags

from distsvc.inputs.given import rows_of
from distsvc.inputs.mixed import Levels, mixed_rows
from distsvc.inputs.rows import Reading
from distsvc.models.bases.passes import OutlierEstimator
from distsvc.models.bases.validation import TableLike
from distsvc.models.bases.values import Values


class MixedClusterEstimator(OutlierEstimator):
    """Base of estimators that also take tables with categories and missing values."""

    n_jobs: int | None

    @property
    def _allowed(self) -> dict[str, str]:
        return {"ensure_all_finite": "allow-nan"}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _as_numbers(self, X: TableLike, reset: bool) -> TableLike:
        """Convert a table X to rows (n, d) of numbers, in which codes stand for categories.

        With `reset`, as in `fit`, the table's columns and categories are stored. Without it, X must
        have the stored columns, and its categories get the stored codes. X is returned unchanged if
        it is an array, if it is not in memory, or if the table of `fit` is numeric and complete.
        """
        if reset:
            self._levels: tuple[Levels | None, ...] | None = None
            self._names: tuple[str, ...] | None = None
        if self._levels is None and not reset:
            return X
        source = rows_of(X, Reading())
        if source is None or not source.in_memory or isinstance(X, np.ndarray):
            return X
        mixed = mixed_rows(X, self._levels, self._names)
        if reset:
            if not mixed.nominal.any() and not np.isnan(mixed.rows).any():
                return X
            self._levels, self._names = mixed.levels, mixed.names
        return mixed.rows

    def _nominal(self, d: int) -> np.ndarray:
        """Return a mask (d,) bool of the columns that `_as_numbers` turned into codes."""
        levels = self._levels or (None,) * d
        return np.array([of is not None for of in levels], bool)

    def _values(self, column: str) -> Values:
        engine = self._engine
        return Values(engine.rule, engine.origin, column, columns=engine.columns)
