"""Who may write to an output: one run at a time, and others are told which."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from distsvc.errors import DataError, DistsvcError, JobFileError, TemporaryError
from distsvc.faults import fault
from distsvc.storage.arrays import read_json, write_json

LOCK, HOLDER = "lock", "holder.json"
PATIENCE, LOOK_SECONDS = 20, 0.05
"""How often, and at what distance, one who is refused looks for the name of the holder."""


@contextmanager
def held(runs: Path, output: Path, job_sha256: str, overwrite: bool) -> Iterator[None]:
    """Hold the folder `runs` of an output; its lock file stays, since removing it is a race.

    Errors as in `publication.Output.locked`.
    """
    lock = FileLock(runs / LOCK, timeout=0, mode=0o660)
    try:
        lock.acquire()
    except Timeout:
        raise _refusal(runs, output, job_sha256, overwrite) from None
    except OSError as error:
        raise (fault(error, writing=f"output.path {output}") or error) from None
    with ExitStack() as stack:
        stack.callback(lock.release)
        stack.enter_context(_named(runs / HOLDER, job_sha256))
        yield


@contextmanager
def _named(path: Path, job_sha256: str) -> Iterator[None]:
    """Say who holds the output while it is held."""
    try:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        who = {"host": socket.gethostname(), "process": os.getpid()}
        write_json(path, {**who, "since": now, "job_sha256": job_sha256})
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _refusal(runs: Path, output: Path, job_sha256: str, overwrite: bool) -> DistsvcError:
    tries = (_holder(runs) for _ in range(PATIENCE))  # it may be about to say who it is
    holder = next((found for found in tries if found is not None), None)
    if holder is None:
        return TemporaryError(f"another run is writing to {output}")
    who = f"process {holder.get('process')} on {holder.get('host')}"
    words = f"another run is writing to {output}: {who}, since {holder.get('since')}"
    theirs = holder.get("job_sha256")
    if job_sha256 and theirs and theirs != job_sha256 and not overwrite:
        return JobFileError(f"{words}; it has another job, so give another output.path")
    return TemporaryError(words)


def _holder(runs: Path) -> dict[str, Any] | None:
    """Return what the holder said of itself, unless that is what a killed run left."""
    try:
        holder = read_json(runs / HOLDER)
        if holder["host"] == socket.gethostname():
            os.kill(holder["process"], 0)
    except PermissionError:  # it lives, and is another user's
        return holder
    except (DataError, OSError, KeyError, TypeError):
        time.sleep(LOOK_SECONDS)
        return None
    return holder
