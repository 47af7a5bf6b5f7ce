"""The record of a lineage: the cluster ids of its runs, and the order of the runs.

Runs that continue each other are a lineage. Two runs may continue the same predecessor, for example
if a missed night is run later. Their outputs don't list each other, so ids are claimed in a shared
record, ``.lineages/ID.json``. The record is beside the outputs of the lineage, or in the output if
runs replace each other. Manifests have the record's relative path, so the folder of all outputs can
be moved or copied and continued. Runs in another bucket begin a new record.
"""

import posixpath
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, JobFileError, TemporaryError
from distsvc.errors.forms import Form, parsed
from distsvc.storage.places.arrays import sealed, unsealed
from distsvc.storage.places.folder import ChangedError, HeldError
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import LineageName, Manifest, read_manifest

LINEAGES = ".lineages"

Id = Annotated[int, Field(ge=0, le=2**31 - 1)]


class LineageRun(Form):
    """A run of a lineage: its predecessor, its date, and its output relative to `Lineage.home`."""

    previous: str
    run_date: str
    output: str


class Claim(Form):
    """A range of consecutive ids that runs with the same `Lineage.answer` have claimed."""

    first: Id
    n_ids: Id


class Record(Form):
    """The shared record of a lineage: ids already claimed, and runs."""

    next_id: Id = 0  # above all claimed ids
    claims: dict[str, Claim] = Field(default_factory=dict)  # by `Lineage.answer`
    runs: dict[str, LineageRun] = Field(default_factory=dict)  # by run id


@dataclass(frozen=True)
class Lineage:
    """A run's place in its lineage, and access to the shared record."""

    id: str
    home: str  # address of the folder with the record
    run_id: str
    answer: str  # SHA-256 of job, input and previous model; a repeated run has the same
    output: str
    run_date: str
    previous: Manifest | None

    @classmethod
    def of(
        cls,
        run: tuple[str, str, str, str],
        previous: tuple[str, Manifest] | None,
        in_place: bool,
    ) -> "Lineage":
        """Return the lineage of a run.

        `run` is its id, its `answer`, the address of its output and its date; `previous` is the
        address and the manifest of the previous run. If `in_place`, runs replace each other.
        """
        run_id, answer, output, run_date = run
        home, name = (output if in_place else posixpath.dirname(output)), run_id
        address, before = previous or ("", None)
        if before is not None:
            name = before.lineage.id if before.lineage else before.run_id
            if before.lineage and _split(address)[0] == _split(output)[0]:
                home = _joined(address, before.lineage.home)
        return cls(name, home, run_id, answer, output, run_date, before)

    def named(self) -> LineageName:
        return LineageName(id=self.id, home=_relative(self.home, self.output))

    def claim(self, n_ids: int, least: int) -> int:
        """Claim `n_ids` consecutive ids >= `least` for this answer, and return the first."""

        def claimed(record: Record) -> Record:
            own = record.claims.get(self.answer)
            if own is not None and own.n_ids == n_ids and own.first >= least:
                return record
            first = max(record.next_id, least)
            claims = record.claims | {self.answer: Claim(first=first, n_ids=n_ids)}
            return record.model_copy(update={"next_id": first + n_ids, "claims": claims})

        return self._changed(claimed).claims[self.answer].first

    def enter(self) -> None:
        """Add the run to the shared record.

        `DataError` if the record is damaged; `TemporaryError` if other runs keep changing it.
        """
        output = _relative(self.output, self.home)
        before = self.previous.run_id if self.previous else ""
        own = LineageRun(previous=before, run_date=self.run_date, output=output)
        self._changed(
            lambda known: known.model_copy(update={"runs": known.runs | {self.run_id: own}})
        )

    def _changed(self, change: Callable[[Record], Record]) -> Record:
        """Change the record atomically, and return it."""
        store, end = store_of(self.home).below(LINEAGES), time.monotonic() + 60.0
        while time.monotonic() < end:
            try:
                with store.lock():
                    record, mark = _record(store, self.id)
                    changed = change(record)
                    if changed != record:
                        content = sealed(changed.model_dump(mode="json"))
                        store.swap(f"{self.id}.json", content, mark)
                    return changed
            except (ChangedError, HeldError):
                time.sleep(random.uniform(0.0, 0.05))
        raise TemporaryError(f"{store.address}/{self.id}.json is busy: other runs keep changing it")


def earlier_runs(manifest: Manifest, most: int) -> Iterator[tuple[Store, Manifest]]:
    """Yield up to `most` predecessors, latest first, until one is no longer published."""
    for _ in range(most):
        before = manifest.previous
        if before is None:
            return
        try:
            store = store_of(before.path)
            manifest = read_manifest(store)
        except (DataError, InputNotFoundError, JobFileError):
            return
        if manifest.run_id != before.run_id:
            return
        yield store, manifest


def later_runs(address: str, manifest: Manifest) -> list[tuple[str, LineageRun]]:
    """Return the published runs that continue a run, also indirectly, sorted by date.

    Each is returned as the address of its output and its `LineageRun`.
    """
    found = successors(address, manifest)
    return [(at, one) for at, name, one in found if _is_published(at, name)]


def successors(address: str, manifest: Manifest) -> list[tuple[str, str, LineageRun]]:
    """Return address, id and `LineageRun` of each run that continues a run, also indirectly.

    Runs are sorted by date. They may be published, held back, replaced or removed.
    """
    home, record = _record_of(address, manifest.lineage)
    return _continuing(home, record, {manifest.run_id})


def passing_runs(
    address: str, lineage: LineageName | None, run_date: str
) -> list[tuple[str, LineageRun]]:
    """Return the published runs that skipped a run, and the published runs that continue them.

    The skipped run is at `address`, and has the date `run_date`. A later run skipped it if the
    later run's job lists `address` before the run that it continued. Each result is the address
    of an output and its `LineageRun`, sorted by date.
    """
    home, record = _record_of(address, lineage)
    passing = {
        name
        for name, one in record.runs.items()
        if one.run_date > run_date and _passes(_joined(home, one.output), name, address)
    }
    later = _continuing(home, record, passing, with_first=True)
    return [(at, one) for at, name, one in later if _is_published(at, name)]


def _passes(at: str, run_id: str, address: str) -> bool:
    """Return True if the run is published at `at`, and skipped the run at `address`."""
    found = _manifest(at)
    passed = found.passed if found is not None and found.run_id == run_id else ()
    return address in (store_of(path).address for path in passed)


def _continuing(
    home: str, record: Record, wanted: set[str], with_first: bool = False
) -> list[tuple[str, str, LineageRun]]:
    """Return address, id and `LineageRun` of all successors of the runs `wanted`, by date.

    With `with_first`, the runs `wanted` are included.
    """
    later = {name: record.runs[name] for name in wanted if with_first}
    while wanted:
        more = {name: one for name, one in record.runs.items() if one.previous in wanted}
        later, wanted = later | more, set(more)
    found = [(_joined(home, one.output), name, one) for name, one in later.items()]
    return sorted(found, key=lambda each: each[2].run_date)


def next_id_of(address: str, manifest: Manifest) -> int:
    """Return a number above all ids in the lineage of a run; 0 without a lineage."""
    return _record_of(address, manifest.lineage)[1].next_id


def _record_of(address: str, lineage: LineageName | None) -> tuple[str, Record]:
    """Return the home and the record of a run's lineage; an empty record if it is unreadable."""
    if lineage is None:
        return address, Record()
    home, record = _joined(address, lineage.home), Record()
    with suppress(TemporaryError, DataError):
        record, _ = _record(store_of(home).below(LINEAGES), lineage.id)
    return home, record


def _record(store: Store, name: str) -> tuple[Record, str | None]:
    """Return a record and the mark of its version; an empty record if there is no file."""
    there = store.current(f"{name}.json")
    if there is None:
        return Record(), None
    path = f"{store.address}/{name}.json"
    try:
        return parsed(Record, unsealed(there[0], path), path), there[1]
    except DataError as error:
        raise DataError(
            f"{error}; if you remove the file, cluster ids continue from the previous run"
        ) from None


def _manifest(address: str) -> Manifest | None:
    with suppress(DistsvcError):
        return read_manifest(store_of(address))
    return None


def _is_published(address: str, run_id: str) -> bool:
    found = _manifest(address)
    return found is not None and found.run_id == run_id


def _split(address: str) -> tuple[str, str]:
    """Split "s3://bucket/out" into ("s3://bucket", "/out"), and a path into ("", path)."""
    scheme, found, rest = address.partition("://")
    bucket, _, path = rest.partition("/")
    return (f"{scheme}://{bucket}", f"/{path}") if found else ("", address)


def _relative(address: str, to: str) -> str:
    return posixpath.relpath(_split(address)[1], _split(to)[1])


def _joined(address: str, relative: str) -> str:
    root, path = _split(address)
    return root + posixpath.normpath(posixpath.join(path, relative))
