"""All input formats, and the choice of one for a path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distsvc.errors import DataError, JobFileError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.csv.source import Csv
from distsvc.storage.tables.files import Files, check_twins, find_files, joined
from distsvc.storage.tables.foreign import refuse_foreign
from distsvc.storage.tables.lakes.delta import Delta
from distsvc.storage.tables.lakes.iceberg import Iceberg
from distsvc.storage.tables.parquet import Parquet
from distsvc.storage.tables.source import Source
from distsvc.storage.tables.svmlight import Svmlight
from distsvc.storage.tables.zarr.source import Zarr

SOURCES: tuple[Source, ...] = (Zarr(), Csv(), Svmlight(), Delta(), Iceberg(), Parquet())
"""The formats in the order in which they claim files; the last one takes all others."""


def find_sources(locations: Sequence[Location], ready: str | None) -> tuple[Source, Files]:
    """Return the format of some locations, and all their files; errors as in `find_source`.

    `JobFileError` if they differ in format or file system, the format allows one path only, or a
    file is in two of them. `DataError` for a file and its packed copy.
    """
    each = [find_source(location, ready) for location in locations]
    for source, found in each:
        if len(each) > 1 and not source.joins:
            titles = _titles(one for one in SOURCES if one.joins)
            raise JobFileError(
                f"input.path: a list of paths can be of {titles}, found {source.title} "
                f"({found.location.shown})"
            )
    own = [(source, found) for source, found in each if found.infos] or each[:1]
    source, first = own[0]
    for other, found in own:
        if other is not source:
            raise JobFileError(
                f"input.path: the paths of a list must be of one format, found {source.title} "
                f"({first.location.shown}) and {other.title} ({found.location.shown})"
            )
    files = joined([found for _, found in own])
    check_twins(files)
    return source, files


def find_source(location: Location, ready: str | None = None) -> tuple[Source, Files]:
    """Return the format of a location, and its files without the marker `ready`.

    The files of a store are not listed. `InputNotFoundError` if the location does not exist;
    `DataError` if it is unreadable, or its files are of two formats or of an unknown one.
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
    read = own[0].suffixes[0] if own else None
    refuse_foreign(location, others, read, _titles(one for one in SOURCES if one.suffixes))
    source, its = own or (SOURCES[-1], found)
    unseen = [name for name in found.hidden if location.at(name).is_named(source.suffixes)]
    return source, replace(its, passed=(*others, *unseen) if own else ()).without_doubles()


def source_named(name: str) -> Source:
    """Return the source of a format."""
    return next(source for source in SOURCES if source.name == name)


def source_of(table: Table) -> Source:
    """Return the source of a table."""
    return source_named(table.layout.format)


def _titles(sources: Iterable[Source]) -> str:
    *others, last = (source.title for source in sources)
    return f"{', '.join(others)} or {last}"
