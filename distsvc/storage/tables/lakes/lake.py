"""Tables with a log, Delta Lake and Iceberg: what is common to reading them.

The log says which Parquet files a table consists of; `distsvc.storage.tables.lakes.snapshots`
describes what else it says. Files are found by it, and read as Parquet.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError
from distsvc.job.config import InputConfig
from distsvc.storage.places.arrays import read_arrays, write_arrays
from distsvc.storage.places.place import Place, place_of
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import Scan, plain
from distsvc.storage.rows.features import is_vector
from distsvc.storage.rows.versions import Versions
from distsvc.storage.rows.where import Condition
from distsvc.storage.tables.files import Files
from distsvc.storage.tables.lakes.snapshots import Part, Snapshot
from distsvc.storage.tables.parquet import (
    FOOTER_THREADS,
    Content,
    Parquet,
    Piece,
    footer,
    live_rows,
)

_ALIKE = (
    lambda kind: (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ),
    pa.types.is_temporal,
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    is_vector,
)
"""Types of one group are those that a column may have had before it got its present one."""


class Lake(Parquet):
    """Parquet files that a log lists; `found` of a kind of table returns a `Snapshot`."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    joins = False

    def needed(self, found: Files, condition: Condition | None) -> Files:
        """Return the files but for those whose partition's keys show that no row matches."""
        assert isinstance(found, Snapshot)
        return found.needed(condition)

    def versions(self, found: Files) -> Versions:
        """Return which version of its files a table consists of."""
        with _whole(found):
            return found.versions

    def scan(
        self, found: Files, config: InputConfig, staging: Place, categories: Collection[str] = ()
    ) -> Scan:
        """Read every file's footer, and compare it with the table's columns.

        Raises
        ------
        DataError
            A file is not Parquet, is damaged, may not be read or is no longer there.
        OutputPermissionError, TemporaryError
            Which rows are deleted can't be written into the staging folder.

        """
        assert isinstance(found, Snapshot)
        with _whole(found), ThreadPoolExecutor(FOOTER_THREADS) as pool:
            footers = list(pool.map(footer, found.places))
        problems: dict[str, str] = {}
        files, extents, units = [], [], []
        parts = zip(found.parts.values(), found.places, footers, strict=True)
        for part, place, (schema, groups) in parts:
            about = _about(found, part, schema, place.shown, problems)
            live = [rows for rows in live_rows(groups, _mask(part.deleted, sum(groups))) if rows]
            files.append(about)
            extents += live
            units.append(len(live))
        deleted = [part.deleted for part in found.parts.values()]
        digest = _digest(files, deleted)
        _write_deleted(staging, digest, deleted)
        schema = pa.schema(list(found.types.items()))
        return Scan(
            format=self.name,
            path=found.address,
            types=found.types,
            shown={name: str(kind) for name, kind in found.types.items()},
            problems=problems,
            default=tuple(found.types),
            extents=tuple(extents),
            root=found.folder.path,
            files=found.names,
            file_units=tuple(units),
            file_depths=(0,) * len(files),
            keys=found.partitioned_by,
            sources=(found.location.address,),
            lake={
                "digest": digest,
                "files": files,
                "schema": base64.b64encode(schema.serialize()).decode(),
                "staging": staging.address,
                "by_catalog": found.by_catalog,
            },
        )

    def varied(self, table: Table) -> set[str]:
        """Look at the statistics of the first row group, unless rows of that file are deleted."""
        about = table.lake["files"][0]
        if about["deleted"]:
            return set()
        own = super().varied(table)
        named = {n: about["names"].get(n, n) for n in table.stored if n not in about["values"]}
        return {name for name, theirs in named.items() if theirs in own}

    def content(self, table: Table, piece: Piece, file: pq.ParquetFile) -> Content:
        """Return what of a file is the table's, as the log says."""
        about, types = table.lake["files"][piece.number], _types(table.lake["schema"])
        held = {field.name: field.type for field in file.schema_arrow}
        names, kept = about["names"], None
        own = {n: held[names.get(n, n)] for n in types if n not in about["values"]}
        if about["deleted"]:
            place = place_of(table.lake["staging"])
            path = place.local(_deleted_name(table.lake["digest"], piece.number))
            kept = _mask(read_arrays(path)["deleted"], file.metadata.num_rows)
        return Content(
            names=names,
            values={n: _scalar(value, types[n]) for n, value in about["values"].items()},
            types={n: types[n] for n, kind in own.items() if plain(kind) != types[n]},
            kept=kept,
        )


@contextmanager
def _whole(found: Files) -> Iterator[None]:
    """Say of an error of a file whose state of the table has it."""
    try:
        yield
    except DataError as error:
        raise DataError(
            f"{found.location.shown} can't be read as a whole: {error}; files of earlier states go "
            "when a table is cleaned (VACUUM, expired snapshots)"
        ) from error


def _about(
    found: Snapshot, part: Part, schema: pa.Schema, shown: str, problems: dict[str, str]
) -> dict[str, Any]:
    """Return what a worker has to know of a file; tell of columns of types that don't fit."""
    held = found.held(schema, shown)
    values = {n: part.values.get(n) for n in found.types if n not in held}
    for name, own in held.items():
        there, kind = plain(schema.field(own).type), found.types[name]
        if there != kind and not any(alike(there) and alike(kind) for alike in _ALIKE):
            problems.setdefault(
                name, f"column {name!r} is {there} in {shown}, expected {kind} as in the table"
            )
    names = {name: own for name, own in held.items() if own != name}
    return {"names": names, "values": values, "deleted": part.deleted is not None}


def _mask(deleted: np.ndarray | None, n_rows: int) -> np.ndarray | None:
    """Return which rows of a file are kept."""
    if deleted is None:
        return None
    kept = np.ones(n_rows, bool)
    if len(deleted) and not 0 <= deleted[0] <= deleted[-1] < n_rows:
        raise DataError(f"expected deleted rows below {n_rows}, found {deleted[-1]}")
    kept[deleted] = False
    return kept


def _digest(files: list[dict[str, Any]], deleted: Sequence[np.ndarray | None]) -> str:
    """Return a SHA-256 of what of the files is the table's."""
    digest = hashlib.sha256(json.dumps(files).encode())
    for rows in deleted:
        if rows is not None:
            digest.update(rows.tobytes())
    return digest.hexdigest()


def _write_deleted(staging: Place, digest: str, deleted: Sequence[np.ndarray | None]) -> None:
    for number, rows in enumerate(deleted):
        name = _deleted_name(digest, number)
        if rows is not None and not staging.has(name):
            with staging.created(name) as path:
                write_arrays(path, {"deleted": rows})


def _deleted_name(digest: str, number: int) -> str:
    return f"deleted-{digest[:16]}-{number}.npz"


@lru_cache(maxsize=8)
def _types(schema: str) -> dict[str, pa.DataType]:
    """Return the types of the table's columns."""
    read = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
    return {field.name: field.type for field in read}


def _scalar(value: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return a value that was written as text, or null."""
    if value is None:
        return pa.scalar(None, kind)
    return pa.array([value], pa.string()).cast(kind)[0]
