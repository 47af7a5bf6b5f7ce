"""The published columns, the formats of published labels (Parquet, Zarr), and reading labels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AliasPath, Field

from distsvc.errors import DataError, DistsvcError, JobFileError, TemporaryError, one_line
from distsvc.errors.forms import Form, parsed
from distsvc.inputs.given import type_words
from distsvc.storage.places.arrays import file_facts, read_json, write_whole
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.manifest import MANIFEST, ListedFile, Manifest, checked
from distsvc.storage.rows.where import Condition, parse_where

if TYPE_CHECKING:
    from zarr import Array
    from zarr.core.buffer import Buffer


CHUNK_ROWS = 1_048_576
"""Maximum number of rows of a row group of Parquet, and of a chunk of Zarr."""


@dataclass(frozen=True)
class Column:
    """A published column."""

    name: str
    type: pa.DataType
    fill: float | bool | None  # fill value in Zarr; None if Zarr can't store the column
    meaning: str  # default text in the manifest
    key: str = ""  # key of ``[output]`` that adds the column; "" if it is always there


PUBLISHED_COLUMNS = (
    Column("row", pa.int64(), -1, "the input's id, or the row's number"),
    Column(
        "label",
        pa.int32(),
        -1,
        "int32, >= 0: the cluster; on a first run, 0 is the largest cluster of a sample",
    ),
    Column("score", pa.float32(), np.nan, "float32: the decision value; negative is outside"),
    Column("outlier", pa.bool_(), False, "bool: score < 0, the row lies outside every cluster"),
    Column(
        "reasons",
        pa.string(),
        None,
        "string: for an outlier, the columns that make the row an outlier, with their shares; null "
        "for other rows. If the algorithm finds no outliers: for the rows nearest to a border",
        "reasons",
    ),
    Column(
        "membership",
        pa.float32(),
        np.nan,
        "float32, 0 to 1: the share of the row's own cluster; the shares of all clusters add up to "
        "1",
        "membership",
    ),
    Column(
        "next",
        pa.list_(pa.int32()),
        None,
        "list of int32: the other clusters with the largest shares, the largest first",
        "top",
    ),
    Column(
        "next_share",
        pa.list_(pa.float32()),
        None,
        "list of float32, 0 to 1: the shares of the clusters in column 'next'",
        "top",
    ),
    Column("missing", pa.int32(), -1, "int32: the number of features without a value", "missing"),
)
"""All columns that can be published, in order; an id column replaces the first column, `row`."""


def published_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns with the given names, in order; the id column is not one of them."""
    unknown = set(names) - {column.name for column in PUBLISHED_COLUMNS[1:]}
    if unknown:
        raise ValueError(f"not published: {', '.join(sorted(unknown))}")
    return tuple(column for column in PUBLISHED_COLUMNS[1:] if column.name in names)


def meanings(id_name: str, names: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the meaning of each published column of a run, by name.

    `own` has texts of the run's rule, which replace the default texts.
    """
    found = {column.name: column.meaning for column in published_columns(names)}
    found |= {name: own[name] for name in found if name in own}
    return {id_name: PUBLISHED_COLUMNS[0].meaning} | found


def part_file(number: int) -> str:
    """Return the file name of a part, such as ``part-00003.parquet``."""
    return f"part-{number:05d}.parquet"


class PartWriter:
    """Writer of one part of the output, a Parquet file; `names` are the columns after the id."""

    def __init__(self, id_name: str, id_type: pa.DataType, names: Sequence[str]):
        fields = [(column.name, column.type) for column in published_columns(names)]
        self._schema = pa.schema([(id_name, id_type), *fields])
        self._batches: list[pa.RecordBatch] = []
        self.n_rows = 0

    def add(
        self, ids: np.ndarray | pa.Array, columns: Mapping[str, np.ndarray | Sequence[object]]
    ) -> None:
        """Add n rows: their ids or row numbers (n,), and the other columns' values (n,) by name."""
        expected = self._schema.names[1:]
        if columns.keys() != set(expected):
            raise ValueError(f"expected the columns {sorted(expected)}, found {sorted(columns)}")
        given = [ids, *(columns[name] for name in expected)]
        self._batches.append(pa.record_batch(given, schema=self._schema))
        self.n_rows += len(ids)

    def write(self, path: Path) -> dict[str, int | str]:
        """Write the part, and return its entry for the manifest."""
        table = pa.Table.from_batches(self._batches, self._schema)
        settings = {"row_group_size": CHUNK_ROWS, "use_dictionary": _repetitive(self._schema)}
        write_whole(path, lambda s: pq.write_table(table, s, **settings))
        footer = pq.read_metadata(path)
        if footer.num_rows != self.n_rows:
            raise TemporaryError(f"{path}: expected {self.n_rows} rows, found {footer.num_rows}")
        return {"rows": self.n_rows, **file_facts(path)}


def _repetitive(schema: pa.Schema) -> list[str]:
    """Return the paths of the Parquet columns that are stored with a dictionary of their values.

    These are all columns except integer ids and floats, whose values rarely repeat.
    """
    paths = []
    for field in schema:
        nested = pa.types.is_list(field.type)
        kind = field.type.value_type if nested else field.type
        is_number = pa.types.is_integer(kind) and field.name == schema.names[0]
        if not is_number and not pa.types.is_floating(kind):
            paths.append(f"{field.name}.list.element" if nested else field.name)
    return paths


def _parquet_parts(
    files: Sequence[str], local: Callable[[str], Path], columns: Sequence[str]
) -> Iterator[pa.Table]:
    for name in files:
        path = local(name)
        try:
            part = pq.ParquetFile(path).read(columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} can't be read: {error}") from error
        lacking = [column for column in columns if part.column_names.count(column) != 1]
        if lacking:
            raise DataError(
                f"{path}: column {lacking[0]!r} is missing or occurs twice, expected once, "
                "as in the manifest"
            )
        yield part


GROUP_METADATA = "zarr.json"


class Group(Form):
    """Metadata of a published Zarr group; `id` is the name of the id column."""

    id: str = Field(validation_alias=AliasPath("attributes", "id"))


def check_zarr(id_name: str, id_type: pa.DataType, names: Sequence[str]) -> None:
    """Raise `JobFileError` or `DataError` if Zarr can't store the columns of a run."""
    for column in published_columns(names):
        if column.fill is None:
            raise JobFileError(f"output.{column.key} needs output.format = 'parquet', found 'zarr'")
    if not pa.types.is_integer(id_type):
        raise DataError(
            "output.format 'zarr' needs whole numbers as ids; column "
            f"{id_name!r} is {type_words(id_type)}"
        )


def write_zarr(
    store: Store, source: Store, parts: Sequence[tuple[str, int]]
) -> dict[str, dict[str, int | str]]:
    """Write the parts in `source` as a Zarr group, and return the `file_facts` of its files.

    `parts` has the name and the number of rows of each part, in order. The group has an array for
    each column; chunks of fill values are stored, too. The array of the ids is ``row``, and the
    attribute ``id`` has the name of the id column.
    """
    n_rows = sum(rows for _, rows in parts)
    arrays, files = _created(pq.read_schema(source.local(parts[0][0])), n_rows)
    metadata, written = set(files), {}
    for start in range(0, n_rows, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, n_rows)
        tables, first = [], 0
        for name, rows in parts:
            begin, end = max(start - first, 0), min(stop - first, rows)
            if begin < end:
                tables.append(pq.read_table(source.local(name)).slice(begin, end - begin))
            first += rows
        for array, column in zip(arrays, pa.concat_tables(tables).columns, strict=True):
            array[start:stop] = column.combine_chunks().to_numpy(zero_copy_only=False)
        for name in files.keys() - metadata:  # write complete chunks, and free them
            written[name] = _put(store, name, files.pop(name))
    # The group's metadata comes last.
    for name in sorted(metadata, key=lambda name: name == GROUP_METADATA):
        written[name] = _put(store, name, files[name])
    return written


def _zarr_parts(
    files: Sequence[str], local: Callable[[str], Path], columns: Sequence[str]
) -> Iterator[pa.Table]:
    about = min((name for name in files if name.endswith(f"/{GROUP_METADATA}")), key=len)
    root = about.removesuffix(GROUP_METADATA)
    group = parsed(Group, read_json(local(about)), about)
    arrays = {}
    for column in columns:
        name = PUBLISHED_COLUMNS[0].name if column == group.id else column
        arrays[column] = _opened(root + name, files, local)
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1:
        raise DataError(f"{root}: expected arrays of one length, found {sorted(shapes)}")
    for (n_rows,) in shapes:
        for start in range(0, n_rows, CHUNK_ROWS):
            rows = slice(start, min(start + CHUNK_ROWS, n_rows))
            try:
                part = pa.table({name: array[rows] for name, array in arrays.items()})
            except Exception as error:  # damaged metadata can raise any kind
                raise DataError(f"{root} can't be read: {one_line(str(error))}") from error
            yield part


def _opened(folder: str, files: Sequence[str], local: Callable[[str], Path]) -> "Array":
    """Read the Zarr array of a folder into memory.

    `files` are the names of the run's label files, and `local` returns a file's path. Other files
    of the folder are ignored.
    """
    import zarr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    buffer = default_buffer_prototype().buffer
    own = [name for name in files if name.startswith(f"{folder}/")]
    held = {n.removeprefix(f"{folder}/"): buffer.from_bytes(local(n).read_bytes()) for n in own}
    try:
        array = zarr.open_array(MemoryStore(held), mode="r")
    except Exception as error:  # damaged metadata can raise any kind
        raise DataError(f"{folder} can't be read: {one_line(str(error))}") from error
    n_chunks = len(own) - 1
    if array.ndim != 1 or array.nchunks != n_chunks:  # Zarr reads missing chunks as fill values
        raise DataError(
            f"{folder}: expected an array with dimensions: 1, chunks: {array.nchunks:,}; found "
            f"dimensions: {array.ndim}, chunks: {n_chunks:,}"
        )
    return array


def _created(schema: pa.Schema, n_rows: int) -> tuple[list["Array"], dict[str, "Buffer"]]:
    """Create the Zarr arrays of a run in memory; return them, and their files by name."""
    import zarr  # a slow import
    from zarr.storage import MemoryStore

    files: dict[str, Buffer] = {}
    group = zarr.create_group(MemoryStore(files), attributes={"id": schema.names[0]})
    arrays = [
        group.create_array(
            column.name,
            shape=(n_rows,),
            chunks=(min(CHUNK_ROWS, n_rows),),
            dtype=column.type.to_pandas_dtype(),
            fill_value=column.fill,
            config={"write_empty_chunks": True},  # not part of the metadata
        )
        for column in (PUBLISHED_COLUMNS[0], *published_columns(schema.names[1:]))
    ]
    return arrays, files


def _put(store: Store, name: str, content: "Buffer") -> dict[str, int | str]:
    with store.created(name, again=False) as path:
        write_whole(path, lambda stream: stream.write(content.to_bytes()))
        return file_facts(path)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    stream = pa.BufferOutputStream()
    pq.write_table(table, stream)
    return bytes(stream.getvalue().to_pybytes())


LABELS_FOLDER = "labels/"

Filter: TypeAlias = Any
"""An expression of `pyarrow.compute`, a text, or None."""


def label_files(manifest: Manifest) -> list[ListedFile]:
    """Return the files of labels in a manifest, in the order of the table's rows."""
    files = [one for one in manifest.files if one.file.startswith(LABELS_FOLDER)]
    return sorted(files, key=lambda one: (len(one.file), one.file))


def label_parts(
    manifest: Manifest, local: Callable[[str], Path] | Store, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the named columns of all published rows, in tables.

    `local` is a function that returns the path of a listed file. It may also be the output's store,
    whose files are compared with the manifest.
    """
    files = {one.file: one for one in label_files(manifest)}
    place = local if callable(local) else lambda name: checked(local, files[name])
    found = 0
    if any(name.endswith(f"/{GROUP_METADATA}") for name in files):
        read = _zarr_parts
    elif files and all(name.endswith(".parquet") for name in files):
        read = _parquet_parts
    else:
        where = f"{MANIFEST}: expected files of labels, as Parquet or Zarr"
        raise DataError(f"{where}, found {len(files)}")
    for part in read(list(files), place, columns):
        found += len(part)
        yield part
    if found != manifest.rows:
        raise DataError(
            f"expected {manifest.rows:,} rows of labels, as {MANIFEST} says, found {found:,} in "
            "its files"
        )


def read_labels(
    manifest: Manifest,
    local: Callable[[str], Path],
    columns: Sequence[str] | str | None = None,
    filter: Filter = None,
) -> pa.Table:
    """Return published columns (default all) of a run's rows, in the order of its table.

    `local` returns the path of a listed file. The `filter` is an expression of `pyarrow.compute`,
    or a text like ``input.where``.
    """
    known = list(manifest.columns)
    if not known:
        raise DataError(f"{MANIFEST}: expected a schema with the columns of labels, found none")
    with _about_the_filter():
        condition = parse_where(filter) if isinstance(filter, str) else None
    wanted = [columns] if isinstance(columns, str) else known if columns is None else list(columns)
    used = condition.columns if condition else known if filter is not None else ()
    read = list(dict.fromkeys([*wanted, *used]))
    unknown = [name for name in read if name not in known]
    if unknown:
        raise DataError(f"expected published columns ({', '.join(known)}), found {unknown[0]!r}")
    found = [
        _filtered(part, condition or filter).select(wanted)
        for part in label_parts(manifest, local, read)
    ]
    try:
        return pa.concat_tables(found)
    except pa.ArrowException as error:
        raise DataError(f"files of labels in {MANIFEST} have different columns: {error}") from None


def _filtered(part: pa.Table, wanted: Filter) -> pa.Table:
    if wanted is None:
        return part
    try:
        if not isinstance(wanted, Condition):
            return part.filter(wanted)
        columns = {name: part[name].combine_chunks() for name in wanted.columns}
        with _about_the_filter():
            return part.filter(wanted.mask(columns))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"filter {wanted} does not suit the labels: {error}") from None


@contextmanager
def _about_the_filter() -> Iterator[None]:
    """Replace "input.where" by "filter" in the errors of a condition."""
    try:
        yield
    except DistsvcError as error:
        raise type(error)(str(error).replace("input.where", "filter", 1)) from None
