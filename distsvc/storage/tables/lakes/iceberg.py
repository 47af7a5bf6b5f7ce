"""Iceberg tables.

A job names a table by ``iceberg://`` before its metadata file, or before its name in a catalog.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, JobFileError
from distsvc.errors.extras import check_extra
from distsvc.errors.faults import classify_error
from distsvc.storage.places import remote
from distsvc.storage.places.location import Location
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import plain_type
from distsvc.storage.tables.lakes import lake

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask
    from pyiceberg.table import Table as IcebergTable


class Iceberg(lake.Lake):
    """An Iceberg table in one snapshot."""

    name = "iceberg"
    title = "Iceberg"

    def found(self, location: Location) -> lake.Snapshot:
        asked = lake.asked_state(location, "snapshot")
        check_extra("pyiceberg", "iceberg", location.shown)
        try:
            table = _opened(location)
            snapshot = table.snapshot_by_id(asked) if asked else table.current_snapshot()
            if asked and snapshot is None:
                raise InputNotFoundError(f"{location.shown}: the table has no snapshot {asked}")
            if snapshot is None:
                return lake.snapshot_of(location, [])
            scan = table.scan(snapshot_id=asked)  # None: the current snapshot and schema
            return _snapshot(location.pinned(f"snapshot={snapshot.snapshot_id}"), table, scan)
        except DistsvcError:
            raise
        except Exception as error:
            raise _known(error, location) from error

    def folder(self, table: Table) -> Location:
        """Return the folder of a table's files, opened with the settings of its catalog, if any.

        Each process reads the settings again after some minutes, because credentials expire.
        """
        layout = table.layout
        if not (layout.lake and layout.lake.by_catalog):
            return super().folder(table)
        asked = int(time.monotonic() / remote.ASKED_AGAIN.total_seconds())
        return Location.of(layout.path, _options(table.sources[0], asked)).at(layout.root)


@lru_cache(maxsize=16)
def _options(url: str, asked: int) -> remote.Options:
    """Return the options, such as credentials, with which a catalog lets us open a table's files.

    The result is cached. To renew it, the caller passes a new number as `asked`.
    """
    location = Location.of(url)
    try:
        check_extra("pyiceberg", "iceberg", location.shown)
        return remote.catalog_options(_opened(location).io.properties)
    except JobFileError as error:
        fields = {"url": location.shown, "because": str(error)}
        log = logging.getLogger("distsvc")
        log.warning("credentials are those of the environment", extra={"fields": fields})
        return {}
    except DistsvcError:
        raise
    except Exception as error:
        raise _known(error, location) from error


def _opened(location: Location) -> "IcebergTable":
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import StaticTable

    if location.fs is not None:
        if not location.info():
            raise location.not_found()
        path = f"file://{location.path}" if location.is_local else location.lake.path
        return StaticTable.from_metadata(path, remote.iceberg_options(path))
    catalog, _, name = location.lake.path.partition("/")
    if not catalog or "." not in name or "/" in name:
        raise JobFileError(
            "input.path: expected iceberg://PATH/metadata/NAME.metadata.json or "
            f"iceberg://CATALOG/NAMESPACE.TABLE, found {location.shown}"
        )
    try:
        known = load_catalog(catalog)
    except ValueError as error:
        raise JobFileError(
            f"input.path: {location.shown}: pyiceberg has no catalog {catalog!r}: {error}"
        ) from None
    with closing(known):  # a catalog in a database keeps connections
        return known.load_table(name)


def _known(error: Exception, location: Location) -> DistsvcError:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    words = " ".join(str(error).split())[:300]
    if "equality delete" in words:
        return DataError(
            f"{location.shown} has files of equality deletes, which are not supported; rewrite its "
            "data files first (CALL ... rewrite_data_files with 'delete-file-threshold' = 1)"
        )
    if kinds & {"NoSuchTableError", "NoSuchNamespaceError", "NoSuchIdentifierError"}:
        return InputNotFoundError(f"{location.shown} does not exist: {words}")
    known = classify_error(error, reading=location.shown)
    return known or DataError(f"can't read the metadata of {location.shown}: {words}")


def _snapshot(location: Location, table: "IcebergTable", scan: "DataScan") -> lake.Snapshot:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema = scan.projection()
    types = {one.name: plain_type(one.type) for one in schema_to_pyarrow(schema)}
    ids = {one.name: one.field_id for one in schema.fields}
    mapping = table.name_mapping()  # for files that don't number their columns
    names = {one.field_id: tuple(one.names) for one in mapping.root} if mapping is not None else {}
    defaults = {
        one.name: _text(one.initial_default, types[one.name])
        for one in schema.fields
        if one.initial_default is not None
    }
    parts, tasks, specs = [], list(scan.plan_files()), table.metadata.specs()
    for task, deleted in zip(tasks, _deleted_rows(table.io, location.shown, tasks), strict=True):
        file = task.file
        if _format(file) != "PARQUET":
            raise DataError(
                f"{location.shown} has files that are {file.file_format.value}, expected Parquet; "
                "rewrite the table's files"
            )
        places = _identities(specs[file.spec_id], schema)
        keys = {name: _text(file.partition[k], types[name]) for k, name in places.items()}
        size, values = file.file_size_in_bytes, defaults | keys
        parts.append(lake.DataFile(file.file_path, size, keys, values, deleted))
    by_catalog = location.fs is None and parts and remote.is_s3(parts[0].url)
    return lake.snapshot_of(
        location,
        parts,
        s3=remote.catalog_options(table.io.properties) if by_catalog else {},
        types=types,
        ids=ids,
        aliases={n: names.get(number, ()) for n, number in ids.items() if mapping is not None},
        partitioned_by=tuple(_identities(table.spec(), schema).values()),
    )


def _identities(spec: "PartitionSpec", schema: "Schema") -> dict[int, str]:
    """Return the columns whose values are partition keys, by position in the partition spec.

    Columns whose keys are transformed values, such as the month of a date, are left out.
    """
    from pyiceberg.transforms import IdentityTransform

    own = {one.field_id: one.name for one in schema.fields}
    return {
        k: own[field.source_id]
        for k, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and field.source_id in own
    }


def _text(value: object, kind: pa.DataType) -> str | None:
    """Return a value of a partition as text that Arrow can convert back."""
    if value is None:
        return None
    if pa.types.is_temporal(kind) and isinstance(value, int):
        number = pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64())
        return str(number.cast(kind).cast(pa.string()).as_py())
    return str(pa.scalar(value).cast(kind).cast(pa.string()).as_py())


def _deleted_rows(
    io: "FileIO", shown: str, tasks: Sequence["FileScanTask"]
) -> Iterator[np.ndarray | None]:
    """Yield the positions of deleted rows in each task's data file; None if there are none."""
    files = {one.file_path: one for task in tasks for one in task.delete_files}
    positions = {path: _positions(io, shown, file) for path, file in files.items()}
    for task in tasks:
        found = (positions[one.file_path].get(task.file.file_path) for one in task.delete_files)
        several = [rows for rows in found if rows is not None]
        yield np.unique(np.concatenate(several)) if several else None


def _positions(io: "FileIO", shown: str, file: "IcebergFile") -> dict[str, np.ndarray]:
    """Return the positions of deleted rows that a delete file lists, by data file."""
    if _format(file) != "PARQUET":
        raise DataError(
            f"{shown} has deleted rows listed in {_format(file)} files, expected Parquet; rewrite "
            "its data files first (CALL ... rewrite_data_files)"
        )
    with io.new_input(file.file_path).open() as stream:
        listed = pq.read_table(stream, columns=["file_path", "pos"])
    paths = listed["file_path"].combine_chunks().dictionary_encode()
    codes, rows = paths.indices.to_numpy(), listed["pos"].to_numpy().astype(np.int64)
    order = np.argsort(codes, kind="stable")
    borders = np.searchsorted(codes[order], np.arange(1, len(paths.dictionary)))
    return dict(zip(paths.dictionary.to_pylist(), np.split(rows[order], borders), strict=True))


def _format(file: "IcebergFile") -> str:
    return str(getattr(file.file_format, "value", file.file_format)).upper()
