"""Rows from Python users, of any kind: in pieces as they are, or as blocks of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from distsvc.errors import UnusableRowsError, shown
from distsvc.inputs.exactness import Ends

BLOCK_VALUES = 2**20
"""Values of a block, at most: what learns or labels makes several copies of it."""


@dataclass(frozen=True)
class RowValues:
    """The values that a function has for rows: the name of their series, and their dtype.

    If a row has several values, `columns` names them.
    """

    name: str
    dtype: Any
    columns: Sequence[int] | None = None

    @property
    def none(self) -> np.ndarray:
        """The values of no rows."""
        return np.empty((0,) if self.columns is None else (0, len(self.columns)), self.dtype)

    def joined(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        """Return the values of all rows, (n,) or (n, k), from those of some after others."""
        return np.concatenate([self.none, *parts], dtype=self.dtype)


class OfRows(Protocol):
    """A function with values for rows; those of a row depend on no other row."""

    @property
    def answer(self) -> RowValues:
        """The kind of the values."""
        ...

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the values (n,) or (n, k) of rows X (n, d)."""
        ...


@dataclass(frozen=True)
class Reading:
    """The way in which rows are read."""

    name: str = "X"  # of the rows in messages
    rows: int | None = None  # of a piece, at most; by default those of a block of moderate size
    index: bool = False  # whether the named index of a pandas frame is a column, too
    missing: bool = False  # whether values may be missing: NaN, or null

    def most(self, n_columns: int) -> int:
        """Return how many rows of so many columns a piece has at most."""
        return self.rows or block_rows(n_columns)


class Input(ABC):
    """Rows, of the user's array or table X, read in passes: each from the first row to the last."""

    shape: tuple[Any, ...] | None = None  # of an array, whose columns have no names
    in_memory = False  # whether NumPy takes X as it is, so that a copy does no harm
    once = False  # whether a second pass is impossible
    lazy = False  # whether `map` computes nothing yet
    first = 0  # the number of the first row
    words = ""  # the name of the part of X in which rows are counted
    ends: Ends | None = None  # of columns of large integers, where somebody watches them
    # Set by `opened`:
    header: Any  # an object with the number and names of the columns, for scikit-learn
    names: Sequence[str] | None
    n_features: int
    dtype: np.dtype  # of the blocks: float32 if it holds all columns, as scikit-learn's, or float64

    def __init__(self, X: Any, asked: Reading):
        self.X, self.asked = X, asked

    @property
    def shown(self) -> str:
        """The name of the rows, or of this part of them, in messages."""
        return self.asked.name + self.words

    @abstractmethod
    def pieces(self) -> Iterator[Any]:
        """Yield the rows of a pass: arrays (n, d) of numbers, or record batches of Arrow's."""

    @abstractmethod
    def columns(self) -> tuple[Any, Sequence[np.dtype], Sequence[str] | None]:
        """Return the header, what dtypes hold the columns, and their names."""

    def opened(self) -> Self:
        """Make ready for passes of blocks, and return itself.

        `UnusableRowsError` for rows that are no table of numbers.
        """
        self.header, kinds, self.names = self.columns()
        self.n_features = int(self.header.shape[1])
        common = np.result_type(*kinds)
        self.dtype = common if common == np.float32 else np.dtype(np.float64)
        return self

    def watched(self) -> Ends:
        """Return the ends of columns of large integers, which the next pass finds."""
        self.ends = Ends()
        return self.ends

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the rows (n, d) of a pass, in any dtype of numbers and in chunks of any length."""
        return self.pieces()

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows (n, d) of a pass in blocks of a moderate size, C order.

        `UnusableRowsError` names the row of a value that is not finite, or missing where none may
        be.
        """
        first = self.first
        for block in self._joined(block_rows(self.n_features)):
            self._check_finite(block, first)
            yield block
            first += len(block)

    def map(self, of_rows: OfRows) -> Any:
        """Return the values (n,) or (n, k) of all rows, as lazy as these are.

        Errors as in `blocks`; or there is no row.
        """
        if self.lazy:
            return self.map_parts(partial(_of_part, of_rows, self.dtype), of_rows.answer)
        found = of_rows.answer.joined(map(of_rows, self.blocks()))
        if not len(found):
            raise UnusableRowsError(
                "Found array with 0 sample(s) while a minimum of 1 is required: a stream that has "
                "been read has no rows left"
            )
        return found

    def map_parts(self, of_part: Callable[[Input], np.ndarray], answer: RowValues) -> Any:
        """Return what a function gives for each part of what is lazy, put together by dask.

        Of an array it is an array with the same chunks of rows; of a dataframe a series, or a
        dataframe where a row has several values, with the same index.
        """
        raise NotImplementedError

    def _check_finite(self, block: np.ndarray, first: int) -> None:
        bad = np.isinf(block) if self.asked.missing else ~np.isfinite(block)
        if bad.any():
            row, column = divmod(int(bad.argmax()), block.shape[1])
            told = column if self.names is None else repr(self.names[column])
            raise UnusableRowsError(
                f"{self.asked.name}: column {told}, row {first + row}{self.words}: expected a "
                f"finite number, found {block[row, column]}"
            )

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


def _of_part(of_rows: OfRows, dtype: np.dtype, part: Input) -> np.ndarray:
    """Return the values of a part, the blocks of which are of `dtype`, wherever it is computed."""
    part.opened().dtype = dtype
    return of_rows.answer.joined(map(of_rows, part.blocks()))


def block_rows(n_features: int) -> int:
    """Return how many rows a block has at most."""
    return max(BLOCK_VALUES // max(n_features, 1), 1)


def cut(chunk: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Yield the rows of a chunk in parts of `most` rows at most."""
    for first in range(0, len(chunk), most):
        yield chunk[first : first + most]


def no_rows(X: Any, name: str) -> UnusableRowsError:
    """Return the error for what is neither an array nor a table."""
    value = "" if hasattr(type(X), "__dask_graph__") else f" {shown(X)}"
    return UnusableRowsError(
        f"{name}: expected an array (n, d), or a table that pyarrow can read "
        f"(__arrow_c_stream__), found {type(X).__module__}.{type(X).__qualname__}{value}"
    )


def check_array(X: Any) -> None:
    """Raise UnusableRowsError for a NumPy array with named fields, units of time or a mask.

    scikit-learn drops the latter two, and has no advice for the first.
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
