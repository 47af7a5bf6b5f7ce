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
    """Estimator whose engine models the columns of a table."""

    n_jobs: int | None

    @property
    def _allowed(self) -> dict[str, str]:
        return {"ensure_all_finite": "allow-nan"}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _as_numbers(self, X: TableLike, reset: bool) -> TableLike:
        """Return a table X as rows (n, d) of numbers and codes of categories.

        With `reset`, as in `fit`, the columns and categories are stored. Later tables need these
        columns, and get the codes of these categories. X is returned unchanged if it is an array,
        if it is not in memory, or if the table of `fit` has no categories and no missing values.
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
