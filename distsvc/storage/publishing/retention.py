"""Which of the runs in a folder of outputs are kept, and the removal of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, JobFileError, TemporaryError
from distsvc.storage.places.place import Place, place_of
from distsvc.storage.publishing.candidates import HELD
from distsvc.storage.publishing.manifest import MANIFEST, read_manifest
from distsvc.storage.publishing.publication import COPIES, RUNS, SUCCESS, Output

DEEPEST = 8
"""Folders between the one that is given and an output."""


@dataclass(frozen=True)
class Night:
    """A run that is published, or held back, in a folder of outputs.

    Attributes
    ----------
    path, address : str
        Of the output, as it was found, and where it is.
    run_id : str
    date, created : str
        The day that it was for, else that it was made; and when it was made.
    before : frozenset of str
        Id and address of the run that it continues, if it does.

    """

    path: str
    address: str
    run_id: str
    date: str
    created: str
    before: frozenset[str]

    def told(self) -> dict[str, str]:
        """Return what is told of it, as JSON can hold it."""
        return {"path": self.path, "run_id": self.run_id, "date": self.date}


def kept_because(
    nights: Sequence[Night], keep: int, waiting: Sequence[Night] = ()
) -> dict[str, str]:
    """Return the addresses of the published runs that stay, each with the reason.

    The last `keep` stay, and those that one of them, or of the candidates that are `waiting` at an
    output that stays, continues from. What these continue from in turn may go: else a lineage
    would be kept whole.
    """
    latest = sorted(nights, key=_age)[-keep:]
    because = {one.address: f"it is one of the last {len(latest)}" for one in latest}
    leaving = {one.address for one in nights} - set(because)
    staying = [*latest, *(one for one in waiting if one.address not in leaving)]
    for one in nights:
        for other in staying:
            if one.address not in because and {one.address, one.run_id} & other.before:
                because[one.address] = f"run {other.run_id} at {other.path} continues from it"
    return because


def retain(path: str, keep: int) -> dict[str, list[dict[str, str]]]:
    """Remove all but the last runs of a folder of outputs, and outputs that hold nothing.

    An output is removed whole, its manifest first; what others put there stays. Where nothing is
    published, an output stays if a candidate is held back there, or a run can go on.

    Returns
    -------
    dict
        ``removed`` and ``kept``, each a list with ``path``, ``run_id`` and ``date``, the oldest
        first; what is kept has ``because``, too.

    Raises
    ------
    InputNotFoundError
        No output is below `path`.
    OutputPermissionError
        An output can't be removed.

    """
    base, outputs = place_of(path), _outputs(path)
    if not outputs:
        raise InputNotFoundError(f"no run was published in {path}, nor in a folder below it")
    removed, kept, nights, waiting = [], [], [], []
    for output in outputs:
        try:
            nights += (found := _published(output))
            waiting += (held := [_night(output, one) for one in output.held().values()])
        except (DataError, JobFileError) as error:
            kept.append(_told(output, str(error)))
            continue
        if found:
            continue
        why = _waits(output, held) or _removed(output, None, base)
        if why:
            kept.append(_told(output, why))
    because = kept_because([night for night, _ in nights], keep, waiting)
    for night, output in sorted(nights, key=lambda pair: _age(pair[0])):
        why = because.get(night.address) or _removed(output, night.run_id, base)
        if why:
            kept.append(night.told() | {"because": why})
        else:
            removed.append(night.told())
    return {"removed": removed, "kept": sorted(kept, key=lambda one: (one["date"], one["path"]))}


def is_output(path: str) -> bool:
    """Return whether runs were published at a path itself, or begun there."""
    place = place_of(path)
    return RUNS in place.folders() or place.has(MANIFEST)


def _outputs(path: str, depth: int = 0) -> list[Output]:
    """Return the outputs at a path and below it; in an output there are no others."""
    if is_output(path):
        return [Output(path)]
    names = [name for name in place_of(path).folders() if name[0] != "." and depth < DEEPEST]
    below = (_outputs(f"{path.rstrip('/')}/{name}", depth + 1) for name in names)
    return [output for several in below for output in several]


def _published(output: Output) -> list[tuple[Night, Output]]:
    """Return what is published at an output, if anything; `DataError` where it is damaged."""
    try:
        return [(_night(output, read_manifest(output.place)), output)]
    except InputNotFoundError:
        return []


def _night(output: Output, manifest: Mapping[str, Any]) -> Night:
    """Return what a manifest says of its run."""
    created = str(manifest.get("created", ""))
    day = _part(_part(manifest, "job"), "job").get("run_date")
    before = frozenset(_before(_part(manifest, "previous")))
    where = output.shown, output.place.address, str(manifest["run_id"])
    return Night(*where, str(day or created[:10]), created, before)


def _age(night: Night) -> tuple[str, str, str]:
    return night.date, night.created, night.address


def _told(output: Output, because: str) -> dict[str, str]:
    return {"path": output.shown, "run_id": "", "date": "", "because": because}


def _waits(output: Output, held: Sequence[Night]) -> str:
    """Say what is left at an output where nothing is published, if somebody may want it."""
    if held:
        return f"run {held[0].run_id} is held back there"
    works = output.kept_works()
    return f"run {works[0]} was begun there, and can go on" if works else ""


def _before(previous: Mapping[str, Any]) -> Iterator[str]:
    """Yield id and address of the run that a manifest continues, if it does."""
    if "run_id" in previous:
        yield str(previous["run_id"])
    if "path" in previous:
        with suppress(DistsvcError):
            yield place_of(str(previous["path"])).address


def _part(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _removed(output: Output, run_id: str | None, base: Place) -> str:
    """Remove an output below `base` unless it has changed; return why it stays, if it does.

    It has where its run, if any, is not the one named.
    """
    try:
        with output.locked():
            if (output.manifest() or {}).get("run_id") != run_id:
                return "another run was published there in the meantime"
            if run_id is None and (output.kept_works() or output.held()):
                return "another run was begun there in the meantime"
            _clear(output)
    except TemporaryError as error:
        return str(error)
    base.prune(output.place.address[len(base.address) + 1 :])
    return ""


def _clear(output: Output) -> None:
    """Remove what runs wrote to an output that is held, in an order that no reader can see.

    Where this is killed once the manifest has gone, the next removal finds nothing worth keeping.
    """
    for run_id in output.held():
        output.runs.remove(f"{HELD}/{run_id}.json")
    for run_id in output.kept_works():
        output.discard(run_id)
    for name in (MANIFEST, SUCCESS, *COPIES):
        output.place.remove(name)
    output.collect()
    output.place.clear(RUNS)
