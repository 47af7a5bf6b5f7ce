"""What an estimator reads block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError

BLOCK_VALUES = 2**20
"""Values of a block, at most: what learns or labels makes several copies of it."""

OfRows = Callable[[np.ndarray], np.ndarray]
"""Returns a value (n,) for each of some rows (n, d); that of a row depends on no other row."""


class Input(ABC):
    """Rows that are read in passes, each from the first row to the last.

    Parameters
    ----------
    header : object
        What has the columns' number and names, if any, as scikit-learn looks for them.
    kinds : sequence of dtype
        Of the columns, or of the array.
    names : sequence of str or None

    Attributes
    ----------
    dtype : dtype
        Of the blocks: float32 where it holds all columns, as scikit-learn has it, else float64.
    in_memory : bool
        Whether the rows are in this process's memory, so that a copy does no harm.
    once : bool
        Whether a second pass is impossible.
    lazy : bool
        Whether `map` computes nothing yet.

    """

    in_memory = False
    once = False
    lazy = False

    def __init__(self, header: Any, kinds: Sequence[Any], names: Sequence[str] | None = None):
        self.header, self.names = header, names
        self.n_features = int(header.shape[1])
        common = np.result_type(*kinds) if len(kinds) else np.dtype(np.float64)
        self.dtype = common if common == np.float32 else np.dtype(np.float64)

    @abstractmethod
    def chunks(self) -> Iterable[np.ndarray]:
        """Yield the rows (n, d) of a pass, in any dtype of numbers and in chunks of any length."""

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows (n, d) of a pass in blocks of a moderate size, C order.

        Raises
        ------
        UnusableRowsError
            A value is missing or not finite; names its row.

        """
        first = 0
        for block in self._joined(block_rows(self.n_features)):
            check_finite(block, self.names, "row {}", first)
            yield block
            first += len(block)

    def map(self, function: OfRows, dtype: Any, name: str) -> Any:
        """Return the values (n,) that a function has for the rows, as an array of `dtype`.

        It is as lazy as the input is; `name` is that of the values, where they have one.

        Raises
        ------
        UnusableRowsError
            As in `blocks`; or there is no row.

        """
        found = [np.asarray(function(block), dtype) for block in self.blocks()]
        if not found:
            raise UnusableRowsError(
                "Found array with 0 sample(s) while a minimum of 1 is required: a stream that has "
                "been read has no rows left"
            )
        return np.concatenate(found)

    def _joined(self, most: int) -> Iterator[np.ndarray]:
        """Yield blocks of `most` rows at most: long chunks are cut, short ones put together."""
        held: list[np.ndarray] = []
        n = 0
        for chunk in self.chunks():
            for part in cut(chunk, most):
                if held and n + len(part) > most:
                    yield self._block(held)
                    held, n = [], 0
                held.append(part)
                n += len(part)
        if n:
            yield self._block(held)

    def _block(self, parts: list[np.ndarray]) -> np.ndarray:
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return np.ascontiguousarray(whole, self.dtype)


def block_rows(n_features: int) -> int:
    """Return how many rows a block has at most."""
    return max(BLOCK_VALUES // max(n_features, 1), 1)


def cut(chunk: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Yield the rows of a chunk in parts of `most` rows at most."""
    for first in range(0, len(chunk), most):
        yield chunk[first : first + most]


def check_finite(
    block: np.ndarray, names: Sequence[str] | None, row_words: str, first: int = 0
) -> None:
    """Raise UnusableRowsError for the first value of rows (n, d) that is not finite.

    `row_words` say which row it is, with its number, from `first` on, for the braces.
    """
    bad = ~np.isfinite(block)
    if bad.any():
        row, column = divmod(int(bad.argmax()), block.shape[1])
        shown = repr(names[column]) if names is not None else str(column)
        raise UnusableRowsError(
            f"X: column {shown}, {row_words.format(first + row)}: expected a finite number, "
            f"found {block[row, column]}"
        )


def check_numbers(dtype: Any) -> None:
    """Raise UnusableRowsError for the dtype of an array that holds no real numbers."""
    if np.dtype(dtype).kind not in "biuf":
        raise UnusableRowsError(f"X has the dtype {dtype}, expected numbers")


def check_table(shape: tuple[Any, ...]) -> None:
    """Raise UnusableRowsError for the shape of an array that is no table."""
    if len(shape) != 2:
        raise UnusableRowsError(
            f"Expected 2D array, got {len(shape)}D array instead: give rows by columns (n, d)"
        )
    if not shape[1] > 0:
        raise UnusableRowsError(
            f"X has {shape[1]} columns, expected at least 1, and a known number "
            "(dask: X.compute_chunk_sizes())"
        )


def check_array(X: Any) -> None:
    """Raise UnusableRowsError for a NumPy array that scikit-learn would read as another one.

    It drops masks and the units of time, and does not say what to make of named fields.
    """
    if not isinstance(X, np.ndarray):
        return
    if X.dtype.names:
        raise UnusableRowsError(
            "X is a structured array, expected one of rows by columns (n, d): give "
            "numpy.lib.recfunctions.structured_to_unstructured(X), or a data frame"
        )
    if X.dtype.kind in "mM":
        raise UnusableRowsError(f"X has the dtype {X.dtype}, expected numbers: X.astype(float)")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        row = int(np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1).argmax())
        raise UnusableRowsError(f"X has a masked value in row {row}, expected values in all places")
