"""The removal of old runs from a folder of outputs.

An unfinished run needs its previous run. A run first records the previous run in its own output,
then checks that no removal has locked the previous output (`check_stays`). A removal first locks an
output, then reads the records of all runs again. So either the run stops before learning starts,
or the previous run is kept.
"""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, JobFileError, TemporaryError
from distsvc.storage.places.folder import HOLDERS, LOCK, RUNS
from distsvc.storage.places.lease import HOLDER, is_gone, read_holder
from distsvc.storage.places.remote import REQUESTS_AT_ONCE
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.manifest import ContinuedRun, Manifest, read_manifest
from distsvc.storage.publishing.publication import CANDIDATES, Output, check_not_held

DEEPEST = 4
"""Maximum depth of an output below the given folder, as in ``out/shop/2026/11/20``."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class DatedRun:
    """A published run, a candidate or an unfinished run in a folder of outputs."""

    path: str  # path of the output, as given
    address: str
    run_id: str = ""  # "" if the output is empty
    date: str = ""  # date in the job, else the day of creation
    created: str = ""
    before: frozenset[str] | None = frozenset()  # id and address of the previous run; None: damaged
    job: str = ""  # name of the job
    like: str = ""  # for a job without a name: its output path, with # for digits
    reference: str = ""  # address of the run from which drift is measured

    def entry(self, **more: str) -> dict[str, str]:
        return {"path": self.path, "run_id": self.run_id, "date": self.date} | more

    def needs(self, other: "DatedRun") -> str:
        """Return the reason why this run depends on run `other`, or ""."""
        if self.before is None:
            return (
                f"run {self.run_id}, begun at {self.path}, may continue from this run: the record "
                "of the previous run is damaged"
            )
        if self.before & {other.address, other.run_id}:
            return f"run {self.run_id} at {self.path} continues from this run"
        if other.address == self.reference:
            return f"run {self.run_id} at {self.path} uses this run as its reference"
        return ""


@dataclass(frozen=True)
class OutputRuns:
    """All runs of an output."""

    output: Output
    published: DatedRun | None = None
    held: tuple[DatedRun, ...] = ()  # candidates
    begun: tuple[DatedRun, ...] = ()  # unfinished runs
    odd: str = ""  # reason why the runs can't be read, or ""

    @property
    def run(self) -> DatedRun:
        """The published run, or a placeholder without an id."""
        return self.published or DatedRun(self.output.shown, self.output.store.address)


def reasons_to_keep(found: Sequence[OutputRuns], keep: int) -> dict[str, str]:
    """Return the addresses of the outputs to keep, each with the reason.

    An output is kept if it has an unfinished run, or one of a job's last `keep` published runs. It
    is also kept if it can't be read, or has candidates but no published run. The previous run
    and the reference of each kept run are kept, too. The runs that these continue are not.
    """
    runs = [one.published for one in found if one.published]
    begun = [run for one in found for run in one.begun]
    because: dict[str, str] = {}
    latest: list[DatedRun] = []
    for job, like in sorted({(one.job, one.like) for one in runs}):
        last = sorted((one for one in runs if (one.job, one.like) == (job, like)), key=_age)[-keep:]
        of = f" of {job}" if job else ""
        which = f"one of the last {len(last)} runs" if len(last) > 1 else "the last run"
        because |= {one.address: f"{which}{of}" for one in last}
        latest += last
    for one in begun:
        because.setdefault(one.address, f"run {one.run_id} is unfinished, and can be resumed")
    leaving = {one.address for one in runs} - set(because)
    waiting = [run for one in found for run in one.held if run.address not in leaving]
    staying = [*latest, *waiting, *begun]
    for one in runs:
        needed = [why for other in staying if (why := other.needs(one))]
        if needed:
            because.setdefault(one.address, needed[0])
    for at in found:
        held = f"run {at.held[0].run_id} is held back" if at.held else ""
        if why := at.odd or ("" if at.published else held):
            because.setdefault(at.run.address, why)
    return because


def retain(path: str, keep: int, dry_run: bool = False) -> dict[str, list[dict[str, str]]]:
    """Remove old runs and empty outputs from a folder of outputs; see `reasons_to_keep`.

    All files of an old run's output are removed, its manifest first. Files that distsvc did not
    write stay. With `dry_run`, nothing is removed. Returns ``removed`` and ``kept``, lists of
    `DatedRun.entry`, the oldest first; kept runs also have ``because``. `InputNotFoundError` if no
    output is below `path`.
    """
    found = each_below(path, _runs_at)
    because = reasons_to_keep(found, keep)
    pairs = sorted(((one.run, one.output) for one in found), key=lambda pair: _age(pair[0]))
    leaving = [pair for pair in pairs if pair[0].address not in because]
    for first in range(0, len(leaving), REQUESTS_AT_ONCE):
        some = leaving[first : first + REQUESTS_AT_ONCE]
        because |= _removed(path, some, keep, dry_run)
    removed = [run.entry() for run, _ in leaving if run.address not in because]
    staying = (run for run, _ in pairs if run.address in because)
    kept = [run.entry(because=because[run.address]) for run in staying]
    return {"removed": removed, "kept": sorted(kept, key=lambda one: (one["date"], one["path"]))}


def check_stays(previous: ContinuedRun) -> None:
    """Raise `TemporaryError` if the previous run of a run is being removed, or is gone."""
    output = Output(previous.address)
    holder = None
    with suppress(DataError):  # the folder of runs may be another user's
        holder = read_holder(output.runs)
    if holder is not None and holder.removes and not is_gone(holder):
        raise TemporaryError(
            f"the previous run, {previous}, is being removed by {holder}; if that process was "
            f"killed, finish the removal: distsvc gc {previous.path}"
        )
    if output.run_id != previous.run_id:
        raise TemporaryError(f"the previous run, {previous}, was removed in the meantime")


def is_output(path: str) -> bool:
    """Return True if a run was published or started in the folder `path`."""
    output = Output(path)
    return RUNS in output.store.folders() or output.is_published


def check_folder(path: str) -> None:
    """Raise `JobFileError` if a folder is unlikely to contain only outputs.

    Such folders are the root, the home folder and its parents, and a whole bucket with other data.
    """
    if "://" not in path:
        folder, home = Path(path).resolve(), Path(os.path.expanduser("~"))
        around = home.is_absolute() and home.resolve().is_relative_to(folder)
        if folder == folder.parent or around:
            raise JobFileError(
                f"expected the folder of outputs, found {path}, which contains other files, too"
            )
        return
    root = path.rstrip("/")
    names = [] if root.partition("://")[2].count("/") else store_of(path).folders()
    others = [name for name in names if not is_output(f"{root}/{name}")]
    if others:
        raise JobFileError(
            f"{root} is a whole bucket, and {root}/{others[0]} is not an output; give the prefix "
            f"of the outputs: {root}/PREFIX"
        )


def _removed(
    path: str, leaving: Sequence[tuple[DatedRun, Output]], keep: int, dry_run: bool
) -> dict[str, str]:
    """Lock the outputs `leaving`, read all outputs again, and remove what no run needs.

    Return the addresses of the outputs in `leaving` that are not removed, each with the reason.
    """
    stays: dict[str, str] = {}
    with ExitStack() as stack:
        for run, output in leaving:
            try:
                if dry_run:
                    check_not_held(output)
                else:
                    stack.enter_context(output.locked(removes=True))
            except TemporaryError as error:
                stays[run.address] = str(error)
        if dry_run:
            return stays
        found = {one.output.store.address: one for one in each_below(path, _runs_at)}
        because = reasons_to_keep(list(found.values()), keep)
        for run, output in leaving:
            now = found[run.address].published if run.address in found else None
            if now is not None and now.run_id != run.run_id:
                stays.setdefault(run.address, "another run was published there in the meantime")
            elif run.address in because:
                stays.setdefault(run.address, because[run.address])
            if run.address not in stays:
                try:
                    _clear(output, run.run_id)
                except TemporaryError as error:
                    stays[run.address] = str(error)
    base = store_of(path)
    for run, _ in leaving:
        if run.address not in stays:
            base.remove(run.address[len(base.address) + 1 :])
    return stays


def each_below(path: str, look: Callable[[Output], Found | None]) -> list[Found]:
    """Call `look` for each output below a folder, and return the results that are not None.

    Errors as in `check_folder`; `InputNotFoundError` if all results are None.
    """
    check_folder(path)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        found = [one for one in pool.map(look, outputs_below(path)) if one is not None]
    if not found:
        raise InputNotFoundError(f"no run was published in {path}, nor in a folder below it")
    return found


def outputs_below(path: str, depth: int = 0) -> list[Output]:
    """Return the outputs at a path and in folders below it, down to `DEEPEST` levels.

    If an output is at the path itself, only its direct subfolders are searched. Other outputs are
    not searched for further outputs.
    """
    found = [Output(path)] if is_output(path) else []
    names = [] if depth >= (1 if found else DEEPEST) else store_of(path).folders()
    depth = DEEPEST if found else depth + 1
    below = (outputs_below(f"{path.rstrip('/')}/{name}", depth) for name in names if name[0] != ".")
    return found + [output for several in below for output in several]


def _runs_at(output: Output) -> OutputRuns:
    begun, manifest = tuple(_begun(output, run_id) for run_id in output.kept_works()), None
    try:
        with suppress(InputNotFoundError):
            manifest = read_manifest(output.store)
        published = _dated(output, manifest) if manifest else None
        held = tuple(_dated(output, one) for one in output.candidates().values())
    except (DataError, JobFileError) as error:
        return OutputRuns(output, begun=begun, odd=str(error))
    over = manifest.works if manifest else ()  # a run killed after its commit leaves its work
    begun = tuple(one for one in begun if one.run_id not in over)
    return OutputRuns(output, published, held, begun)


def _begun(output: Output, run_id: str) -> DatedRun:
    before = None
    with suppress(DataError):
        previous = output.continued_by(run_id)
        before = _names(previous, previous.address if previous else "")
    return DatedRun(output.shown, output.store.address, run_id, before=before)


def _dated(output: Output, manifest: Manifest) -> DatedRun:
    previous = manifest.previous
    return DatedRun(
        output.shown,
        output.store.address,
        manifest.run_id,
        manifest.run_date,
        manifest.created,
        _names(previous, _address(previous.path) if previous else ""),
        manifest.job_name,
        "" if manifest.job_name else re.sub(r"\d+", "#", manifest.of_job("output", "path")),
        _address(manifest.of_job("continuity", "reference")),
    )


def _names(previous: ContinuedRun | None, address: str) -> frozenset[str]:
    return frozenset({previous.run_id if previous else "", address} - {""})


def _address(path: str) -> str:
    """Return the address of an output; "" for a path that can't be one."""
    with suppress(DistsvcError):
        return store_of(path).address if path else ""
    return ""


def _age(run: DatedRun) -> tuple[str, str, str]:
    return run.date, run.created, run.address


def _clear(output: Output, run_id: str) -> None:
    """Remove everything from a locked output.

    If the process is killed meanwhile, the next removal completes the work.
    """
    for name in output.candidates():
        output.runs.remove(f"{CANDIDATES}/{name}.json")
    output.unpublish(run_id)
    output.collect()
    for name in (*output.runs.folders(), LOCK):
        if name != HOLDERS:
            output.runs.clear(name)
            output.runs.remove(name)
    output.runs.remove(HOLDER)
