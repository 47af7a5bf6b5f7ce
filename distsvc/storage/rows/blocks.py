"""Classes that describe a table to workers, and the conversion of Arrow arrays to blocks."""

import base64
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import PlainSerializer, PlainValidator

from distsvc.errors import DataError
from distsvc.errors.urls import lake_url, shown_urls
from distsvc.inputs.given import has_values, is_text
from distsvc.job.config import ColumnKind
from distsvc.storage.places.location import Location, Versions
from distsvc.storage.rows.features import (
    Feature,
    TextNumber,
    UnusableValueError,
    descriptions,
    fits_float32,
    is_sentinel,
    names_of,
    placed,
    restore,
    without_sentinels,
)
from distsvc.storage.rows.numeric_text import is_unicode, unicode_error
from distsvc.storage.rows.where import Condition, parse_where

MAX_TABLE_ROWS, MAX_TABLE_UNITS = 2**40, 10**7
"""Maximum number of rows and of storage units of a table."""

_VECTOR = re.compile(r"(?:large_|fixed_size_)?list<\w+: (?P<value>.*)>(?:\[\d+\])?")
"""Pattern of the names of Arrow's list types."""

Batches = Iterator[dict[str, pa.Array]]
"""Consecutive rows as arrays of equal length, by column."""


def read_schema(text: str) -> pa.Schema:
    """Return the schema that `schema_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as text: the base64 of its serialised form."""
    return base64.b64encode(schema.serialize()).decode()


StoredFeatures = Annotated[
    tuple[Feature, ...], PlainValidator(restore), PlainSerializer(descriptions)
]
StoredSchema = Annotated[pa.Schema, PlainValidator(read_schema), PlainSerializer(schema_text)]


@dataclass(frozen=True)
class TableFile:
    """A Parquet file of a table."""

    name: str  # relative to `Layout.root`
    n_units: int  # number of storage units
    names: dict[str, str] = field(default_factory=dict)  # a renamed column's name in the file
    # Constants, as text, of columns that the file lacks.
    values: dict[str, str | None] = field(default_factory=dict)
    deleted: bool = False  # whether some rows are deleted


@dataclass(frozen=True)
class LakeState:
    """The version of a Delta or Iceberg table that is read."""

    digest: str  # SHA-256 of the files and the deleted rows
    schema: StoredSchema  # types of all columns
    staging: str  # folder with the positions of deleted rows
    by_catalog: bool  # whether a catalog has the settings to open the files


@dataclass(frozen=True)
class Layout:
    """The storage of a table's rows."""

    path: str  # absolute path or URL of the table, or of its converted copy
    format: str  # name of the source
    extents: tuple[int, ...]  # rows of each storage unit, in order
    root: str = ""  # folder of the files, if there are many
    files: tuple[TableFile, ...] = ()
    lake: LakeState | None = None


@dataclass(frozen=True)
class Table:
    """All that a worker needs to read a range of rows."""

    layout: Layout
    features: StoredFeatures = ()
    types: tuple[str, ...] = ()  # name of the Arrow type of each feature's column
    id: str | None = None
    label: str | None = None
    where: str | None = None
    # Types of the id, label and `where` columns.
    others: StoredSchema = field(default_factory=lambda: pa.schema([]))
    sources: tuple[str, ...] = ()  # the paths in the job
    left_out: dict[str, str] = field(default_factory=dict)  # reasons why columns are no features
    versions: Versions = field(default_factory=dict)  # of the files, before anything was read
    ready: str | None = None
    notes: tuple[str, ...] = ()
    without_values: tuple[str, ...] = ()  # feature columns without a value in any row
    missing_values: tuple[float, ...] = ()  # numbers that mean "missing"
    # For each category with many new values, a text with the commonest.
    new_values: dict[str, str] = field(default_factory=dict)
    column_kinds: dict[str, ColumnKind] = field(default_factory=dict)
    compared: StoredFeatures = ()  # further columns, by which a report compares clusters

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the features' numeric columns, in order."""
        return names_of(self.features)

    @property
    def stored(self) -> list[str]:
        """The name of the stored column of each feature."""
        return [feature.column for feature in self.features]

    @property
    def shown(self) -> str:
        """The paths of the table in a message, such as "a.csv and 3 more"."""
        return shown_urls(self.sources)

    @property
    def state(self) -> str:
        """The version or snapshot of a Delta or Iceberg table; "" for other tables."""
        return lake_url(self.sources[0]).pin

    @property
    def n_rows(self) -> int:
        """Number of rows, including rows that `where` excludes."""
        return sum(self.layout.extents)

    @property
    def nbytes(self) -> int:
        """Size in bytes of all `n_rows` rows of features as float64."""
        return self.n_rows * len(self.columns) * 8

    def type_of(self, column: str) -> pa.DataType:
        """Return the type of a column that is no feature: id, label, or used in ``where``."""
        return self.others.field(column).type

    @property
    def dtype(self) -> np.dtype:
        """The dtype of blocks: float32 if it represents all values exactly, else float64."""
        pairs = zip(self.features, self.types, strict=True)
        is_exact = all(fits_float32(feature, _value_kind(kind)) for feature, kind in pairs)
        return np.dtype(np.float32 if is_exact else np.float64)


@dataclass(frozen=True)
class Span:
    """A range of stored rows [start, stop), and the columns to read besides the features.

    `opening.read_blocks` reads a span in blocks of at most `block_rows` rows.
    """

    start: int
    stop: int
    block_rows: int
    with_ids: bool = False
    with_labels: bool = False
    with_compared: bool = False


@dataclass(frozen=True)
class Block:
    """Consecutive rows that match `where`."""

    rows: np.ndarray  # (n,) int64: positions in the whole table, from 0
    X: np.ndarray  # (n, d), C order: the features; NaN where a value is missing
    ids: pa.Array | None  # None unless `Span.with_ids`
    labels: pa.Array | None  # None unless `Span.with_labels`
    compared: np.ndarray | None = None  # (n, b) float64: further columns, to compare clusters
    types: tuple[str, ...] = ()  # Arrow types of the features' columns in a user's table


def stored_bytes(table: Table) -> list[int]:
    """Return the size in bytes of one row in each stored column of a table, in Arrow's memory."""
    widths = []
    for feature, kind in zip(table.features, table.types, strict=True):
        value = _value_kind(kind)
        try:
            width = max(pa.type_for_alias(value).bit_width // 8, 1)
        except ValueError:
            width = 16  # an estimate for text
        widths.append(width * (1 if value == kind else len(feature.names)))
    return widths


def _value_kind(kind: str) -> str:
    """Return the name of an Arrow type; for lists, the name of the type of their values."""
    vector = _VECTOR.fullmatch(kind)
    return vector["value"] if vector else kind


def arrow_blocks(
    table: Table, span: Span, batches: Callable[[list[str]], Batches]
) -> Iterator[Block]:
    """Yield the blocks of a span.

    `batches` is a function that reads the span from the table's files. It gets names of stored
    columns, and yields their values in batches of consecutive rows.
    """
    named = table.id if span.with_ids else None, table.label if span.with_labels else None
    features = table.compared if span.with_compared else ()
    more = [*filter(None, named), *(feature.column for feature in features)]
    pieces = matching_rows(table, span, batches, [*table.stored, *more])
    dtype, naming_errors = table.dtype, Location.of(table.sources[0]).naming_errors
    for first, parts in itertools.groupby(pieces, operator.itemgetter(0)):
        X = np.empty((min(span.block_rows, span.stop - first), len(table.columns)), dtype)
        n_rows, rows, compared = 0, list[np.ndarray](), list[np.ndarray]()
        others: dict[str, list[pa.Array]] = {name: [] for name in filter(None, named)}
        for _, numbers, arrays in parts:
            with naming_errors():
                _fill_rows(X[n_rows : n_rows + len(numbers)], table, numbers, arrays)
                if features:
                    compared.append(_numbers_of(features, arrays))
                for name, chunks in others.items():
                    chunks.append(arrays[name].cast(table.type_of(name)))
            n_rows += len(numbers)
            rows.append(numbers)
        if n_rows:
            joined = {name: pa.concat_arrays(chunks) for name, chunks in others.items()}
            ids, labels = (joined[name] if name else None for name in named)
            yield Block(
                rows=np.concatenate(rows),
                X=X if n_rows == len(X) else X[:n_rows].copy(),  # free what `where` left unused
                ids=ids,
                labels=labels,
                compared=np.concatenate(compared) if compared else None,
            )


def matching_rows(
    table: Table, span: Span, batches: Callable[[list[str]], Batches], columns: Sequence[str]
) -> Iterator[tuple[int, np.ndarray, dict[str, pa.Array]]]:
    """Yield pieces of a span: first row of the block, numbers of matching rows, and values.

    Each piece lies in one block, and has only rows that match ``where``. Row numbers are (n,)
    int64. Values are plain arrays by column, including the columns of ``where``. `batches` is as
    in `arrow_blocks`.
    """
    condition = parse_where(table.where) if table.where is not None else None
    wanted = list(dict.fromkeys([*columns, *(condition.columns if condition else ())]))
    naming_errors, row = Location.of(table.sources[0]).naming_errors, span.start
    for batch in batches(wanted):
        n_rows, offset = len(batch[wanted[0]]), 0
        while offset < n_rows:
            first = row - (row - span.start) % span.block_rows
            size = min(n_rows - offset, first + span.block_rows - row)
            with naming_errors():
                part = {n: plain_values(array.slice(offset, size)) for n, array in batch.items()}
                found = _matching(table, condition, np.arange(row, row + size), part)
            yield first, *found
            offset += size
            row += size


def _matching(
    table: Table, condition: Condition | None, rows: np.ndarray, arrays: dict[str, pa.Array]
) -> tuple[np.ndarray, dict[str, pa.Array]]:
    for name in arrays.keys() & set(table.others.names):
        if is_text(arrays[name].type) and not is_unicode(arrays[name]):
            raise unicode_error(table.shown, name, f", rows {rows[0]} to {rows[-1]}")
    if condition is None:
        return rows, arrays
    mask = condition.mask({n: arrays[n].cast(table.type_of(n)) for n in condition.columns})
    found = rows[mask.to_numpy(zero_copy_only=False)]
    if len(found) == len(rows):
        return rows, arrays
    return found, {name: array.filter(mask) for name, array in arrays.items()}


def _fill_rows(X: np.ndarray, table: Table, rows: np.ndarray, arrays: dict[str, pa.Array]) -> None:
    try:
        fill(X, table.features, [arrays[name] for name in table.stored], table.missing_values)
    except UnusableValueError as error:
        raise DataError(
            f"{table.shown}: column {error.column!r}, row {rows[error.place]}: {error}"
        ) from None


def _numbers_of(features: Sequence[Feature], arrays: dict[str, pa.Array]) -> np.ndarray:
    """Return features as an (n, b) float64 array; NaN for a text column that is not UTF-8."""
    columns = []
    for feature in features:
        array = arrays[feature.column]
        readable = not is_text(array.type) or is_unicode(array)
        columns.append(feature.values(array) if readable else np.full(len(array), np.nan))
    return np.stack(columns, axis=1).astype(np.float64)


MAX_ID = 100
"""Maximum length of an id in messages and pages; labels keep the full id."""


def id_texts(ids: pa.Array | None, places: np.ndarray) -> np.ndarray:
    """Return the ids of m rows as texts (m,), for messages and pages.

    `places` (m,) are positions in `ids`. The text of a missing id is empty, and a text of more than
    `MAX_ID` characters is cut.
    """
    if ids is None:
        return np.zeros(len(places), "U1")
    values = ids.take(pa.array(places, pa.int64())).to_pylist()
    texts = ["" if value is None else str(value) for value in values]
    cut = [one if len(one) <= MAX_ID else f"{one[: MAX_ID - 1]}…" for one in texts]
    return np.array([*cut, ""])[:-1]  # without "", an empty array would have another type


def plain_values(array: pa.Array) -> pa.Array:
    """Convert a dictionary, view or extension array to a plain array of its values.

    Other arrays are returned unchanged.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return array.storage
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return array.cast(pa.large_list(kind.value_type))
    if pa.types.is_string_view(kind):  # several functions of pyarrow don't support it
        return array.cast(pa.string())
    if pa.types.is_dictionary(kind):  # Arrow can't decode a dictionary of views
        return plain_values(array.dictionary).take(array.indices)
    return array


_EMPTY_TYPES = pa.float64(), pa.list_(pa.float64()), pa.duration("s"), pa.string()
"""Types for an array without values; `fill` uses the first that the feature accepts."""


def fill(
    X: np.ndarray,
    features: Sequence[Feature],
    arrays: Sequence[pa.Array],
    missing_values: Sequence[float] = (),
) -> None:
    """Write features into a matrix X (n, d) of floats; `arrays` has the column of each feature.

    Numbers in `missing_values` become NaN, also where numbers are stored as text. An array without
    values may have any type.
    """
    for (feature, places), array in zip(placed(features), arrays, strict=True):
        if not feature.takes(array.type) and not has_values(array):
            array = pa.nulls(len(array), next(k for k in _EMPTY_TYPES if feature.takes(k)))
        values = feature.values(without_sentinels(array, missing_values))
        if isinstance(feature, TextNumber) and missing_values:
            values = np.where(is_sentinel(values, missing_values), np.nan, values)
        X[:, places] = values if values.ndim == 2 else values[:, None]
