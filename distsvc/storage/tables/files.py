"""The files of an input, which is a file, a folder, a glob, or a list of these."""

import errno
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from fsspec.utils import glob_translate

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.storage.places.location import ICEBERG_METADATA, Info, Location, Versions, version_of
from distsvc.storage.rows.columns import truncated

Infos = dict[str, Info]
"""The file system's metadata by file name; {} for a file whose metadata isn't known yet."""

_PACKINGS = {"gz", "gzip", "bz2", "zst", "zstd", "xz", "lz4", "snappy", "zip"}
"""Suffixes of packed files, in lower case."""

SUCCESS = "_SUCCESS"
"""The marker of Spark and others for a complete folder."""


@dataclass(frozen=True)
class Files:
    """The files that belong to an input, found at one or several paths."""

    location: Location  # the given location; the first one of several
    folder: Location  # names are relative to this folder
    infos: Infos
    # Number of leading folders of a file's name that belong to its location; 0 if absent.
    above: dict[str, int] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()  # names of files or folders that begin with "." or "_"
    passed: tuple[str, ...] = ()  # files that are not read, with the reason

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.infos)

    @property
    def places(self) -> list[Location]:
        return [self.folder.join(name) for name in self.infos]

    @property
    def notes(self) -> list[str]:
        if not self.passed:
            return []
        n, names = len(self.passed), truncated(self.passed, 100)
        return [
            f"{n} file{'' if n == 1 else 's'} of {self.location.shown} not read: {names}; rename "
            "a file like the others to read it"
        ]

    def named(self, suffixes: Sequence[str]) -> "Files":
        return self.only([n for n in self.infos if self.folder.join(n).is_named(suffixes)])

    def only(self, names: Collection[str]) -> "Files":
        return replace(self, infos={n: info for n, info in self.infos.items() if n in names})

    def without_doubles(self) -> "Files":
        """Return each file once: links to another file of the input are left out."""
        if not self.folder.is_local:
            return self
        first: dict[object, str] = {}
        root = os.path.realpath(self.folder.path)
        paths = {name: os.path.join(root, name) for name in self.infos}
        for name in sorted(paths, key=lambda name: os.path.realpath(paths[name]) != paths[name]):
            first.setdefault(identity(self.folder.join(name)), name)
        if len(first) == len(self.infos):
            return self
        passed = [
            f"{name} (the same file as {known})"
            for name in self.infos
            if (known := first[identity(self.folder.join(name))]) != name
        ]
        return replace(self.only(set(first.values())), passed=(*self.passed, *passed))

    @cached_property
    def versions(self) -> Versions:
        """The version of each file, looked up once; errors as in `version_of`."""
        versions = {}
        for place, info in zip(self.places, self.infos.values(), strict=True):
            # Some listings leave out the properties of files.
            known = info if info.get("size") is not None else None
            versions[place.path[len(self.folder.path) + 1 :]] = version_of(place, known)
        return versions


def identity(place: Location) -> object:
    """Return an object that is equal for two paths if they are links to the same local file."""
    if place.is_local:
        with suppress(OSError):
            found = os.stat(place.path)
            return found.st_dev, found.st_ino
    return place.path


def check_twins(found: Files) -> None:
    """Raise `DataError` for a file beside its packed copy, which would count twice."""
    for name in found.infos:
        plain, _, packing = name.rpartition(".")
        if packing.lower() in _PACKINGS and plain in found.infos:
            raise DataError(
                f"{found.location.shown} holds {plain} and its compressed copy {name}, so that "
                f"rows would count twice; remove one of the two files, or select files by a glob "
                f"such as *.{plain.rpartition('.')[2]}"
            )


def join_files(each: Sequence[Files]) -> Files:
    """Return the files of several locations, which must be in one file system."""
    first = each[0]
    if len(each) == 1:
        return first
    folders = [found.folder.path.split("/") for found in each]
    for found, folder in zip(each, folders, strict=True):
        if found.folder.fs is not first.folder.fs or folder[0] != folders[0][0]:
            one, other = first.location.shown, found.location.shown
            raise JobFileError(
                "input.path: the paths of a list must be in one file system, or one bucket, found "
                f"{one} and {other}"
            )
    pairs = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    shared = [parts[0] for parts in pairs]
    infos: Infos = {}
    above: dict[str, int] = {}
    known: set[object] = set()
    for found, folder in zip(each, folders, strict=True):
        inner = folder[len(shared) :]
        for name, info in found.infos.items():
            full = "/".join([*inner, name])
            same = identity(found.folder.join(name))
            if same in known:
                raise JobFileError(f"input.path names {found.folder.join(name).shown} twice")
            known.add(same)
            infos[full], above[full] = info, len(inner)
    passed = tuple(dict.fromkeys(name for found in each for name in found.passed))
    return Files(first.location, first.folder.at("/".join(shared)), infos, above, passed=passed)


def find_files(location: Location, *, hidden: bool = False, ready: str | None = None) -> Files:
    """Find the files at a location: one file, those of a folder (recursively) or of a glob.

    The file `ready`, which marks a complete folder, is left out. So are names that begin with ``.``
    or ``_``, unless `hidden` is true or the location itself contains them. `InputNotFoundError` if
    the path does not exist, or if it has neither files nor a marker. `JobFileError` for files of a
    Delta, Iceberg or Hudi table.
    """
    location.fs.invalidate_cache()
    with location.naming_errors():
        info = location.info()
        if info and info["type"] != "directory":
            above, _, name = location.path.rpartition("/")
            if not hidden:
                refuse_lakes(location, location.at(above), [name])
            return Files(location, location.at(above), {name: info})
        folder = location.at((location.path if info else base_of(location.path)).rstrip("/"))
        found: Infos = {}
        if info:
            found = _walk(location)
        elif base_of(location.path) == location.path:
            raise location.not_found()
        else:
            for path, about in location.fs.glob(location.path, detail=True).items():
                is_folder = about["type"] == "directory"
                found |= _walk(location.at(path)) if is_folder else {path: about}
        infos = {path[len(folder.path) :].lstrip("/"): info for path, info in found.items()}
        if not hidden:
            refuse_lakes(location, folder, infos)
        names = sorted(n for n in infos if n != ready and (hidden or not _is_hidden(n)))
        if not names and not any(folder.join(name).info() for name in (SUCCESS, ready) if name):
            raise InputNotFoundError(f"no file in {location.shown}")
    unseen = tuple(sorted(name for name in infos if _is_hidden(name)))
    return Files(location, folder, {name: infos[name] for name in names}, hidden=unseen)


def base_of(path: str) -> str:
    """Return the folder that contains all matches of a glob; other paths are unchanged."""
    magic = "*" if path.startswith("http") else "*?["
    parts = path.split("/")
    first = next((i for i, part in enumerate(parts) if set(part) & set(magic)), len(parts))
    return "/".join(parts[:first])


def _walk(folder: Location) -> Infos:
    if not folder.is_local:
        return folder.fs.find(folder.path, detail=True)
    # fsspec skips folders that can't be listed, and links to folders.
    return {entry.path: {} for _, files in _local_folders(folder.path, ()) for entry in files}


def _local_folders(
    folder: str, above: tuple[tuple[int, int], ...]
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield a folder and all folders below it, each with its files.

    `above` has device and inode of the parents; a link to a parent raises `DataError`.
    """
    found = os.stat(folder)
    here = found.st_dev, found.st_ino
    if here in above:
        raise DataError(f"{folder} is a link to one of its parent folders")
    entries, folders = sorted(os.scandir(folder), key=lambda entry: entry.name), []
    for entry in entries:
        try:
            folders += [entry] if entry.is_dir() else []
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise DataError(f"{entry.path} is a link that leads to itself; remove it") from None
    yield folder, [entry for entry in entries if entry not in folders]
    for entry in folders:
        yield from _local_folders(entry.path, (*above, here))


def reaches(location: Location, folder: str) -> bool:
    """Return True if an input at a local location would include files written to `folder`."""
    real = Path(os.path.realpath(folder))
    around = {str(one) for one in (real, *real.parents)}
    if os.path.isdir(location.path):
        roots = [location.path]
    elif (base := base_of(location.path)) != location.path and os.path.isdir(base):
        roots = [path for path in location.fs.glob(location.path) if os.path.isdir(path)]
        name = f"{os.path.realpath(base)}{location.path[len(base) :]}"
        written = (real, *real.parents, real / "labels" / "run" / "part-00000.parquet")
        if any(re.fullmatch(glob_translate(name), str(one)) for one in written):
            return True
    else:
        return False
    with location.naming_errors():
        folders = (path for root in roots for path, _ in _local_folders(root, ()))
        return any(os.path.realpath(path) in around for path in folders)


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


_DELTA, _HUDI, _ICEBERG = "_delta_log", (".hoodie", ".hoodie_partition_metadata"), "metadata"


def refuse_lakes(location: Location, folder: Location, names: Iterable[str]) -> None:
    """Raise `JobFileError` if files belong to a Delta, Hudi or Iceberg table.

    The error has the path to give instead. `names` are the files, relative to `folder`: the
    matches of a glob, or all files below the folder, including hidden files.
    """
    listed, logs = [name.split("/") for name in names], {_DELTA, _ICEBERG, *_HUDI}
    inner = {tuple(each[:k]) for each in listed for k, part in enumerate(each) if part in logs}
    is_http = folder.path.startswith("http")  # some servers return a page for every name
    if not is_http:
        is_glob = base_of(location.path) != location.path  # `names` has all files of a folder
        inner |= {(), *(tuple(each[:-1]) for each in listed if is_glob)}
    for parts in sorted(inner):
        _refuse_above(location, folder.at("/".join([folder.path, *parts])), 1 if is_http else 8)


def _refuse_above(location: Location, folder: Location, levels: int) -> None:
    """Raise `JobFileError` if a folder or one of its parents is a Delta, Hudi or Iceberg table."""
    for level in range(levels):
        shown, kind, hint = folder.path, "", ""
        if not location.is_local and "://" in location.shown:
            shown = f"{location.shown.partition('://')[0]}://{folder.path.lstrip('/')}"
        if folder.join(_DELTA).exists():
            kind, hint = "a Delta table", f"give delta://{shown}"
        elif any(folder.join(name).exists() for name in _HUDI):
            kind = "a Hudi table"
            hint = "Hudi is not supported: write its present rows to Parquet files elsewhere"
        elif latest := _latest_metadata(folder):
            kind = "an Iceberg table"
            hint = (
                f"give its metadata, iceberg://{shown}/{_ICEBERG}/{latest}, or its name in a "
                "catalog, iceberg://CATALOG/NAMESPACE.TABLE"
            )
        if kind:
            is_table = location.path == folder.path
            what = f"is {kind}" if is_table else f"names files of {kind}, {shown}"
            raise JobFileError(
                f"input.path: {location.shown} {what}, some of whose files may be out of date; "
                f"{hint}"
            )
        above, _, name = folder.path.rpartition("/")
        asking_is_cheap = folder.is_local or level == 0 or "=" in name or name == "data"
        if not above or not asking_is_cheap:
            return
        folder = folder.at(above)


def _latest_metadata(folder: Location) -> str:
    """Return the name of the latest metadata file of an Iceberg table in a folder, or ""."""
    place = folder.join(_ICEBERG)
    paths = folder.fs.glob(f"{place.path}/*{ICEBERG_METADATA}") if place.exists() else []

    def order(name: str) -> tuple[int, str]:
        number = re.match(r"v?(\d+)", name)
        return int(number[1]) if number else -1, name

    return max((str(path).rpartition("/")[2] for path in paths), key=order, default="")
