"""CSV tables, which are first converted to a Parquet file in the run's staging folder.

A converted file is used again if every input file has a version tag (ETag or modification time) and
none has changed.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from distsvc.errors import DataError, EmptyInputError
from distsvc.inputs.given import is_text
from distsvc.inputs.mixed import MOST_LEVELS
from distsvc.inputs.rows import is_narrow
from distsvc.job.config import InputConfig
from distsvc.storage.places.arrays import write_whole
from distsvc.storage.places.location import Location
from distsvc.storage.places.store import Store
from distsvc.storage.rows.blocks import Layout, read_schema, schema_text
from distsvc.storage.rows.columns import (
    MAX_COMPARED_COLUMNS,
    NOT_UTF8,
    Scan,
    choose_features,
    merge_schemas,
    other_columns,
)
from distsvc.storage.rows.features import is_default
from distsvc.storage.rows.numeric_text import (
    NO_NUMBER,
    TextStats,
    are_thousands,
    matches,
    unicode_error,
)
from distsvc.storage.tables.csv import text
from distsvc.storage.tables.files import Files, find_files
from distsvc.storage.tables.parquet import Parquet

_LOG = logging.getLogger("distsvc")
_GROUP_ROWS = 262_144
"""Number of rows of a row group of the Parquet file."""
_BLOCK_BYTES = text.MAX_CSV_VALUE_BYTES
_COLUMNS_KEY = b"distsvc"
"""Key in the Parquet file's metadata for the types and problems of all CSV columns."""

_NULL = pa.scalar(None, pa.string())
_CODE_TYPES = (pa.int64(), pa.null(), pa.string(), pa.bool_())
"""Inferred types of columns whose values may be codes, such as 007."""

_CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+): Row #(?P<line>\d+): (?P<fault>.*)", re.DOTALL
)


class Csv(Parquet):
    """The input format CSV: text with a header, plain or compressed by gzip.

    Only columns that a job may use are converted. Types come from the first 16 MiB of each file.
    Whole numbers become float64, because a fraction may follow, except in the id, the label and
    columns of ``where``. docs/design/009-features.md describes ids and categories.
    """

    name = "csv"
    title = "CSV"
    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

    def claim(self, found: Files) -> Files:
        return found.named(self.suffixes)

    def scan(self, found: Files, config: InputConfig, staging: Store, categories: Set[str]) -> Scan:
        columns = None if config.columns is None else sorted(config.columns)
        key = [found.folder.path, found.versions, columns, other_columns(config), config.id]
        key += [sorted(config.exclude), sorted(categories)]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        target = f"csv-{digest[:16]}.parquet"
        known = all(version.tag for version in found.versions.values())
        if not (known and staging.has(target)):
            files = _Files.of(found, config)
            schema, codes = files.columns(config, set(categories))

            def write(stream: BinaryIO) -> None:
                with pq.ParquetWriter(stream, schema) as writer:
                    for table in _row_groups(_batches(files, schema, codes), schema):
                        writer.write_table(table, row_group_size=_GROUP_ROWS)

            # Reading raises no OSError here, so an OSError is about the target.
            with staging.created(target) as path:
                write_whole(path, write)
        file = Location.of(f"{staging.address}/{target}")
        scan = super().scan(find_files(file), config, staging, categories)
        with file.naming_errors(), file.open() as handle:
            about = json.loads(pq.read_schema(handle).metadata[_COLUMNS_KEY])
        types = {field.name: field.type for field in read_schema(about["types"])}
        used = {name: scan.types[name] for name in about["used"]}
        return replace(
            scan,
            layout=replace(scan.layout, format=self.name),
            types=types | used,
            comparable=scan.types,
            problems=about["problems"],
            default=tuple(types),
        )


class _File(NamedTuple):
    """A CSV file, the column types that Arrow inferred, and its first rows as text."""

    place: Location
    types: pa.Schema
    first: pa.RecordBatch
    decimal_point: str

    def kind(self, name: str) -> pa.DataType:
        return self.types.field(name).type


class _Files(NamedTuple):
    """The files of a table that have a header."""

    each: list[_File]

    @classmethod
    def of(cls, found: Files, config: InputConfig) -> "_Files":
        """Read the first rows of files; `EmptyInputError` if none has a header."""
        used = config.columns and {*other_columns(config), *config.columns}
        each = [_looked_at(one, used) for one in found.places if not text.head_of(one).is_empty]
        if not each:
            raise EmptyInputError(f"{config.shown} has no rows")
        return cls(each)

    def columns(self, config: InputConfig, categories: set[str]) -> tuple[pa.Schema, set[str]]:
        """Return the schema of the Parquet file, and the category columns that are read as text.

        The schema has only columns that the job may use; its metadata lists all CSV columns.
        """
        others, named = set(other_columns(config)), set(config.columns or ())
        kinds = {n: {one.kind(n) for one in self.having(n)} for n in categories}
        codes = {n for n in categories if kinds[n] <= set(_CODE_TYPES)}
        as_text = codes | {n for n in [config.id] if n and self._is_code_like(n)}
        schemas = [_with_types(one.types, dict.fromkeys(as_text, pa.string())) for one in self.each]
        shown = [one.place.shown for one in self.each]
        types, problems = merge_schemas(schemas, shown)
        problems |= {n: NOT_UTF8 for n in types if pa.types.is_binary(types[n]) and n not in others}
        numbers = set(types if config.columns is None else named) - others - categories
        numbers -= set(config.exclude)
        self._check_text(numbers, others - {config.id}, named)
        # These are stored as decimals. So are integers above 64 bits that `where` compares.
        exact = {name for name in numbers.intersection(types) if self._all(name, _is_large)}
        for name, kind in types.items():
            if pa.types.is_integer(kind) and name in numbers:
                types[name] = pa.float64()
            elif pa.types.is_null(kind) and name not in problems and name not in others:
                types[name] = pa.float64() if name in named else pa.string()
        for name in others - {config.id}:
            if pa.types.is_floating(types.get(name, pa.null())):
                exact |= {name} if self._all(name, text.are_large_integers) else set()
        types |= dict.fromkeys(exact, pa.decimal128(38, 0))
        # Text may be numbers or categories, and `[columns]` may name dates.
        more = {n for n in types.keys() - problems.keys() if not is_default(types[n])}
        more = more & named if config.columns is not None else more
        scan = Scan(Layout("", Csv.name, ()), types, problems, tuple(types))
        ignored = dict.fromkeys(config.exclude, "")
        features = choose_features(config, scan, {*categories, *(more - ignored.keys())}, ignored)
        stored = {name: types[name] for name in types if name in {*features, *others, *categories}}
        used = list(stored)
        compared = self._compared([name for name in types if name not in {*stored, *problems}])
        stored |= dict.fromkeys(compared, pa.string())
        schema = schema_text(pa.schema(list(types.items())))
        about = json.dumps({"types": schema, "problems": problems, "used": used})
        return pa.schema(list(stored.items()), {_COLUMNS_KEY: about}), codes

    def _compared(self, names: Sequence[str]) -> list[str]:
        """Return columns with few values, which a report can use to compare clusters."""
        found: list[str] = []
        for name in names:
            own = self.having(name)
            if any(pa.types.is_binary(one.kind(name)) for one in own):
                continue
            texts = pa.chunked_array([one.first[name] for one in own], pa.string())
            if len(own) == len(self.each) and 1 < pc.count_distinct(texts).as_py() <= MOST_LEVELS:
                found.append(name)
            if len(found) == MAX_COMPARED_COLUMNS:
                break
        return found

    def _is_code_like(self, name: str) -> bool:
        """Return True if a column has numbers that Python writes differently, such as 007."""
        numeric = pa.types.is_integer, pa.types.is_floating
        files = [one for one in self.having(name) if any(of(one.kind(name)) for of in numeric)]
        return not all(text.are_plain_integers(one.first[name]) for one in files)

    def _check_text(self, features: set[str], others: set[str], named: set[str]) -> None:
        """Raise `DataError` for columns of text that can't be used as they are.

        These are text that is not UTF-8, text that is mostly numbers, and numbers with grouped
        digits, such as "1,234".
        """
        for one in self.each:
            found = {}
            for name in [name for name in one.types.names if name in features | others]:
                values, kind = one.first[name], one.kind(name)
                if pa.types.is_binary(kind):
                    n_values = pc.count_distinct(values).as_py()
                    if name in named or (name in features and 1 < n_values <= MOST_LEVELS):
                        raise text.encoding_fault(one.place) or unicode_error(one.place.shown, name)
                    texts = (value and value.decode("latin-1") for value in values.to_pylist())
                    values = pa.array(texts, pa.string())
                if pa.types.is_floating(kind) and are_thousands(values):
                    raise text.thousands_error(one.place, name, values)
                if name in features and (is_text(kind) or pa.types.is_binary(kind)):
                    found[name] = TextStats().add(text.with_points(values, one.decimal_point))
            error = text.text_error(one.place, found)
            if error is not None:
                raise error

    def having(self, name: str) -> list[_File]:
        return [one for one in self.each if name in one.types.names]

    def _all(self, name: str, condition: Callable[[pa.Array], bool]) -> bool:
        known = [one.first[name] for one in self.having(name) if len(one.first)]
        return bool(known) and all(map(condition, known))


def _is_large(values: pa.Array) -> bool:
    """Return True for large integers so close together that float64 can't separate them."""
    if not text.are_large_integers(values):
        return False
    ends = pc.min_max(text.without_missing(values).cast(pa.float64())).as_py()
    return ends["min"] is not None and bool(is_narrow(ends["min"], ends["max"]))


def _looked_at(place: Location, used: Collection[str] | None) -> _File:
    with _reading(place) as reader:
        types, decimal_point = reader.schema, reader.decimal_point
    names = set(text.check_header(place.shown, types.names, used))
    types = pa.schema([field for field in types if field.name in names])
    as_text = {f.name: f.type if pa.types.is_binary(f.type) else pa.string() for f in types}
    with _reading(place, pa.schema(as_text)) as reader:
        first = next(iter(reader), pa.RecordBatch.from_pylist([], reader.schema))
    integers = (field.name for field in types if pa.types.is_integer(field.type))
    found = (n for n in integers if pc.any(matches(first[n], "(?i)^[+-]?0x")).as_py())
    hexadecimal = dict.fromkeys(found, pa.string())  # Arrow reads 0x1f in the first rows only
    if decimal_point != ".":
        _LOG.info("decimal commas", extra={"fields": {"file": place.shown}})
    return _File(place, _with_types(types, hexadecimal), first, decimal_point)


def _with_types(schema: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    return pa.schema([(field.name, types.get(field.name, field.type)) for field in schema])


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            table = pa.Table.from_batches(held, schema)
            whole = rows - rows % _GROUP_ROWS
            yield table.slice(0, whole)
            held = table.slice(whole).to_batches()
            rows -= whole
    if rows:
        yield pa.Table.from_batches(held, schema)


def _batches(files: _Files, schema: pa.Schema, codes: set[str]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the files.

    Empty texts become null. In the columns `codes`, words such as NA become null, too.
    """
    for file in files.each:
        with _reading(file.place, schema) as reader:
            n_rows = 0
            for batch in reader:
                n_rows += batch.num_rows
                for k, field in enumerate(batch.schema):
                    if pa.types.is_string(field.type):
                        missing = NO_NUMBER if field.name in codes else pa.array([""])
                        words = batch.column(k)
                        words = pc.if_else(pc.is_in(words, missing), _NULL, words)
                        batch = batch.set_column(k, field, words)
                yield batch
            swallowed = reader.quoted and reader.lines > n_rows + 1
        error = text.quote_fault(file.place) if swallowed else None
        if error is not None:
            raise error


@contextmanager
def _reading(file: Location, schema: pa.Schema | None = None) -> Iterator["_Reader"]:
    """Open a file to read the columns of `schema`, or all columns if it is None.

    If Arrow can't parse the file, `DataError` names the line.
    """
    try:
        with file.naming_errors(), _open(file, schema) as reader:
            yield reader
    except DataError as error:
        if "CSV" not in str(error):
            raise
        found, value = text.parse_error(file, error), _CONVERSION.fullmatch(str(error.__cause__))
        if found is not error or value is None or schema is None:
            raise found from None
        with _open(file) as reader:
            column = reader.schema.names[int(value["column"])]
        numbers = [one.name for one in schema if pa.types.is_floating(one.type)]
        odd = text.text_error(file, _words(file, numbers)) if column in numbers else None
        line = text.line_of(file, int(value["line"]) - 2)
        raise odd or DataError(
            f"{file.shown}, line {line}: column {column!r}: {value['fault']}"
        ) from None


def _words(file: Location, names: list[str]) -> dict[str, TextStats]:
    found = {name: TextStats() for name in names}
    as_text = pa.schema([(name, pa.string()) for name in names])
    row = 0
    with _reading(file, as_text) as reader:
        for batch in reader:
            for name, words in found.items():
                words.add(text.with_points(batch[name], reader.decimal_point), row)
            row += batch.num_rows
    return found


class _Reader:
    """The record batches of a file; counts lines and looks for quotes while Arrow reads."""

    def __init__(self, stream: Any, decimal_point: str, **options: Any):
        self._stream, self.closed, self.decimal_point = stream, False, decimal_point
        self.lines, self.quoted = 0, False
        self._batches = csv.open_csv(pa.PythonFile(self, mode="r"), **options)
        self.schema = self._batches.schema

    def read(self, size: int = -1) -> bytes:
        read: bytes = self._stream.read(size)
        self.lines += max(read.count(b"\n"), read.count(b"\r"))
        self.quoted = self.quoted or b'"' in read
        return read

    def close(self) -> None:
        """Do nothing: the caller closes the stream."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches


@contextmanager
def _open(file: Location, schema: pa.Schema | None = None) -> Iterator[_Reader]:
    head = text.head_of(file)
    if text.encoding_of(text.first_line(head.text)):
        raise text.line_encoding_error(file, text.first_line(head.text), 1)
    types = {field.name: field.type for field in schema} if schema is not None else None
    with file.open(cache="readahead") as handle:
        reader = _Reader(
            pa.CompressedInputStream(handle, "gzip") if head.is_packed else handle,
            decimal_point := head.decimal_point,
            # On several threads, which are no faster, errors would lack the row.
            read_options=csv.ReadOptions(
                block_size=_BLOCK_BYTES, use_threads=False, skip_rows=head.skip
            ),
            parse_options=csv.ParseOptions(delimiter=head.separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=list(types) if types is not None else None,
                decimal_point=decimal_point,
            ),
        )
        with reader._batches:
            yield reader
