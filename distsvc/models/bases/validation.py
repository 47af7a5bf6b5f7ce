"""Checks of an estimator's rows: scikit-learn's checks, and a maximum norm of each row."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from distsvc.errors import UnusableRowsError
from distsvc.inputs.given import is_elsewhere
from distsvc.inputs.rows import check_array
from distsvc.models.rows.scaling import check_length

TableLike: TypeAlias = Any
"""Rows (n, d): an array, dense or sparse, or a table, such as a polars or dask dataframe."""

LazyValues: TypeAlias = Any
"""Values of rows, (n,) or (n, k): a NumPy array, or a dask collection for rows of dask."""

Fit = TypeVar("Fit", bound=Callable[..., Any])


def check_rows(estimator: Any, X: TableLike, **options: Any) -> Any:
    """Return rows X (n, d), float64 or float32, after the checks of scikit-learn's `validate_data`.

    Raise UnusableRowsError if a row's norm is too large, or if X has text, times or masked values.
    It is also raised for a structured array. Raise TypeError if X is not in memory (such as a dask
    array), or if it is sparse and the estimator takes only dense rows.
    """
    from sklearn.utils.validation import validate_data

    if is_elsewhere(X):
        raise TypeError(
            f"{type(estimator).__name__} needs all rows in memory here, found a "
            f"{type(X).__module__.partition('.')[0]} {type(X).__name__}: give a NumPy array of "
            "the rows or of a sample, or run a job, which takes tables of any size"
        )
    if sparse.issparse(X) and not options.get("accept_sparse"):
        raise TypeError(
            f"{type(estimator).__name__} takes no sparse rows: centring makes sparse rows dense. "
            "Use X.toarray(), or reduce the columns with sklearn.decomposition.TruncatedSVD. For "
            "outliers of sparse rows: LinearSVDD, LinearOneClassSVM"
        )
    check_array(X)
    try:
        X = validate_data(estimator, X, **{"dtype": [np.float64, np.float32]} | options)
    except ValueError as error:
        words = str(error)
        if "contains NaN" in words and not sparse.issparse(X):
            missing = np.isnan(np.asarray(X, np.float64))
            row, column = map(int, np.unravel_index(missing.argmax(), missing.shape))
            raise UnusableRowsError(
                f"X contains NaN, first in row {row}, column {column}: leave such rows out or fill "
                "them. AutoClustering and MixtureClustering take missing values"
            ) from error
        if words.startswith("Complex data not supported"):
            raise UnusableRowsError(
                "Complex data not supported: X has complex numbers, expected real ones"
            ) from error
        if "could not convert string" not in words:
            raise
        raise UnusableRowsError(
            f"X holds text, expected numbers: {error}; AutoClustering and MixtureClustering take "
            "text in a table with named columns, such as a pandas.DataFrame"
        ) from error
    check_length(X)
    return X


def reject_weights(fit: Fit) -> Fit:
    """Wrap the `fit` of an estimator, so that `sample_weight` raises an error with the reason.

    scikit-learn would take a parameter `sample_weight` as support of weights, so `fit` has none.
    """

    @wraps(fit)
    def fitted(self: Any, *rows: Any, **options: Any) -> Any:
        if "sample_weight" in options:
            raise TypeError(
                f"{type(self).__name__} takes no sample_weight: rows are counted, not weighted. "
                "Where weights are counts, repeat the rows: np.repeat(X, counts, axis=0)"
            )
        return fit(self, *rows, **options)

    return fitted  # type: ignore[return-value]
