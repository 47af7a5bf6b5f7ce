"""Readers of a user's arrays and tables: rows in blocks of numbers."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import IO, Any, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike

from distsvc.errors import UnusableRowsError, shown

BLOCK_VALUES = 2**20
"""Maximum number of values of a block, which limits the memory of learners and rules."""


UserData: TypeAlias = Any
"""An array or a table of any library."""

Columns = tuple[UserData, Sequence[np.dtype], Sequence[str] | None]
"""An object with the shape (n, d) and column names of X, the columns' dtypes, and the names."""


@dataclass(frozen=True)
class RowValues:
    """The name, dtype and columns of the values that a function returns."""

    name: str
    dtype: DTypeLike
    columns: Sequence[int] | None = None  # labels of a row's k values; None: a single value

    @property
    def none(self) -> np.ndarray:
        """Empty array (0,) or (0, k) of `dtype`."""
        return np.empty((0,) if self.columns is None else (0, len(self.columns)), self.dtype)

    def joined(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate([self.none, *parts], dtype=self.dtype)


class OfRows(Protocol):
    """A function that computes a value for each row, such as its label, from this row alone."""

    @property
    def answer(self) -> RowValues: ...

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the values (n,) or (n, k) of rows X (n, d)."""
        ...


@dataclass(frozen=True)
class Reading:
    """Options for reading rows."""

    name: str = "X"  # the name of the rows in messages
    rows: int | None = None  # maximum number of rows read at a time; None: `block_rows`
    # If True, a pandas index with a name is read as a column, and each table ends with an empty
    # record batch, so that even the columns of a table without rows are checked.
    by_name: bool = False

    def most(self, n_columns: int) -> int:
        return self.rows or block_rows(n_columns)


Number = int | Decimal


def is_narrow(least: np.ndarray | float, most: np.ndarray | float) -> np.ndarray:
    """Return True for columns of large numbers that are too close together for float64.

    All integers up to 2^53 are exact in float64, so columns of smaller numbers are never narrow.
    """
    size = np.maximum(np.abs(least), np.abs(most))
    return (size > 2.0**53) & (most - least < 2**20 * np.spacing(size))


class Ends:
    """Exact extremes of columns of 64-bit integers or decimals, which float64 may round."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Number, Number]] = {}

    def add_array(self, X: np.ndarray) -> None:
        if X.dtype.kind in "iu" and X.dtype.itemsize == 8 and len(X):
            for k in range(X.shape[1]):
                self._add(k, int(X[:, k].min()), int(X[:, k].max()))

    def add_batch(self, batch: pa.RecordBatch) -> None:
        for k, column in enumerate(batch.columns):
            if column.type in (pa.int64(), pa.uint64()) or pa.types.is_decimal(column.type):
                found = pc.min_max(column).as_py()
                if found["min"] is not None:
                    self._add(k, found["min"], found["max"])

    def _add(self, place: int, low: Number, high: Number) -> None:
        known = self._found.get(place, (low, high))
        self._found[place] = min(known[0], low), max(known[1], high)

    def check(self, name: str, names: Sequence[str] | None) -> None:
        """Raise `UnusableRowsError` about the table `name` if a column `is_narrow`."""
        for k, (low, high) in self._found.items():
            if low < high and is_narrow(float(low), float(high)):
                column = k if names is None else repr(names[k])
                raise UnusableRowsError(
                    f"{name}: column {column} holds numbers from {low} to {high}, which float64 "
                    f"can't tell apart: subtract {low}, or leave the column out"
                )


class Input(ABC):
    """Base of readers of an array or table X, which yield its rows block by block."""

    shape: tuple[int, ...] | None = None  # shape of an array; None for a table
    in_memory = False  # whether NumPy can use X directly
    once = False  # whether a second pass is impossible
    lazy = False  # whether `map` returns a collection of dask
    first = 0  # the number of the first row in messages
    words = ""  # text behind a row number in messages, such as " of a partition"
    ends: Ends | None = None  # set by `watched`
    # Set by `opened`:
    header: UserData  # an object with the number and names of the columns, for scikit-learn
    names: Sequence[str] | None
    n_features: int
    dtype: np.dtype  # dtype of blocks: float32 if it holds all columns, else float64

    def __init__(self, X: UserData, asked: Reading):
        self.X, self.asked = X, asked

    @property
    def shown(self) -> str:
        return self.asked.name + self.words

    @abstractmethod
    def pieces(self) -> Iterator[Any]:
        """Yield the rows of a pass as arrays (n, d) of numbers or as record batches."""

    @abstractmethod
    def columns(self) -> Columns:
        """Return the header, the dtypes and the names of the columns."""

    def opened(self) -> Self:
        """Prepare for `blocks`; return this reader. `UnusableRowsError` if X holds no numbers."""
        self.header, kinds, self.names = self.columns()
        self.n_features = int(self.header.shape[1])
        common = np.result_type(*kinds)
        self.dtype = common if common == np.float32 else np.dtype(np.float64)
        return self

    def watched(self) -> Ends:
        """Return a new `Ends`, to which the next pass over the rows adds minimum and maximum."""
        self.ends = Ends()
        return self.ends

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the rows of a pass as arrays (n, d) of any length and dtype of numbers."""
        return self.pieces()

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows of a pass as C-ordered blocks (n, d) of at most `block_rows` rows."""
        first = self.first
        for block in self._joined(block_rows(self.n_features)):
            bad = ~np.isfinite(block)
            if bad.any():
                row, column = divmod(int(bad.argmax()), block.shape[1])
                name = column if self.names is None else repr(self.names[column])
                raise UnusableRowsError(
                    f"{self.asked.name}: column {name}, row {first + row}{self.words}: expected a "
                    f"finite number, found {block[row, column]}"
                )
            yield block
            first += len(block)

    def map(self, of_rows: OfRows) -> Any:
        """Return the values (n,) or (n, k) that `of_rows` computes for all rows.

        For a dask array or dataframe, the result is a lazy dask array, series or dataframe.
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

    def map_parts(self, of_part: Callable[["Input"], np.ndarray], answer: RowValues) -> Any:
        """Return a dask collection of the values that `of_part` computes for each chunk of X.

        Only readers of dask arrays and dataframes have this method.
        """
        raise NotImplementedError

    def _joined(self, most: int) -> Iterator[np.ndarray]:
        """Yield blocks of at most `most` rows: long chunks are cut, short ones are joined."""
        parts: list[np.ndarray] = []
        n = 0
        for chunk in self.chunks():
            for part in cut(chunk, most):
                if parts and n + len(part) > most:
                    yield self._block(parts)
                    parts, n = [], 0
                parts.append(part)
                n += len(part)
        if n:
            yield self._block(parts)

    def _block(self, parts: list[np.ndarray]) -> np.ndarray:
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return np.ascontiguousarray(whole, self.dtype)


def _of_part(of_rows: OfRows, dtype: np.dtype, part: Input) -> np.ndarray:
    """Return the values that `of_rows` computes for a chunk of a dask array or dataframe.

    Rows are read with the dtype of the whole array, so that each chunk is treated alike.
    """
    part.opened().dtype = dtype
    return of_rows.answer.joined(map(of_rows, part.blocks()))


def block_rows(n_features: int) -> int:
    """Return the maximum number of rows of a block."""
    return max(BLOCK_VALUES // max(n_features, 1), 1)


def cut(chunk: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Yield the rows of a chunk in parts of at most `most` rows."""
    for first in range(0, len(chunk), most):
        yield chunk[first : first + most]


def not_rows_error(X: object, name: str) -> UnusableRowsError:
    """Return the error for an object that is neither an array nor a table."""
    value = "" if hasattr(type(X), "__dask_graph__") else f" {shown(X)}"
    return UnusableRowsError(
        f"{name}: expected an array (n, d), or a table that pyarrow can read "
        f"(__arrow_c_stream__), found {type(X).__module__}.{type(X).__qualname__}{value}"
    )


def check_array(X: object) -> None:
    """Raise `UnusableRowsError` for a structured array, an array of times, or masked values."""
    if not isinstance(X, np.ndarray):
        return
    if X.dtype.names:
        raise UnusableRowsError(
            "X is a structured array, expected an array of rows by columns (n, d): give "
            "numpy.lib.recfunctions.structured_to_unstructured(X), or a data frame"
        )
    if X.dtype.kind in "mM":
        raise UnusableRowsError(f"X has the dtype {X.dtype}, expected numbers: X.astype(float)")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        row = int(np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1).argmax())
        raise UnusableRowsError(
            f"X has a masked value in row {row}, expected none: fill masked values"
        )


class Spool(Input):
    """An input whose first pass writes its rows to a temporary file, which other passes read."""

    def __init__(self, source: Input, file: IO[bytes]):
        super().__init__(source.X, source.asked)
        self.source, self._file, self._whole = source, file, False
        self.opened()

    def columns(self) -> Columns:
        return self.source.header, [self.source.dtype], self.source.names

    def watched(self) -> Ends:
        return self.source.watched()

    def pieces(self) -> Iterator[np.ndarray]:
        if not self._whole:
            for block in self.source.blocks():
                self._file.write(block.data)
                yield block
            self._whole = True
            return
        self._file.seek(0)
        size = block_rows(self.n_features) * self.n_features * self.dtype.itemsize
        while data := self._file.read(size):
            yield np.frombuffer(data, self.dtype).reshape(-1, self.n_features)


@contextmanager
def readable_again(source: Input) -> Iterator[Input]:
    """Yield a reader of the same rows that allows several passes.

    This is `source` itself, or a `Spool` if `source` is a stream that can be read only once.
    """
    if not source.once:
        yield source
        return
    with tempfile.TemporaryFile(prefix="distsvc-") as file:
        yield Spool(source, file)
