"""The list of all input formats, and a search for the format of a path."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distsvc.errors import (
    DataError,
    InputNotFoundError,
    InputNotReadyError,
    JobFileError,
    SkippedError,
)
from distsvc.job.config import InputConfig
from distsvc.storage.places.location import Location
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import truncated
from distsvc.storage.tables.csv.source import Csv
from distsvc.storage.tables.files import Files, base_of, check_twins, find_files, join_files
from distsvc.storage.tables.lakes.delta import Delta
from distsvc.storage.tables.lakes.iceberg import Iceberg
from distsvc.storage.tables.parquet import Parquet
from distsvc.storage.tables.source import Source
from distsvc.storage.tables.svmlight import Svmlight
from distsvc.storage.tables.zarr import Zarr

SOURCES: tuple[Source, ...] = (Zarr(), Csv(), Svmlight(), Delta(), Iceberg(), Parquet())
"""All input formats. Files that no format recognises are read as the last format, Parquet."""


def find_sources(locations: Sequence[Location], ready: str | None) -> tuple[Source, Files]:
    """Return the format that the locations have in common, and all their files."""
    each = [find_source(location, ready) for location in locations]
    for source, found in each:
        if len(each) > 1 and not source.joins:
            titles = _titles(one for one in SOURCES if one.joins)
            raise JobFileError(
                f"input.path: a list must name paths of {titles}, found {source.title} "
                f"({found.location.shown}): give a single path"
            )
    own = [(source, found) for source, found in each if found.infos] or each[:1]
    source, first = own[0]
    for other, found in own:
        if other is not source:
            raise JobFileError(
                f"input.path: the paths of a list must be of one format, found {source.title} "
                f"({first.location.shown}) and {other.title} ({found.location.shown})"
            )
    files = join_files([found for _, found in own])
    check_twins(files)
    return source, files


def find_source(location: Location, ready: str | None = None) -> tuple[Source, Files]:
    """Return the format of a location, and its files without the marker `ready`.

    The files of a store are not listed.
    """
    if location.lake.kind:
        source = source_named(location.lake.kind)
        return source, source.found(location)
    named = [source for source in SOURCES if location.is_named(source.suffixes)]
    for source in named or SOURCES:
        if source.is_store(location):
            return source, source.found(location)
    found = find_files(location, ready=ready)
    claims = [(source, its) for source in SOURCES if (its := source.claim(found)).infos]
    if len(claims) > 1:
        (one, its), (other, theirs) = claims[:2]
        raise DataError(
            f"{location.shown} mixes {one.title} ({its.names[0]}) and {other.title} "
            f"({theirs.names[0]}); name one kind with a glob such as *{other.suffixes[0]}"
        )
    own = next(iter(claims), None)
    others = [name for name in found.names if own is None or name not in own[1].infos]
    _refuse_foreign(location, others, own[0].suffixes[0] if own else None)
    source, its = own or (SOURCES[-1], found)
    unseen = [name for name in found.hidden if location.at(name).is_named(source.suffixes)]
    return source, replace(its, passed=(*others, *unseen) if own else ()).without_doubles()


def source_named(name: str) -> Source:
    """Return the source with a name, such as "csv"."""
    return next(source for source in SOURCES if source.name == name)


def source_of(table: Table) -> Source:
    """Return the source of a table."""
    return source_named(table.layout.format)


def _titles(sources: Iterable[Source]) -> str:
    *others, last = (source.title for source in sources)
    return f"{', '.join(others)} or {last}"


_ROW_SUFFIXES = (
    ".xlsx", ".xls", ".xlsm", ".ods", ".jsonl", ".ndjson", ".feather", ".arrow", ".ipc", ".orc",
    ".csv.zip", ".csv.bz2", ".csv.xz", ".csv.zst", ".tsv.bz2", ".parquet.gz", ".json.gz",
    ".jsonl.gz",
)  # fmt: skip
"""Suffixes of files that hold rows but can't be read; such a file is always an error."""
_OTHER_SUFFIXES = (
    ".zip", ".tar", ".tgz", ".7z", ".rar", ".gz", ".bz2", ".json", ".npy", ".npz", ".h5", ".hdf5",
    ".hdf", ".nc", ".mat", ".avro", ".arff", ".sas7bdat", ".sav", ".dta", ".rds", ".rdata", ".pkl",
    ".pickle", ".joblib", ".sqlite", ".sqlite3", ".db", ".duckdb", ".txt", ".dat", ".data", ".log",
    ".html", ".xml", ".pdf", ".md",
)  # fmt: skip
"""Suffixes that are an error only if the input has no file that can be read."""


def _refuse_foreign(location: Location, names: Iterable[str], read: str | None) -> None:
    """Raise `DataError` if the files `names`, which would be ignored, may hold rows.

    Files of a Zarr store inside the folder are an error, too. `read` is the suffix of the files
    that are read, or None if no format recognised a file.
    """
    for name in names:
        inside, mark, _ = f"{name}/".partition(".zarr/")
        if mark and "/" in name:
            raise DataError(
                f"{location.shown} is a folder that holds the Zarr store {inside}.zarr: "
                "give the path of one store"
            )
        short = name.rpartition("/")[2]
        suffixes = _ROW_SUFFIXES if read else _ROW_SUFFIXES + _OTHER_SUFFIXES
        is_part = read and short.lower().startswith("part-") and "." not in short
        if not is_part and not short.lower().endswith(suffixes):
            continue
        whole = location.shown if location.path.endswith(short) else f"{location.shown}: {name}"
        glob = f"; or read the others by a glob such as *{read}" if read else ""
        formats = _titles(one for one in SOURCES if one.suffixes)
        raise DataError(
            f"{whole} is not named like {formats}: give it the suffix of its format (*.csv, *.svm, "
            f"*.parquet), unpack it, or write it as Parquet{glob}"
        )


def check_ready(config: InputConfig, skip_missing: bool = False) -> None:
    """Raise `InputNotReadyError` if the input of a job is incomplete.

    If ``input.ready`` is set, each path must have the file of this name; else each path must
    exist. If `skip_missing` is true, `SkippedError` is raised instead. `JobFileError` if
    ``input.ready`` is set but a path is a file, or a Delta or Iceberg table.
    """
    places = [Location.of(path) for path in config.path]
    if config.ready is None and not skip_missing:
        find_sources(places, None)
        return
    late = [what for what in (_awaited(place, config.ready) for place in places) if what]
    if late:
        words = f"input.path: not there yet: {truncated(late)}"
        raise SkippedError(f"{words}; skipped") if skip_missing else InputNotReadyError(words)


def _awaited(place: Location, ready: str | None) -> str | None:
    """Return the path, or its file `ready`, that does not exist yet; None if both exist."""
    if place.fs is not None:
        place.fs.invalidate_cache()
    if ready is None:
        try:
            source, files = find_source(place)
        except InputNotFoundError:
            return place.shown
        return None if not source.is_store(place) or source.versions(files) else place.shown
    if place.lake.kind:
        raise JobFileError(
            f"input.ready: not supported for {place.shown}: a Delta or Iceberg table is always "
            "complete; leave the key out"
        )
    with place.naming_errors():
        info = place.info()
        if info and info["type"] != "directory" and not place.path.startswith("http"):
            raise JobFileError(
                f"input.ready: expected a folder that has {ready!r}, found the file {place.shown}"
            )
        folder = place.path if info else base_of(place.path)
        found = place.at(folder).join(ready).info()
    if found and found["type"] != "directory":
        return None
    return f"{place.shown if info else base_of(place.shown)}/{ready}"
