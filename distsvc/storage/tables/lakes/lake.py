"""The common part of Delta Lake and Iceberg tables.

A table's log lists its Parquet files, their deleted rows and their columns. The folder also has
files of other versions of the table. The version is fixed when a table is opened.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError, EmptyInputError, JobFileError
from distsvc.inputs.given import is_numeric, is_text, type_words
from distsvc.job.config import InputConfig
from distsvc.storage.places.arrays import read_arrays, write_arrays
from distsvc.storage.places.location import Location, Versions
from distsvc.storage.places.remote import REQUESTS_AT_ONCE
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.rows.blocks import LakeState, Layout, Table, TableFile
from distsvc.storage.rows.columns import Scan, plain_type
from distsvc.storage.rows.features import is_vector
from distsvc.storage.rows.where import Condition
from distsvc.storage.tables import parquet
from distsvc.storage.tables.files import Files, Infos

_ALIKE = (
    lambda kind: is_numeric(kind) and not pa.types.is_boolean(kind),
    pa.types.is_temporal,
    is_text,
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    is_vector,
)
"""Tests of Arrow types, one for each group of types that can be converted into each other.

A column may have other types in a file than in the table if one test accepts both.
"""

FIELD_ID = b"PARQUET:field_id"
"""Key of a column's field id in the metadata of a Parquet file."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a Delta or Iceberg table, as the table's log describes it."""

    url: str  # or a path
    size: int | None  # in bytes
    # Values of the partition columns, and of all columns that the file may lack, as text.
    keys: dict[str, str | None] = field(default_factory=dict)
    values: dict[str, str | None] = field(default_factory=dict)
    deleted: np.ndarray | None = None  # (m,) int64: positions of deleted rows, in order


@dataclass(frozen=True)
class Snapshot(Files):
    """The data files and columns of one version of a Delta or Iceberg table."""

    address: str = ""  # of a file; opens the file system
    parts: dict[str, DataFile] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)  # possible names in a file
    # Field ids of columns; empty if columns are found by name.
    ids: dict[str, int] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    by_catalog: bool = False  # whether a catalog has the settings to open the files

    def about(
        self, part: DataFile, schema: pa.Schema, shown: str, problems: dict[str, str]
    ) -> tuple[dict[str, str], dict[str, str | None]]:
        """Match a data file's columns with the table's columns; return two dictionaries.

        The first dictionary has the stored names of renamed columns. The second has constants, as
        text, for columns that the file lacks. Columns of an unsuitable type go to `problems`.
        """
        numbered = {
            int(one.metadata[FIELD_ID]): one.name
            for one in schema
            if one.metadata and FIELD_ID in one.metadata
        }
        if self.ids and numbered:
            held = {n: numbered[number] for n, number in self.ids.items() if number in numbered}
        elif self.aliases:
            there = set(schema.names)
            own = {n: [one for one in names if one in there] for n, names in self.aliases.items()}
            held = {name: found[0] for name, found in own.items() if found}
        else:
            raise DataError(
                f"the columns of {shown} have no field ids, and the table has no name mapping; "
                "rewrite the table's files"
            )
        for name, stored in held.items():
            kind, wanted = plain_type(schema.field(stored).type), self.types[name]
            if kind != wanted and not any(alike(kind) and alike(wanted) for alike in _ALIKE):
                found, expected = type_words(kind, wanted), type_words(wanted, kind)
                words = (
                    f"column {name!r} is {found} in {shown}, expected {expected} as in the table"
                )
                problems.setdefault(name, words)
        values = {n: part.values.get(n) for n in self.types if n not in held}
        names = {name: stored for name, stored in held.items() if stored != name}
        return names, values


class Lake(parquet.Parquet):
    """Base of the formats whose Parquet files are listed by a log; `found` reads the log."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    joins = False

    def needed(self, found: Files, condition: Condition | None) -> Files:
        """Return the files whose partition keys do not rule out rows that match a condition."""
        assert isinstance(found, Snapshot)
        if condition is None or any(one not in found.types for one in condition.columns):
            return found  # a missing column is refused later
        kept = {}
        for name, info in found.infos.items():
            keys = found.parts[name].keys
            known = {n: parquet.scalar(keys.get(n), found.types[n]) for n in condition.columns}
            if condition.may_match({n: pa.array([v], v.type) for n, v in known.items()}):
                kept[name] = info
        if found.infos and not kept:
            raise EmptyInputError(
                f"{found.location.shown} has no rows: input.where leaves none of its "
                f"{len(found.infos)} files"
            )
        return replace(found, infos=kept, parts={name: found.parts[name] for name in kept})

    def versions(self, found: Files) -> Versions:
        with _whole(found):
            return found.versions

    def scan(self, found: Files, config: InputConfig, staging: Store, categories: Set[str]) -> Scan:
        assert isinstance(found, Snapshot)
        with _whole(found), ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            footers = list(pool.map(parquet.footer, found.places))
        problems: dict[str, str] = {}
        files, extents = list[TableFile](), list[int]()
        parts = zip(found.parts.items(), found.places, footers, strict=True)
        for (name, part), place, (schema, groups) in parts:
            names, constants = found.about(part, schema, place.shown, problems)
            rows = parquet.live_rows(groups, _mask(part.deleted, sum(groups)))
            live = [n for n in rows if n]
            extents += live
            is_partial = part.deleted is not None
            files.append(TableFile(name, len(live), names, constants, is_partial))
        pairs = [(number, part.deleted) for number, part in enumerate(found.parts.values())]
        deleted = {number: places for number, places in pairs if places is not None}
        facts = [{"names": f.names, "values": f.values, "deleted": f.deleted} for f in files]
        hashed = hashlib.sha256(json.dumps(facts).encode())
        for places in deleted.values():
            hashed.update(places.tobytes())
        digest = hashed.hexdigest()
        for number, places in deleted.items():
            if not staging.has(name := _deleted_name(digest, number)):
                with staging.created(name) as path:
                    write_arrays(path, {"deleted": places})
        schema = pa.schema(list(found.types.items()))
        return Scan(
            layout=Layout(
                path=found.address,
                format=self.name,
                extents=tuple(extents),
                root=found.folder.path,
                files=tuple(files),
                lake=LakeState(digest, schema, staging.address, found.by_catalog),
            ),
            types=found.types,
            problems=problems,
            default=tuple(found.types),
            keys=found.partitioned_by,
            sources=(found.location.address,),
        )

    def content(self, table: Table, piece: parquet.Piece, file: pq.ParquetFile) -> parquet.Content:
        log, kept = table.layout.lake, None
        assert log is not None
        about, types = piece.file, {one.name: one.type for one in log.schema}
        held = {field.name: field.type for field in file.schema_arrow}
        own = {n: held[about.names.get(n, n)] for n in types if n not in about.values}
        if about.deleted:
            path = store_of(log.staging).local(_deleted_name(log.digest, piece.number))
            kept = _mask(read_arrays(path)["deleted"], file.metadata.num_rows)
        return replace(
            super().content(table, piece, file),
            types={n: types[n] for n, kind in own.items() if plain_type(kind) != types[n]},
            kept=kept,
        )


def snapshot_of(
    location: Location,
    parts: Sequence[DataFile],
    s3: Mapping[str, object] = MappingProxyType({}),
    **facts: Any,
) -> Snapshot:
    """Return the snapshot of a table whose data files are `parts`, sorted by path.

    The files must be in one file system. `s3` are a catalog's options to open them with fsspec, and
    `facts` are further fields of the `Snapshot`.
    """
    if not parts:
        return Snapshot(location, location.at(location.path), {}, **facts)
    roots = {_root(part.url): part.url for part in parts}
    if len(roots) > 1:
        one, other = list(roots.values())[:2]
        raise DataError(
            f"{location.shown}: expected all files in one file system or bucket, found {one} and "
            f"{other}"
        )
    first = Location.of(parts[0].url, s3)
    paths = [str(first.fs._strip_protocol(part.url)) for part in parts]
    folder = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    ordered = sorted(zip(paths, parts, strict=True), key=lambda pair: pair[0])
    own = {path[len(folder) :].lstrip("/"): part for path, part in ordered}
    infos: Infos = {name: {"size": part.size} for name, part in own.items()}
    facts |= {"address": first.address, "parts": own, "by_catalog": bool(s3)}
    return Snapshot(location, first.at(folder), infos, **facts)


def _root(url: str) -> str:
    """Return protocol and bucket of a URL, or "" for a path."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme in ("file", "local"):
        return ""
    return f"{scheme}://{rest.partition('/')[0]}"


def asked_state(location: Location, word: str) -> int | None:
    """Return the number of the version or snapshot that a URL pins, or None."""
    lake = location.lake
    name, _, number = lake.pin.partition("=")
    if not lake.pin:
        return None
    if name != word or not re.fullmatch(r"[0-9]{1,19}", number):
        raise JobFileError(
            f"input.path: expected {lake.kind}://PATH?{word}=NUMBER, found {location.shown}"
        )
    return int(number)


@contextmanager
def _whole(found: Files) -> Iterator[None]:
    """Explain in a file's `DataError` that the table's version may have been cleaned up."""
    try:
        yield
    except DataError as error:
        raise DataError(
            f"{found.location.shown} can't be read as a whole: {error}; cleaning a table (VACUUM, "
            "expired snapshots) removes the files of earlier versions"
        ) from error


def _mask(deleted: np.ndarray | None, n_rows: int) -> np.ndarray | None:
    """Return the mask (n,) bool of rows that are not deleted, or None without deleted rows."""
    if deleted is None:
        return None
    kept = np.ones(n_rows, bool)
    if len(deleted) and not 0 <= deleted[0] <= deleted[-1] < n_rows:
        raise DataError(f"expected row numbers of deleted rows below {n_rows}, found {deleted[-1]}")
    kept[deleted] = False
    return kept


def _deleted_name(digest: str, number: int) -> str:
    return f"deleted-{digest[:16]}-{number}.npz"
