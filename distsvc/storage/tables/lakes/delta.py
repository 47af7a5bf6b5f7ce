"""Delta Lake tables, which a job names by ``delta://`` before the path or URL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, TemporaryError
from distsvc.errors.extras import check_extra
from distsvc.errors.faults import CREDENTIALS, classify_error
from distsvc.storage.places.location import Location
from distsvc.storage.places.remote import delta_options
from distsvc.storage.rows.columns import plain_type
from distsvc.storage.tables.lakes import lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FEATURES = {
    "appendOnly", "columnMapping", "deletionVectors", "domainMetadata", "timestampNtz",
    "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck", "variantType",
    "variantType-preview",
}  # fmt: skip
"""Delta's reader features that are supported; a table with any other can't be read."""

_MAPPED = "delta.columnMapping."
_HTTP_STATUS = re.compile(r"status:? (\d{3})|\b(\d{3}) (?:Forbidden|Unauthorized|Not Found)")
_UNREACHABLE = re.compile(r"error sending request|timed out|status: 5\d\d|client error \(Connect\)")


class Delta(lake.Lake):
    """A Delta Lake table in one version."""

    name = "delta"
    title = "Delta Lake"

    def found(self, location: Location) -> lake.Snapshot:
        check_extra("deltalake", "delta", location.shown)
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        version = lake.asked_state(location, "version")
        uri = location.path if location.is_local else location.lake.path
        options = None if location.is_local else delta_options(uri)
        try:
            table = DeltaTable(uri, version, storage_options=options)
        except TableNotFoundError:
            is_there = location.is_local and location.info()
            why = "is not a Delta table: it has no log" if is_there else "does not exist"
            raise InputNotFoundError(f"{location.shown} {why}") from None
        except Exception as error:
            raise _known(error, location, "log") from error
        with _reading(location, "log"):
            asked = set(table.protocol().reader_features or ())
        if asked - _FEATURES:
            raise DataError(
                f"{location.shown} has reader features that are not supported: "
                f"{', '.join(sorted(asked - _FEATURES))}; drop them (ALTER TABLE ... DROP "
                "FEATURE), or write the rows to another table"
            )
        with _reading(location, "log"):
            return _snapshot(location.pinned(f"version={table.version()}"), table)


@contextmanager
def _reading(location: Location, part: str) -> Iterator[None]:
    """Convert errors of deltalake to distsvc's, which name the `part` of the table."""
    try:
        yield
    except DistsvcError:
        raise
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # of Rust; it is no `Exception`
        if not (is_panic or isinstance(error, Exception)):
            raise
        why = ValueError(f"deltalake panics: {error}") if is_panic else error
        known = _known(why, location, part)
        if isinstance(known, InputNotFoundError):  # a file in the log was removed
            known = DataError(f"can't read the {part} of {location.shown}: {_words(error)}")
        raise known from error


def _words(error: BaseException) -> str:
    text = re.sub(r"\x1b\[\d+m", "", str(error)).replace("↳", "").replace("External error: ", "")
    return " ".join(text.split())[:300]


def _known(error: BaseException, location: Location, part: str) -> DistsvcError:
    """Return distsvc's error for an error of deltalake.

    The text of the error decides, because most errors of deltalake have the same class.
    """
    text = _words(error)
    if "LogSegment end version" in text:
        return InputNotFoundError(
            f"{location.shown} is not there: the table lacks this version, or its log was cleaned"
        )
    status = _HTTP_STATUS.search(text)
    code = next((one for one in status.groups() if one), "") if status else ""
    if code == "404":
        return InputNotFoundError(f"{location.shown} does not exist")
    if code in ("401", "403") or "credentials" in text:
        why = f"HTTP {code}" if code else "no credentials"
        return DataError(f"no permission to read {location.shown} ({why}); {CREDENTIALS}")
    if _UNREACHABLE.search(text):
        return TemporaryError(f"can't reach {location.shown}: {text}")
    known = classify_error(error, reading=location.shown) if getattr(error, "errno", None) else None
    return known or DataError(f"can't read the {part} of {location.shown}: {text}")


def _snapshot(location: Location, table: "DeltaTable") -> lake.Snapshot:
    fields = table.schema().fields
    mode = table.metadata().configuration.get(f"{_MAPPED}mode", "none")
    own = {one.name: one.metadata.get(f"{_MAPPED}physicalName") for one in fields}
    physical = {name: (mapped or name) for name, mapped in own.items()}
    numbers = {one.name: one.metadata.get(f"{_MAPPED}id", -1) for one in fields}
    types = {one.name: plain_type(one.type) for one in pa.schema(table.schema().to_arrow())}
    keys = tuple(table.metadata().partition_columns)
    return lake.snapshot_of(
        location,
        _parts(location, table, keys, physical),
        types=types,
        aliases={} if mode == "id" else {n: (own,) for n, own in physical.items() if n not in keys},
        ids={n: int(own) for n, own in numbers.items() if n not in keys} if mode == "id" else {},
        partitioned_by=keys,
    )


def _parts(
    location: Location, table: "DeltaTable", keys: tuple[str, ...], physical: dict[str, str]
) -> list[lake.DataFile]:
    live = pa.table(table.get_add_actions(flatten=True))
    deleted = _deleted(location, table)
    columns: dict[str, list[str | None]] = {}
    for key in keys:
        name = next(n for n in (key, physical[key]) if f"partition.{n}" in live.column_names)
        columns[key] = live[f"partition.{name}"].cast(pa.string()).to_pylist()
    parts = []
    pairs = zip(live["path"].to_pylist(), live["size_bytes"].to_pylist(), strict=True)
    root = location.path if location.is_local else location.lake.path.rstrip("/")
    for k, (path, size) in enumerate(pairs):
        url = unquote(path)
        url = url if "://" in url or url.startswith("/") else f"{root}/{url}"
        values = {key: column[k] for key, column in columns.items()}
        parts.append(lake.DataFile(url, size, values, values, deleted.get(_bare(url))))
    return parts


def _deleted(location: Location, table: "DeltaTable") -> dict[str, np.ndarray]:
    """Return the positions of deleted rows by the file's URL; files without any are left out."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = {}
    with _reading(location, "deletion vectors"):
        batches = list(pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    for batch in batches:
        for url, kept in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            mask = kept.values.to_numpy(zero_copy_only=False)
            found[_bare(unquote(url))] = np.flatnonzero(~mask).astype(np.int64)
    return found


def _bare(url: str) -> str:
    return url.removeprefix("file://")
