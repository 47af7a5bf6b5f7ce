"""The lease of an output: only one run at a time writes to it.

The holder renews a record of itself every few seconds. Another process takes over once the holder
is gone: at once if it can see the holder's process, else if the record has not changed for a while.
A suspended holder does not notice that another process took over. So its stores check the lease
before each change (`Folder.fenced`). docs/design/004-publication.md gives the reasons.
"""

import datetime
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from distsvc.errors import DataError, DistsvcError, JobFileError, TemporaryError
from distsvc.errors.forms import Form, parsed
from distsvc.storage.places.arrays import json_bytes, parse_json
from distsvc.storage.places.folder import ChangedError, Fence, FencedError, HeldError
from distsvc.storage.places.process import SEEN_BY, started, who
from distsvc.storage.places.store import Store

HOLDER = "holder.json"


@dataclass(frozen=True)
class LeaseTimes:
    """Times of a lease, in seconds."""

    beat: float = 5.0  # between two renewals of the record
    silence: float = 30.0  # after a renewal, until a holder on another machine counts as dead
    look: float = 0.05  # between two attempts to read the holder's record


TIMES = LeaseTimes()

Doing: TypeAlias = dict[str, JsonValue]
"""The state of a run: its name, phase, counts and times."""
State = Callable[[], Doing]
"""Function that returns what the run with the lease is doing; called from another thread."""


class Holder(Form):
    """The record of a holder: its process, its job and its last renewal."""

    host: str | None = None
    boot: str | None = None
    namespace: str | None = None
    process: int | None = None
    started: str | None = None  # start time of the process, see `process.started`
    since: str | None = None  # time of the lock
    job_sha256: str | None = None
    beat: int = 0  # number of renewals
    now: str | None = None  # time of the last renewal
    doing: Doing | None = None
    removes: bool = False  # whether the holder removes the published run

    def content(self) -> bytes:
        return json_bytes(self.model_dump(exclude_unset=True))

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"


@dataclass
class Lease:
    """A lease on an output."""

    runs: Store  # folder with the record
    record: Holder
    before: Holder | None = None  # record of the previous holder, if it was killed
    spare: Path | None = None  # this holder's own folder on a disk
    _mark: str | None = None
    _lost: bool = False
    _renewed: float = field(default_factory=time.monotonic)
    _beating: threading.RLock = field(default_factory=threading.RLock)

    def check(self) -> None:
        """Raise `TemporaryError` if another process has the lease, or the store does not answer.

        A record older than `LeaseTimes.silence` is renewed first.
        """
        with self._beating:
            if not self._lost and time.monotonic() - self._renewed > TIMES.silence:
                self.renew(self.record.doing)
            if not self._lost:
                found = self.runs.current(HOLDER)
                self._lost = found is None or found[1] != self._mark
        if self._lost:
            raise TemporaryError(
                f"another run took over {self.runs.address}, because this run did not renew its "
                f"lock for {TIMES.silence:.0f} s; start the command again"
            )

    def renew(self, doing: Doing | None) -> None:
        news = {"beat": self.record.beat + 1, "now": _now(), "doing": doing}
        record, now = self.record.model_copy(update=news), time.monotonic()
        with self._beating:
            try:
                self._mark = self.own.swap(HOLDER, record.content(), self._mark)
            except (ChangedError, FencedError):
                self._lost = True
            else:
                self.record, self._renewed = record, now

    @property
    def own(self) -> Store:
        """Store for writing the record without a lease check."""
        return self.runs.fenced(Fence(self.spare))


@contextmanager
def hold_lease(
    runs: Store,
    output: str,
    job_sha256: str,
    overwrite: bool,
    doing: State = dict,
    removes: bool = False,
) -> Iterator[Lease]:
    """Take the lease of an output, yield it, and renew it until the body ends.

    `runs` is the folder for the lease's record. The record stores `removes` and, at each renewal,
    the result of `doing`. Errors as in `publication.Output.locked`.
    """
    job = {"since": _now(), "job_sha256": job_sha256, "beat": 0}
    job |= {"removes": True} if removes else {}
    lease = Lease(runs, Holder.model_validate(who() | job))
    asking, token = (output, job_sha256, overwrite), secrets.token_hex(8)
    try:
        with runs.lock() as alone_here:
            lease.spare = runs.begin_holding(token)
            try:
                _take(lease, alone_here, asking)
                runs.end_others(token)
                lease.check()  # two processes that take over at once may end each other
                with _beating(lease, doing):
                    yield lease
            finally:
                with suppress(DistsvcError, OSError):
                    if lease._mark is not None:
                        lease.own.remove(HOLDER, lease._mark)
                runs.end_holding(token)
    except HeldError:
        raise _refusal(_named_holder(runs), *asking) from None


def is_gone(holder: Holder) -> bool | None:
    """Return True if the process of a record has ended.

    None if this is unknown, since the record is from another machine, boot or container.
    """
    here = who()
    if any(getattr(holder, key) != here[key] for key in SEEN_BY):
        return None
    return started(holder.process) != holder.started


def read_holder(runs: Store) -> Holder | None:
    """Return the record of an output's current or last holder; None if missing or damaged."""
    found = runs.current(HOLDER)
    with suppress(DataError):
        holder = parsed(Holder, parse_json(found[0], HOLDER), HOLDER) if found else None
        return holder if holder and holder.model_fields_set else None
    return None


def _take(lease: Lease, alone_here: bool, asking: tuple[str, str, bool]) -> None:
    """Write the lease's record once no running process has the lease, else raise `_refusal`.

    If `alone_here`, a file lock excludes other processes of this machine. `asking` are the last
    three arguments of `_refusal`.
    """
    runs = lease.runs
    found, deadline = runs.current(HOLDER), time.monotonic() + TIMES.silence
    first = found
    while found is not None:
        holder = read_holder(runs)
        gone = is_gone(holder) if holder else True
        if gone or (gone is not None and alone_here) or time.monotonic() > deadline:
            break
        if gone is not None or found != first:
            raise _refusal(holder, *asking)
        if time.monotonic() > deadline - TIMES.silence + TIMES.look:
            fields = {"for": f"the lock of {holder}", "seconds": TIMES.silence}
            logging.getLogger("distsvc").info("waiting", extra={"fields": fields})
        time.sleep(min(TIMES.beat / 5, TIMES.silence / 5))
        found = runs.current(HOLDER)
    lease.before = read_holder(runs) if found else None
    try:
        lease._mark = lease.own.swap(HOLDER, lease.record.content(), found and found[1])
    except ChangedError:
        raise _refusal(read_holder(runs), *asking) from None


@contextmanager
def _beating(lease: Lease, doing: State) -> Iterator[None]:
    """Renew the record while the body runs."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(TIMES.beat) and not lease._lost:
            with suppress(DistsvcError, OSError):  # a store that does not answer is asked again
                lease.renew(doing())

    thread = threading.Thread(target=beat, name="signs-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _refusal(holder: Holder | None, output: str, job_sha256: str, overwrite: bool) -> DistsvcError:
    if holder is None:
        return TemporaryError(f"another run is writing to {output}")
    words = f"another run is writing to {output}: {holder}"
    theirs = holder.job_sha256
    if job_sha256 and theirs and theirs != job_sha256 and not overwrite:
        return JobFileError(f"{words}; that run has another job: give another output.path")
    return TemporaryError(words)


def _named_holder(runs: Store) -> Holder | None:
    """Return the lock holder's record; wait briefly if the holder has not written it yet."""
    for _ in range(20):
        with suppress(DistsvcError):
            holder = read_holder(runs)
            if holder and not is_gone(holder):
                return holder
        time.sleep(TIMES.look)
    return None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
