"""CSV, which has no row ranges: streamed once into a Parquet file, and from then on Parquet.

The Parquet file lies in `staging`, the run's folder (a `Store`) for such copies; inputs are
`Location`s, which are only read. A file's version has a tag, its ETag or time of modification, if
the file system knows one: a copy is used again only if every version has one. `codes` are the
categories that look like whole numbers, which are read as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from distsvc.errors import DataError
from distsvc.inputs.exactness import is_narrow
from distsvc.job.config import InputConfig
from distsvc.storage.places.arrays import write_whole
from distsvc.storage.places.location import Location
from distsvc.storage.places.store import Store
from distsvc.storage.rows.columns import Scan, merge_schemas, other_columns
from distsvc.storage.rows.versions import unchanged
from distsvc.storage.tables.csv.faults import (
    Words,
    bad_bytes,
    explained,
    line_of,
    not_utf8,
    refused,
)
from distsvc.storage.tables.csv.text import (
    HEAD_BYTES,
    are_large_integers,
    are_plain_integers,
    check_distinct,
    check_header,
    encoding_of,
    first_line,
    separator,
    with_missing,
)
from distsvc.storage.tables.files import Files, find_files
from distsvc.storage.tables.parquet import Parquet

_GROUP_ROWS = 262_144
_EXACT = pa.decimal128(38, 0)
_BLOCK_BYTES = 16 << 20
_CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+): Row #(?P<line>\d+): (?P<fault>.*)", re.DOTALL
)


class Csv(Parquet):
    """CSV with a header, packed by gzip or not; the header tells what separates its fields.

    Types come from the first 16 MiB of each file. A column of whole numbers there becomes float64,
    as a fraction may follow, unless it is the id, the label or in the filter ``where``; so does a
    feature that the job names and that is empty at first. A column of text most of whose values
    there are numbers is refused, as a column of numbers with a value that can't be read. So is one
    of numbers that are spelled otherwise, such as 0,5. An id that a number would not give back is
    text, and so are whole numbers that are categories: 007 and 7 are two. An empty text is missing,
    quoted or not, as in a number; NA is a text. A file that an earlier call made from the same
    files is used again.
    """

    name = "csv"
    title = "CSV"
    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

    def scan(
        self, found: Files, config: InputConfig, staging: Store, categories: Collection[str] = ()
    ) -> Scan:
        """Write the files, in the order of their names, as one Parquet file, and scan that."""
        as_is, features = {*other_columns(config), *categories}, set(config.columns or ())
        unread = set(config.exclude)
        digest = _digest(found, as_is, features, set(categories), unread, id_name=config.id)
        target = f"csv-{digest}.parquet"
        known = all(version.tag for version in found.versions.values())
        if not (known and staging.has(target)):
            columns = None if config.columns is None else features
            codes = _codes(found, set(categories))
            schema = _schema(found, as_is, columns, codes, unread, config.id)
            # Faults of reading are no OSError by then: whose fault one is stays clear.
            with staging.created(target) as path:
                _convert(_batches(found, schema, codes), schema, path)
        file = Location.of(f"{staging.address}/{target}")
        scan = super().scan(find_files(file), config, staging)
        return replace(scan, layout=replace(scan.layout, format=self.name))


def _convert(batches: Iterator[pa.RecordBatch], schema: pa.Schema, target: Path) -> None:
    def write(stream: BinaryIO) -> None:
        with pq.ParquetWriter(stream, schema) as writer:
            for table in _row_groups(batches, schema):
                writer.write_table(table, row_group_size=_GROUP_ROWS)

    write_whole(target, write)


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


def _batches(found: Files, schema: pa.Schema, codes: set[str]) -> Iterator[pa.RecordBatch]:
    for file, recorded in zip(found.places, found.versions.values(), strict=True):
        with (
            unchanged(file, recorded),
            _naming_the_value(file, schema),
            _reading(file, schema) as reader,
        ):
            for batch in reader:
                yield with_missing(batch.select(schema.names), codes)


@contextmanager
def _reading(
    file: Location, schema: pa.Schema | None = None, use_threads: bool = True
) -> Iterator[Any]:
    """Open a file's rows; `DataError` names the line of what can't be read, and what to do."""
    try:
        with file.naming_errors(), _open(file, schema, use_threads) as reader:
            yield reader
    except DataError as error:
        if "CSV" not in str(error):
            raise
        raise explained(file, error) from None


@contextmanager
def _naming_the_value(file: Location, schema: pa.Schema) -> Iterator[None]:
    """Name column and line of a value that does not fit, which takes another reading, in order.

    Of columns of numbers it names all values that are none.
    """
    try:
        yield
    except DataError as error:
        if "CSV conversion error" not in str(error):
            raise
        try:
            with _open(file, schema, use_threads=False) as reader:
                deque(reader, maxlen=0)
        except pa.ArrowInvalid as again:
            found = _CONVERSION.fullmatch(str(again))
            if found:
                column, row = schema.names[int(found["column"])], int(found["line"]) - 2
                numbers = [one.name for one in schema if pa.types.is_floating(one.type)]
                odd = refused(file, _words(file, numbers)) if column in numbers else None
                raise odd or DataError(
                    f"{file.shown}, line {line_of(file, row)}: column {column!r}: {found['fault']}"
                ) from None
        raise


def _words(file: Location, names: list[str]) -> dict[str, Words]:
    """Return what stands in some columns of a file, in all rows."""
    found = {name: Words() for name in names}
    text = pa.schema([(name, pa.string()) for name in names])
    row = 0
    with _reading(file, text) as reader:
        for batch in reader:
            for name, words in found.items():
                words.add(batch[name], row)
            row += batch.num_rows
    return found


def _schema(
    found: Files,
    as_is: set[str],
    features: set[str] | None,
    codes: set[str],
    unread: set[str],
    id_name: str | None,
) -> pa.Schema:
    """Return the types of the columns; `codes` are text, and so is an id that looks like one.

    Columns that are `unread` may hold text most of whose values are numbers.
    """
    schemas: list[pa.Schema] = []
    large: list[set[str]] = []
    if id_name is not None and any(_is_text(file, id_name) for file in found.places):
        codes = codes | {id_name}
    given = pa.schema([(name, pa.string()) for name in sorted(codes)])
    for file in found.places:
        with _reading(file, given) as reader:
            schema = reader.schema
            check_header(file.shown, schema.names, schemas[0].names if schemas else schema.names)
            check_distinct(file.shown, schema.names)
            first = next(iter(reader), None)
        schemas.append(schema)
        chosen = (set(schema.names) if features is None else features) - as_is - unread
        if first is not None:
            _check_text(file, first, chosen, features or set())
            large.append(_large(file, first, chosen))
    types, problems = merge_schemas(schemas, [file.shown for file in found.places])
    if problems:
        raise DataError(next(iter(problems.values())))
    exact = dict.fromkeys(set.intersection(*large) if large else (), _EXACT)
    widened = {n: _widened(n, t, as_is, features or set()) for n, t in types.items()}
    return pa.schema(list((widened | exact).items()))


def _check_text(file: Location, first: pa.RecordBatch, chosen: set[str], named: set[str]) -> None:
    """Refuse columns of text most of whose first values are numbers, or that are no UTF-8."""
    found = {}
    for name in first.schema.names:
        values = first[name]
        if name not in chosen or not _is_of_text(values.type):
            continue
        if pa.types.is_binary(values.type):
            if name in named:
                raise bad_bytes(file)
            texts = (value and value.decode("latin-1") for value in values.to_pylist())
            values = pa.array(texts, pa.string())
        found[name] = Words().add(values)
    error = refused(file, found)
    if error is not None:
        raise error


def _is_of_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _large(file: Location, first: pa.RecordBatch, names: set[str]) -> set[str]:
    """Return the columns whose first values are integers that float64 rounds to almost one value.

    They are read as decimals, which are exact, and checked as a whole (`tables.exactness`).
    """
    near = []
    for name in names.intersection(first.schema.names):
        if pa.types.is_integer(first[name].type) or pa.types.is_floating(first[name].type):
            ends = pc.min_max(first[name].cast(pa.float64(), safe=False)).as_py()
            if ends["min"] is not None and is_narrow(ends["min"], ends["max"]):
                near.append(name)
    if not near:
        return set()
    with _reading(file, pa.schema([(name, pa.string()) for name in near])) as reader:
        values = next(iter(reader))
    return {name for name in near if are_large_integers(values[name])}


def _widened(name: str, kind: pa.DataType, as_is: set[str], features: set[str]) -> pa.DataType:
    whole = pa.types.is_integer(kind) and name not in as_is
    empty = pa.types.is_null(kind) and name in features
    return pa.float64() if whole or empty else kind


def _codes(found: Files, categories: set[str]) -> set[str]:
    """Return the categories that look like whole numbers, or are empty at first, in any file."""
    kinds: dict[str, list[pa.DataType]] = {name: [] for name in categories}
    for file in found.places if categories else ():
        with _reading(file) as reader:
            for name in categories.intersection(reader.schema.names):
                kinds[name].append(reader.schema.field(name).type)
    text = pa.string()
    return {
        name
        for name, each in kinds.items()
        if set(each) - {text} and set(each) <= {pa.int64(), pa.null(), text}
    }


def _is_text(file: Location, name: str) -> bool:
    """Return whether a column looks like numbers, which would not give back what is written."""
    with _reading(file) as reader:
        found = reader.schema.field(name).type if name in reader.schema.names else pa.null()
    if not (pa.types.is_integer(found) or pa.types.is_floating(found)):
        return False
    with _reading(file, pa.schema({name: pa.string()})) as reader:
        first = next(iter(reader), None)
    return first is not None and not are_plain_integers(first[name])


@contextmanager
def _open(
    file: Location, schema: pa.Schema | None = None, use_threads: bool = True
) -> Iterator[Any]:
    types = {field.name: field.type for field in schema} if schema is not None else None
    with file.open() as handle:
        head = _stream(file, handle).read(HEAD_BYTES)
    if encoding_of(first_line(head)):
        raise not_utf8(file, first_line(head), 1)
    with (
        file.open(cache="readahead") as handle,
        csv.open_csv(
            _stream(file, handle),
            read_options=csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=use_threads),
            parse_options=csv.ParseOptions(delimiter=separator(head), newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types),
        ) as reader,
    ):
        yield reader


def _stream(file: Location, handle: Any) -> Any:
    return pa.CompressedInputStream(handle, "gzip") if file.is_named([".gz"]) else handle


def _digest(found: Files, *columns: set[str], id_name: str | None) -> str:
    content = [found.folder.path, found.versions, *map(sorted, columns), id_name]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
