"""Who may write to an output: one run at a time, which others can see is alive.

The holder says who it is in a file, and says so again every few seconds, with how far it is. Who
finds the file waits until it is sure that its writer is gone: at once where that ran on this
machine, else once the file has stayed the same for a while. So no clocks are compared.
"""

from __future__ import annotations

import datetime
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from distsvc.errors import DataError, DistsvcError, JobFileError, TemporaryError
from distsvc.storage.places.arrays import json_bytes, parse_json
from distsvc.storage.places.folder import ChangedError, HeldError
from distsvc.storage.places.place import Place

HOLDER = "holder.json"
BEAT_SECONDS = 5.0
"""The time between two signs of life."""
SILENCE_SECONDS = 30.0
"""How long a holder on another machine gives no sign of life before it counts as dead."""
PATIENCE, LOOK_SECONDS = 20, 0.05
"""How often, and at what distance, one who is refused looks for the name of the holder."""

State = Callable[[], dict[str, Any]]
"""Returns what the holder is doing, as JSON can hold it; called from another thread."""

_LOG = logging.getLogger("distsvc")


@dataclass
class Lease:
    """An output that is held.

    Attributes
    ----------
    before : dict
        What a holder that died here had said last; empty where there was none.
    record : dict
        What is said of this one.

    """

    runs: Place
    record: dict[str, Any]
    before: dict[str, Any] = field(default_factory=dict)
    _mark: str | None = None
    _lost: bool = False
    _beating: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Look whether the output is held still; `TemporaryError` where another run took it over.

        That of the store, too, where it does not answer.
        """
        with self._beating:
            found = None if self._lost else self.runs.current(HOLDER)
            self._lost = found is None or found[1] != self._mark
        if self._lost:
            raise TemporaryError(
                f"another run took {self.runs.address} over: for {SILENCE_SECONDS:.0f} s this one "
                "had given no sign of life"
            )

    def beat(self, doing: dict[str, Any]) -> None:
        """Give a sign of life; what fails is tried again the next time."""
        record = self.record | {"beat": self.record["beat"] + 1, "now": _now(), "doing": doing}
        with self._beating:
            try:
                self._mark = self.runs.swap(HOLDER, json_bytes(record), self._mark)
                self.record = record
            except ChangedError:
                self._lost = True
            except (DistsvcError, OSError):
                return


@contextmanager
def held(
    runs: Place, output: str, job_sha256: str, overwrite: bool, doing: State = dict
) -> Iterator[Lease]:
    """Hold the folder `runs` of an output; errors as in `publication.Output.locked`."""
    lease = Lease(runs, _who() | {"since": _now(), "job_sha256": job_sha256, "beat": 0})
    asking = output, job_sha256, overwrite
    try:
        with runs.held() as alone_here:
            _take(lease, alone_here, asking)
            try:
                with _beating(lease, doing):
                    yield lease
            finally:
                with suppress(DistsvcError, OSError):
                    runs.withdraw(HOLDER, lease._mark)
    except HeldError:
        raise _refusal(_named_holder(runs), *asking) from None


def is_gone(holder: dict[str, Any]) -> bool | None:
    """Return whether who wrote a record is gone; None where that can't be known from here."""
    who = _who()
    if any(holder.get(key) != who[key] for key in ("host", "boot")):
        return None
    return _started(holder.get("process")) != holder.get("started")


def read_holder(runs: Place) -> dict[str, Any]:
    """Return what the holder of an output, alive or dead, said last; empty if there is none."""
    found = runs.current(HOLDER)
    with suppress(DataError):
        holder = parse_json(found[0], HOLDER) if found else {}
        return holder if isinstance(holder, dict) else {}
    return {}


def _take(lease: Lease, alone_here: bool, asking: tuple[str, str, bool]) -> None:
    """Write the record, once nobody who lives has written another."""
    runs = lease.runs
    found, deadline = runs.current(HOLDER), time.monotonic() + SILENCE_SECONDS
    first = found
    while found is not None:
        holder = read_holder(runs)
        gone = is_gone(holder) if holder else True
        if gone or (gone is not None and alone_here) or time.monotonic() > deadline:
            break
        if gone is not None or found != first:
            raise _refusal(holder, *asking)
        if time.monotonic() > deadline - SILENCE_SECONDS + LOOK_SECONDS:
            _tell_waiting(holder)
        time.sleep(min(BEAT_SECONDS / 5, SILENCE_SECONDS / 5))
        found = runs.current(HOLDER)
    lease.before = read_holder(runs) if found else {}
    try:
        lease._mark = runs.swap(HOLDER, json_bytes(lease.record), found and found[1])
    except ChangedError:
        raise _refusal(read_holder(runs), *asking) from None


def _tell_waiting(holder: dict[str, Any]) -> None:
    fields = {"for": f"a sign of life of {_words(holder)}", "seconds": SILENCE_SECONDS}
    _LOG.info("waiting", extra={"fields": fields})


@contextmanager
def _beating(lease: Lease, doing: State) -> Iterator[None]:
    """Give signs of life while the body runs."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS) and not lease._lost:
            lease.beat(doing())

    thread = threading.Thread(target=beat, name="signs-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _refusal(holder: dict[str, Any], output: str, job_sha256: str, overwrite: bool) -> DistsvcError:
    if not holder:
        return TemporaryError(f"another run is writing to {output}")
    words = f"another run is writing to {output}: {_words(holder)}"
    theirs = holder.get("job_sha256")
    if job_sha256 and theirs and theirs != job_sha256 and not overwrite:
        return JobFileError(f"{words}; it has another job, so give another output.path")
    return TemporaryError(words)


def _words(holder: dict[str, Any]) -> str:
    who = f"process {holder.get('process')} on {holder.get('host')}"
    return f"{who}, since {holder.get('since')}"


def _named_holder(runs: Place) -> dict[str, Any]:
    """Return what the holder said of itself, which it may be about to say."""
    for _ in range(PATIENCE):
        with suppress(DistsvcError):
            holder = read_holder(runs)
            if holder and not is_gone(holder):
                return holder
        time.sleep(LOOK_SECONDS)
    return {}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _who() -> dict[str, Any]:
    """Return what tells this process from all others."""
    process = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": _boot(),
        "process": process,
        "started": _started(process),
    }


@cache
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _started(process: Any) -> str | None:
    """Return when a process of this machine began, or None if there is none."""
    if not isinstance(process, int):
        return None
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(process, 0)
    except PermissionError:
        return ""
    except OSError:
        return None
    return ""
