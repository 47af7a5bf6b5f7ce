"""The runs in a folder of outputs that are kept, and the removal of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, JobFileError, TemporaryError
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import COPIES, MANIFEST, SUCCESS, Manifest, read_manifest
from distsvc.storage.publishing.publication import HELD, RUNS, Output

DEEPEST = 8
"""Folders between the one that is given and an output."""


@dataclass(frozen=True)
class DatedRun:
    """A run that is published, or held back, in a folder of outputs.

    `path` and `address` are those of its output, `date` is the day that it was for, else that it
    was made, and `before` holds id and address of the run that it continues.
    """

    path: str
    address: str
    run_id: str
    date: str
    created: str
    before: frozenset[str]

    def told(self) -> dict[str, str]:
        """Return path, id and date, for the answer of `retain`."""
        return {"path": self.path, "run_id": self.run_id, "date": self.date}


def kept_because(
    runs: Sequence[DatedRun], keep: int, waiting: Sequence[DatedRun] = ()
) -> dict[str, str]:
    """Return the addresses of the published runs that stay, each with the reason.

    The last `keep` stay, and those that one of them, or of the candidates that are `waiting` at an
    output that stays, continues from. The runs from which these continue may go: else a lineage
    would be kept whole.
    """
    latest = sorted(runs, key=_age)[-keep:]
    because = {one.address: f"it is one of the last {len(latest)}" for one in latest}
    leaving = {one.address for one in runs} - set(because)
    staying = [*latest, *(one for one in waiting if one.address not in leaving)]
    for one in runs:
        for other in staying:
            if one.address not in because and {one.address, one.run_id} & other.before:
                because[one.address] = f"run {other.run_id} at {other.path} continues from it"
    return because


def retain(path: str, keep: int) -> dict[str, list[dict[str, str]]]:
    """Remove all but the last runs of a folder of outputs, and outputs that hold nothing.

    An output is removed whole, its manifest first; files of others stay. Where nothing is
    published, an output stays if a candidate is held back, or a run can continue.

    Returns
    -------
    dict
        ``removed`` and ``kept``, each a list with ``path``, ``run_id`` and ``date``, the oldest
        first; each kept one has ``because``, too.

    Raises
    ------
    InputNotFoundError
        No output is below `path`.
    OutputPermissionError
        An output can't be removed.

    """
    base, outputs = store_of(path), _outputs(path)
    if not outputs:
        raise InputNotFoundError(f"no run was published in {path}, nor in a folder below it")
    removed, kept, runs, waiting = [], [], [], []
    for output in outputs:
        try:
            runs += (found := _published(output))
            waiting += (held := [_dated(output, one) for one in output.held().values()])
        except (DataError, JobFileError) as error:
            kept.append(_told(output, str(error)))
            continue
        if found:
            continue
        why = _waits(output, held) or _removed(output, None, base)
        if why:
            kept.append(_told(output, why))
    because = kept_because([run for run, _ in runs], keep, waiting)
    for run, output in sorted(runs, key=lambda pair: _age(pair[0])):
        why = because.get(run.address) or _removed(output, run.run_id, base)
        if why:
            kept.append(run.told() | {"because": why})
        else:
            removed.append(run.told())
    return {"removed": removed, "kept": sorted(kept, key=lambda one: (one["date"], one["path"]))}


def is_output(path: str) -> bool:
    """Return whether runs were published at a path itself, or begun there."""
    store = store_of(path)
    return RUNS in store.folders() or store.has(MANIFEST)


def _outputs(path: str, depth: int = 0) -> list[Output]:
    """Return the outputs at a path and below it; in an output there are no others."""
    if is_output(path):
        return [Output(path)]
    names = [name for name in store_of(path).folders() if name[0] != "." and depth < DEEPEST]
    below = (_outputs(f"{path.rstrip('/')}/{name}", depth + 1) for name in names)
    return [output for several in below for output in several]


def _published(output: Output) -> list[tuple[DatedRun, Output]]:
    """Return the published run of an output, if any; `DataError` where it is damaged."""
    try:
        return [(_dated(output, read_manifest(output.store)), output)]
    except InputNotFoundError:
        return []


def _dated(output: Output, manifest: Manifest) -> DatedRun:
    """Return the run of a manifest."""
    where = output.shown, output.store.address, manifest.run_id
    before = frozenset(_before(manifest))
    return DatedRun(*where, manifest.run_date, manifest.created, before)


def _age(run: DatedRun) -> tuple[str, str, str]:
    return run.date, run.created, run.address


def _told(output: Output, because: str) -> dict[str, str]:
    return {"path": output.shown, "run_id": "", "date": "", "because": because}


def _waits(output: Output, held: Sequence[DatedRun]) -> str:
    """Return the reason to keep an output where nothing is published, if there is one."""
    if held:
        return f"run {held[0].run_id} is held back there"
    works = output.kept_works()
    return f"run {works[0]} was begun there, and can go on" if works else ""


def _before(manifest: Manifest) -> Iterator[str]:
    """Yield id and address of the run that a manifest continues, if it does."""
    previous = manifest.previous
    if previous is not None:
        yield previous.run_id
    if previous is not None and previous.path:
        with suppress(DistsvcError):
            yield store_of(previous.path).address


def _removed(output: Output, run_id: str | None, base: Store) -> str:
    """Remove an output below `base` unless it has changed; return why it stays, if it does.

    It has where its run, if any, is not the one named.
    """
    try:
        with output.locked():
            if (output.run_id or None) != run_id:
                return "another run was published there in the meantime"
            if run_id is None and (output.kept_works() or output.held()):
                return "another run was begun there in the meantime"
            _clear(output)
    except TemporaryError as error:
        return str(error)
    base.remove(output.store.address[len(base.address) + 1 :])
    return ""


def _clear(output: Output) -> None:
    """Remove the files of runs from an output that is held, in an order that no reader can see.

    Where this is killed once the manifest has gone, the next removal finds nothing worth keeping.
    """
    for run_id in output.held():
        output.runs.remove(f"{HELD}/{run_id}.json")
    for run_id in output.kept_works():
        output.discard(run_id)
    for name in (MANIFEST, SUCCESS, *COPIES):
        output.store.remove(name)
    output.collect()
    output.store.clear(RUNS)
