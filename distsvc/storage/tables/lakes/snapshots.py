"""The state of a table with a log: which files it consists of, and what of them is its own.

Delta Lake and Iceberg keep files that are no longer part of a table, and say beside the files which
rows and columns of the others count. What they say is fixed when a table is opened.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.versions import check_version
from distsvc.storage.rows.where import Condition
from distsvc.storage.tables.files import Files

FIELD_ID = b"PARQUET:field_id"

_THREADS = 16
"""That wait for a store at a time."""


@dataclass(frozen=True)
class Part:
    """A data file of a table with a log.

    Attributes
    ----------
    url : str
        Its path or URL, in the file system of the table's other files.
    size : int or None
        Bytes.
    keys : dict
        Its values of the columns by which the table is partitioned, as text.
    values : dict
        Values, as text, of columns that it may lack; null where nothing is said of one.
    deleted : ndarray of int64 or None
        Positions of the rows that are no longer part of the table, in order.

    """

    url: str
    size: int | None
    keys: dict[str, str | None] = field(default_factory=dict)
    values: dict[str, str | None] = field(default_factory=dict)
    deleted: np.ndarray | None = None


@dataclass(frozen=True)
class Snapshot(Files):
    """The files of a table in one state, in the order of their names.

    Attributes
    ----------
    address : str
        What finds the file system of the files again.
    parts : dict of str to Part
        What is known of each file, by its name.
    types : dict
        Each column's Arrow type.
    aliases : dict
        What a file may call each column, where it is found by its name.
    ids : dict
        The number of each column in the files; empty where names alone tell.
    partitioned_by : tuple of str
        The columns by which the table is partitioned.
    by_catalog : bool
        Whether the files are opened with what a catalog says, not with the environment alone.

    """

    address: str = ""
    parts: dict[str, Part] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    by_catalog: bool = False

    def held(self, schema: pa.Schema, shown: str) -> dict[str, str]:
        """Return what a file calls each column that it holds.

        Raises
        ------
        DataError
            Its columns have no numbers, by which alone they could be told.

        """
        numbered = {
            int(one.metadata[FIELD_ID]): one.name
            for one in schema
            if one.metadata and FIELD_ID in one.metadata
        }
        if self.ids and numbered:
            return {n: numbered[number] for n, number in self.ids.items() if number in numbered}
        if not self.aliases:
            raise DataError(
                f"{shown} does not number its columns, and the table has no mapping of names; "
                "rewrite the table's files"
            )
        present = set(schema.names)
        found = {n: [one for one in names if one in present] for n, names in self.aliases.items()}
        return {name: own[0] for name, own in found.items() if own}

    def needed(self, condition: Condition | None) -> Snapshot:
        """Return the files but for those none of whose rows can match, by their partition's keys.

        Raises
        ------
        DataError
            There is none left.

        """
        if condition is None:
            return self
        kept = {n: info for n, info in self.infos.items() if self._may_match(n, condition)}
        if self.infos and not kept:
            raise DataError(
                f"{self.location.shown} has no rows: input.where leaves none of its "
                f"{len(self.infos)} files"
            )
        return replace(self, infos=kept, parts={name: self.parts[name] for name in kept})

    def _may_match(self, name: str, condition: Condition) -> bool:
        if any(column not in self.types for column in condition.columns):
            return True  # and is told of later
        keys = self.parts[name].keys
        known = {n: pa.array([keys.get(n)], pa.string()) for n in condition.columns}
        return condition.may_match({n: v.cast(self.types[n]) for n, v in known.items()})


def snapshot_of(
    location: Location,
    parts: Sequence[Part],
    s3: Mapping[str, Any] = MappingProxyType({}),
    **facts: Any,
) -> Snapshot:
    """Return the snapshot of some files, sorted; they lie in one file system and bucket.

    `s3` are options of fsspec by which a catalog has them opened, `facts` other fields of
    `Snapshot`.

    Raises
    ------
    DataError
        They don't.

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
    infos = {name: {"size": part.size} for name, part in own.items()}
    facts |= {"address": first.address, "parts": own, "by_catalog": bool(s3)}
    return Snapshot(location, first.at(folder), infos, **facts)


def check_snapshot(table: Table, folder: Location) -> None:
    """Compare the files of a table with a log with those that were there when it was opened.

    Parameters
    ----------
    table
    folder
        That holds its files.

    Raises
    ------
    DataError
        One changed or has gone.
    TemporaryError
        The store does not answer.

    """
    with ThreadPoolExecutor(_THREADS) as pool:
        pairs = ((folder.join(name), version) for name, version in table.versions.items())
        list(pool.map(lambda pair: check_version(*pair), pairs))


def _root(url: str) -> str:
    """Return protocol and bucket of a URL, or nothing for a path."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme in ("file", "local"):
        return ""
    return f"{scheme}://{rest.partition('/')[0]}"
