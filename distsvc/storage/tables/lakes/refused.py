"""The refusal of plain paths into Delta, Iceberg or Hudi tables, which also hold deleted rows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from distsvc.errors import JobFileError
from distsvc.storage.places.location import METADATA, Location

_DELTA, _HUDI, _ICEBERG = "_delta_log", (".hoodie", ".hoodie_partition_metadata"), "metadata"


def refuse_lakes(location: Location, folder: Location, names: Iterable[str]) -> None:
    """Raise `JobFileError`, with the path to write instead, for files of a table with a log.

    `names` are all files below the folder of a location, hidden ones too, or a glob's matches.
    """
    listed = list(names)
    for name in listed:
        _refuse_below(location, folder, name)
    if folder.path.startswith("http"):
        return  # a server may have an answer for every name
    above = {folder.path} | {f"{folder.path}/{name}".rpartition("/")[0] for name in listed}
    is_glob = any(set(part) & set("*?[") for part in location.path.split("/"))
    for path in sorted(above if is_glob else {folder.path}):  # a folder's files are all known
        _refuse_above(location, folder.at(path))


def _refuse_below(location: Location, folder: Location, name: str) -> None:
    """Look for the folders of a log in the path of a file."""
    parts = name.split("/")
    for k, part in enumerate(parts):
        table = "/".join([folder.path, *parts[:k]])
        if part == _DELTA and k < len(parts) - 1:
            raise _refused(location, folder.at(table), "a Delta table")
        if part in _HUDI:
            raise _refused(location, folder.at(table), "a Hudi table")
        if part == _ICEBERG and k == len(parts) - 2 and parts[-1].endswith(METADATA):
            raise _refused(location, folder.at(table), "an Iceberg table")


def _refuse_above(location: Location, folder: Location) -> None:
    """Look for a log in a folder and those of which it may be a partition."""
    for level in range(8):
        if folder.join(_DELTA).exists():
            raise _refused(location, folder, "a Delta table")
        if any(folder.join(name).exists() for name in _HUDI):
            raise _refused(location, folder, "a Hudi table")
        if _metadata(folder):
            raise _refused(location, folder, "an Iceberg table")
        above, _, name = folder.path.rpartition("/")
        asking_is_cheap = folder.is_local or level == 0 or "=" in name or name == "data"
        if not above or not asking_is_cheap:
            return
        folder = folder.at(above)


def _metadata(folder: Location) -> list[str]:
    """Return the names of the metadata files of an Iceberg table in a folder, the latest last."""
    place = folder.join(_ICEBERG)
    if not place.exists():
        return []
    paths = folder.fs.glob(f"{place.path}/*{METADATA}")

    def order(name: str) -> tuple[int, str]:
        number = re.match(r"v?(\d+)", name)
        return int(number[1]) if number else -1, name

    return sorted((str(path).rpartition("/")[2] for path in paths), key=order)


def _refused(location: Location, table: Location, kind: str) -> JobFileError:
    """Return the error for a path into a table with a log."""
    shown = _shown(location, table)
    hint = (
        "Hudi is not supported: write the table's present rows to Parquet files in another folder"
    )
    if kind == "a Delta table":
        hint = f"give delta://{shown}"
    elif kind == "an Iceberg table":
        latest = (_metadata(table) or [f"NAME{METADATA}"])[-1]
        hint = (
            f"give its metadata, iceberg://{shown}/{_ICEBERG}/{latest}, or its name in a catalog, "
            "iceberg://CATALOG/NAMESPACE.TABLE"
        )
    what = f"is {kind}" if location.path == table.path else f"names files of {kind}, {shown}"
    return JobFileError(
        f"input.path: {location.shown} {what}, and not all of its files may count; {hint}"
    )


def _shown(location: Location, table: Location) -> str:
    """Return a folder's path or URL, in the protocol of the location."""
    if location.is_local or "://" not in location.shown:
        return table.path
    return f"{location.shown.partition('://')[0]}://{table.path.lstrip('/')}"
