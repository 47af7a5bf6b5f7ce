"""The columns of a table, and the choice of the features."""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from distsvc.errors import DataError, JobFileError
from distsvc.inputs.given import is_numeric, is_text, type_words
from distsvc.job.config import BINARY, CATEGORY, IGNORE, ColumnKind, InputConfig
from distsvc.storage.rows.blocks import Layout
from distsvc.storage.rows.features import (
    MAX_WIDTH,
    Feature,
    is_category,
    is_default,
    is_usable,
    is_vector,
    names_of,
)
from distsvc.storage.rows.id_detection import CODE_REASONS
from distsvc.storage.rows.where import where_columns

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""The name under which pandas stores an index."""

NESTED = "numbers inside {kind}"
"""Reason why a column of structs, maps or nested lists is no feature."""

UNNEST = (
    "write them as columns, or as one list of numbers (DuckDB: SELECT unnest(column); Spark: "
    "vector_to_array)"
)
"""Advice for columns of structs, maps and nested lists."""

NOT_CHOSEN = "not in input.columns"
NEW = "not a feature of the previous run"
"""Reason why a column is no feature if the previous run did not have it."""

PANDAS_INDEX = "an index of pandas"
"""Reason why a column that was the index of a pandas table is no feature."""

PARTITION_KEY = "a partition key"
"""Reason why a column that partitions the table is no feature by default."""

NOT_UTF8 = "not UTF-8"
"""Reason why text that can't be decoded is no feature."""

PLAIN_TEXT, DATE, DATE_AND_TIME = "text", "date", "date and time"
"""Reasons why columns of these types are no features by default."""

INCOMPARABLE = (PANDAS_INDEX, *CODE_REASONS)
"""Reasons for which a column is neither a feature nor used to compare clusters in reports."""

MAX_COMPARED_COLUMNS = 20
"""Maximum number of columns, besides the features, by which a report compares clusters."""

UNKNOWN_TYPE = pa.null()
"""Placeholder for the type of a column that can't be read, but may contain numbers."""


@dataclass(frozen=True)
class Scan:
    """The columns and the storage of a table, from its metadata."""

    layout: Layout
    types: dict[str, pa.DataType]  # types of columns, see `plain_type`
    # An unreadable column that would be a feature, by a numeric type or `UNKNOWN_TYPE`, is an error
    # in a job without ``input.columns``.
    problems: dict[str, str]  # reasons why columns can't be read
    default: tuple[str, ...]  # columns that may be features if the job names none
    keys: tuple[str, ...] = ()  # columns by which the table is partitioned
    sources: tuple[str, ...] = ()  # paths that pin the table's version; (): the job's paths
    apart: dict[str, str] = field(default_factory=dict)  # reasons why columns aren't in `default`
    stored: dict[str, tuple[int, object]] = field(default_factory=dict)  # Zarr: chunks, fill value
    comparable: Mapping[str, pa.DataType] | None = None  # columns to compare; None: `types`
    words: dict[str, str] = field(default_factory=dict)  # texts that replace types in messages

    @cached_property
    def shown(self) -> dict[str, str]:
        """The words for each column's type in messages."""
        return {name: type_words(kind) for name, kind in self.types.items()} | self.words


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's plain values, such as float64 for a dictionary of float64.

    Views become lists or strings. An extension type becomes its storage type if this `is_default`.
    Other types are unchanged.
    """
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and is_default(kind.storage_type):
        return kind.storage_type
    return pa.string() if pa.types.is_string_view(kind) else kind


def holds_numbers(kind: pa.DataType) -> bool:
    """Return True if a struct, a map or a list contains numbers at any depth."""
    if isinstance(kind, pa.BaseExtensionType):
        return holds_numbers(kind.storage_type)
    inner = [kind.field(k).type for k in range(kind.num_fields)]
    return any(is_default(one) or holds_numbers(one) for one in inner)


def merge_schemas(
    schemas: Sequence[pa.Schema], names: Sequence[str]
) -> tuple[dict[str, pa.DataType], dict[str, str]]:
    """Return the type of each column in several files, and a message for each difference."""
    types: dict[str, pa.DataType] = {}
    problems: dict[str, str] = {}
    seen: pa.Schema | None = None
    for schema, name in zip(schemas, names, strict=True):
        if seen is not None and schema.equals(seen):
            continue
        fields = {field.name: plain_type(field.type) for field in schema}
        if len(fields) < len(schema.names):
            twice = next(n for n in schema.names if schema.names.count(n) > 1)
            raise DataError(f"{name} has two columns named {twice!r}")
        if seen is not None:
            for column in types.keys() - fields.keys():
                problems.setdefault(column, f"column {column!r} is missing from {name}")
            for column in fields.keys() - types.keys():
                problems.setdefault(column, f"column {column!r} is in {name}, not in {names[0]}")
        for column, kind in fields.items():
            merged = _common_type(types.get(column, kind), kind)
            if merged is not None:
                types[column] = merged
                continue
            pair = kind, types[column]
            now, before = type_words(*pair), type_words(*pair[::-1])
            words = f"column {column!r} is {now} in {name}, {before} in earlier files"
            problems.setdefault(column, words)
            if is_default(kind):
                types[column] = UNKNOWN_TYPE
        seen = schema
    return types, problems


def other_columns(config: InputConfig) -> list[str]:
    """Return the columns of a job that are no features: id, classes, and columns in `where`."""
    names = [config.id, config.classes, *where_columns(config.where)]
    return [name for name in dict.fromkeys(names) if name is not None]


def choose_features(
    config: InputConfig, scan: Scan, categories: Collection[str], ignored: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names of the feature columns, and check every column that the job names.

    With ``input.columns``, these are the features, except columns in `ignored`. Otherwise, features
    are the columns in `categories` and all columns with a default type (`is_default`), in the
    table's order. The latter exclude `other_columns`, partition keys, pandas indexes, columns
    without a name, and columns in `ignored`.
    """
    path = config.shown
    used = [("input.id", config.id), (config.classes_key, config.classes)]
    used += [("input.where", name) for name in where_columns(config.where)]
    for key, column in used:
        if column is not None:
            check_column(column, key, path, scan)
    if config.classes is not None and pa.types.is_nested(scan.types[config.classes]):
        raise DataError(
            f"{config.classes_key}: column {config.classes!r} of {path} is "
            f"{scan.shown[config.classes]}, expected a single value per row, not a list"
        )
    given = config.columns or ()
    twice = [name for name, count in Counter(given).items() if count > 1]
    if twice:
        raise JobFileError(f"input.columns names {twice[0]!r} twice")
    features = tuple(name for name in given if name not in ignored)
    if config.columns is None:
        features = _default(config, scan, categories, ignored)
    if len(features) > MAX_WIDTH:
        raise too_many_columns(path, len(features))
    missing = [name for name in features if name not in scan.types and name not in scan.problems]
    inside = [name for name in missing if name.partition(".")[0] in scan.types]
    if inside:
        outer = inside[0].partition(".")[0]
        raise DataError(
            f"input.columns: {path} has no column {inside[0]!r}; {outer!r} is {scan.shown[outer]}, "
            f"whose values are not separate columns: {UNNEST}"
        )
    if len(missing) > 1:
        raise DataError(
            f"input.columns: {path} has no columns {truncated([repr(name) for name in missing])}; "
            f"available: {truncated(list(scan.types))}"
        )
    faulty = [name for name in features if name in scan.problems]
    if config.columns is None and faulty:
        raise DataError(
            f"{truncated([scan.problems[name] for name in faulty])}; leave "
            f"{'it' if len(faulty) == 1 else 'them'} out: --exclude {','.join(faulty)}"
        )
    for name in features:
        check_column(name, "input.columns", path, scan)
        if not is_usable(scan.types[name]) and name not in categories:
            as_text = is_category(scan.types[name])
            hint = "; preprocess.encode takes it as categories" if as_text else ""
            hint = f"; {UNNEST}" if holds_numbers(scan.types[name]) else hint
            raise DataError(
                f"input.columns: column {name!r} of {path} is {scan.shown[name]}, "
                f"expected a numeric or boolean column, or one of dates, durations or vectors{hint}"
            )
    return features


def check_categories(config: InputConfig, scan: Scan, names: Collection[str]) -> None:
    """Raise `JobFileError` if a column of ``preprocess.encode`` can't contain categories.

    `DataError` if the column is missing or unreadable.
    """
    for name in names:
        check_column(name, "preprocess.encode", config.shown, scan)
        if not is_category(scan.types[name]):
            raise JobFileError(
                f"preprocess.encode: column {name!r} of {config.shown} is {scan.shown[name]}, "
                "expected text, booleans or whole numbers"
            )


def check_kinds(
    config: InputConfig, scan: Scan, kinds: Mapping[str, ColumnKind], texts: Collection[str]
) -> None:
    """Raise `JobFileError` if a column's type does not suit its kind in the section ``[columns]``.

    `texts` are columns that can be read as numbers although they may be text. `DataError` if a
    column is missing or unreadable.
    """
    for name, of in kinds.items():
        if of.kind == IGNORE:
            continue
        check_column(name, f"columns.{name}", config.shown, scan)
        kind = scan.types[name]
        if of.kind == CATEGORY or (of.kind == BINARY and is_text(kind)):
            fits, wanted = is_category(kind), "text, booleans or whole numbers"
        else:
            fits = name in texts or (is_usable(kind) and not is_vector(kind))
            wanted = "one number in each row" + (", or 'category'" if is_category(kind) else "")
        if not fits:
            raise JobFileError(
                f"columns.{name} = {of.kind!r}: column {name!r} of {config.shown} is "
                f"{scan.shown[name]}, expected {wanted}"
            )


def exclusion_reasons(
    config: InputConfig, scan: Scan, features: Sequence[str], ignored: Mapping[str, str]
) -> dict[str, str]:
    """Return the reasons why the columns that are not in `features` are excluded, by column."""
    uses = dict.fromkeys(where_columns(config.where), "of input.where")
    named = (("classes", config.classes), ("id", config.id))
    uses |= {name: f"input.{field}" for field, name in named if name}
    uses = {**ignored, **uses}
    used, listed = set(features), set(scan.default)

    def reason(name: str) -> str:
        if name in uses or config.columns is not None:
            more = "" if is_default(scan.types[name]) else f", {scan.shown[name]}"
            return uses.get(name, NOT_CHOSEN + more)
        if _PANDAS_INDEX.fullmatch(name):
            return PANDAS_INDEX
        if not name:
            return "a column without a name, such as an index"
        if name in scan.apart:
            return scan.apart[name]
        if name in scan.keys:
            return PARTITION_KEY
        if name not in listed and name not in scan.problems:
            return "not listed in attribute 'columns'"
        if name in scan.problems:
            return scan.problems[name]
        shown = scan.shown[name]
        if holds_numbers(scan.types[name]) and not is_usable(scan.types[name]):
            return NESTED.format(kind=shown)
        return shown.removeprefix("a ")

    return {name: reason(name) for name in scan.types if name not in used}


def check_names(path: str, features: Sequence[Feature]) -> None:
    """Raise `DataError` for too many numeric columns, an empty name, or a name used twice."""
    names = names_of(features)
    if len(names) > MAX_WIDTH:
        raise too_many_columns(path, len(names))
    if "" in names:
        raise DataError(f"input.columns: a feature of {path} has no name: name its column")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        makers = [feature.column for feature in features if twice in feature.names]
        raise DataError(
            f"{path}: columns {' and '.join(map(repr, makers))} both become a column named "
            f"{twice!r}; leave one of the two out by input.exclude, or rename it in the table"
        )


def too_many_columns(path: str, n_columns: int) -> DataError:
    """Return the error for more than `MAX_WIDTH` feature columns."""
    return DataError(
        f"{path} has {n_columns:,} feature columns, expected at most {MAX_WIDTH:,}; name the "
        "columns to use in input.columns, or write fewer columns, such as 100 components of "
        "scikit-learn's TruncatedSVD"
    )


def truncated(words: Sequence[str], most: int = 20) -> str:
    """Return the first words, and the number of further words."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _default(
    config: InputConfig, scan: Scan, categories: Collection[str], ignored: Collection[str]
) -> tuple[str, ...]:
    apart = {*other_columns(config), *scan.keys, *ignored, ""}
    listed = {n for n in scan.default if n not in apart and not _PANDAS_INDEX.fullmatch(n)}

    numeric = {name for name in listed if is_default(scan.types[name])}
    names = dict.fromkeys([*scan.default, *scan.types])
    features = tuple(name for name in names if name in categories or name in numeric)
    if not features:
        raise DataError(
            f"{config.shown} has no numeric column to use as a feature; "
            f"found {truncated([f'{n} ({t})' for n, t in scan.shown.items()])}"
        )
    return features


def check_column(column: str, field: str, path: str, scan: Scan) -> None:
    """Raise `DataError` if a column that a field of the job names is missing or unreadable."""
    if column in scan.problems:
        raise DataError(f"{field}: {scan.problems[column]}")
    if column not in scan.types:
        close = difflib.get_close_matches(column, scan.types, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
        hint = hint or f"available: {truncated(list(scan.types))}"
        raise DataError(f"{field}: {path} has no column {column!r}; {hint}")


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one.equals(other):
        return one
    pair = [pa.schema([pa.field("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return pa.float64() if is_numeric(one) and is_numeric(other) else None
