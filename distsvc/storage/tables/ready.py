"""The check that an input is complete, before a run begins."""

from __future__ import annotations

from distsvc.errors import InputNotFoundError, InputNotReadyError, JobFileError, SkippedError
from distsvc.job.config import InputConfig
from distsvc.storage.places.location import Location
from distsvc.storage.rows.columns import some
from distsvc.storage.tables.files import base_of
from distsvc.storage.tables.sources import find_source, find_sources


def check_ready(config: InputConfig, skip_missing: bool = False) -> None:
    """Raise `InputNotReadyError`, or `SkippedError` with `skip_missing`, for an incomplete input.

    Each path needs the file ``ready``; without that key the paths must exist
    (`InputNotFoundError`). `JobFileError` if ``ready`` is set for a file, or for a Delta or Iceberg
    table.
    """
    places = [Location.of(path) for path in config.paths]
    if config.ready is None and not skip_missing:
        find_sources(places, None)
        return
    late = [what for what in (_awaited(place, config.ready) for place in places) if what]
    if late:
        words = f"input.path: not there yet: {some(late)}"
        raise SkippedError(f"{words}; skipped") if skip_missing else InputNotReadyError(words)


def _awaited(place: Location, ready: str | None) -> str | None:
    """Return the missing path or marker, for messages, or None."""
    if place.fs is not None:
        place.fs.invalidate_cache()
    if ready is None:
        return None if _is_there(place) else place.shown
    if place.lake.kind:
        raise JobFileError(
            f"input.ready: {place.shown} has no such file: what is committed to a table with a "
            "log is complete; leave the key out"
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


def _is_there(place: Location) -> bool:
    try:
        source, found = find_source(place)
    except InputNotFoundError:
        return False
    return not source.is_store(place) or bool(source.versions(found))
