"""The formats that tables come in; each is one file here and one entry below."""

from __future__ import annotations

from distsvc.errors import DataError
from distsvc.storage.files import Files, find_files
from distsvc.storage.location import Location
from distsvc.storage.source import Source
from distsvc.storage.sources.csv import Csv
from distsvc.storage.sources.parquet import Parquet
from distsvc.storage.sources.svmlight import Svmlight
from distsvc.storage.sources.zarr import Zarr

SOURCES: tuple[Source, ...] = (Zarr(), Csv(), Svmlight(), Parquet())
"""In the order in which they are asked; what none of them claims is the last one's."""


def find_source(location: Location) -> tuple[Source, Files]:
    """Return whose format a location is, and its files; those of a store are not listed.

    Raises
    ------
    InputNotFoundError
        There is nothing at the location.
    DataError
        It may not be read, or its files are named like those of two formats.

    """
    named = [source for source in SOURCES if location.is_named(source.suffixes)]
    for source in named or SOURCES:
        if source.is_store(location):
            return source, Files(location, location, {})
    found = find_files(location)
    claims = [(source, own) for source in SOURCES if (own := source.claim(found)).infos]
    if len(claims) > 1:
        (one, its), (other, others) = claims[:2]
        raise DataError(
            f"{location.shown} mixes {one.title} ({its.names[0]}) and {other.title} "
            f"({others.names[0]}); name one kind with a glob such as *{other.suffixes[0]}"
        )
    return claims[0] if claims else (SOURCES[-1], found)


def source_named(name: str) -> Source:
    """Return the source that reads the tables of a format."""
    return next(source for source in SOURCES if source.name == name)
