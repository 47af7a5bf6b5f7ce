"""Holders that sleep before one of their changes, for longer than their lease, and wake later.

A holder is paused before a change of a file (a request that writes, in a store). Another process
takes the output over and does its work to the end. Then the change happens, and the first holder
goes on. Nothing waits: the second holder's work is done inside the first one's call, the second
sees the first as dead, and locks reach nobody, as on disks of several hosts.

What the second holder published must be there, whole; a folder of labels must have its rows, once.
"""

import contextlib
import datetime
import hashlib
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest import mock

from distsvc.errors import DistsvcError
from distsvc.published import republish
from distsvc.published.backfill import backfill
from distsvc.published.republish import publish_held, roll_back
from distsvc.run.job import run_job
from distsvc.run.work.start import Start
from distsvc.storage.places import folder, lease
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.publication import Output, collect
from distsvc.storage.publishing.retention import retain
from tests.small_runs import MODELS, small_job, three_clusters, write_table
from tests.storage.written_runs import digest_of, name_of, run, work_of, write_run

HOLDERS = ("run", "job", "publish --held", "gc", "gc --keep", "rollback", "backfill")
SECOND = ("run", "gc", "rollback", "publish --held")
ON_DISK = ("replace", "rename", "unlink", "rmdir", "mkdir", "link", "open", "fsync")
"""The functions of `os` before which a holder is paused; opening counts where it is for writing."""
IN_STORE = ("put", "delete", "copy")
DATES = "2026-11-01", "2026-11-02"


class NoLock:
    """A lock that keeps nobody out."""

    def __init__(self, *_args, **_options):
        pass

    def acquire(self):
        return None

    def release(self):
        return None


@contextmanager
def apart() -> Iterator[None]:
    """Let each holder take every other one for dead, as after a pause longer than the lease."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(folder, "FileLock", NoLock))
        stack.enter_context(mock.patch.object(lease, "is_gone", return_value=True))
        stack.enter_context(mock.patch.object(lease, "TIMES", lease.LeaseTimes(beat=1e6)))
        stack.enter_context(mock.patch.object(republish, "_overridden", overridden))
        yield


def overridden(output: Output, manifest) -> dict[str, str]:
    """Return a page and numbers that begin with the mark of a candidate's files."""
    mark = output.store.local(manifest.files[0].lasting).read_text().split()[0]
    return {name: f"{mark} {name}" for name in ("report.html", "report.json")}


class Pause:
    """Counts changes below a path, and has `meanwhile` called before one of them, once."""

    def __init__(self, under: str, at: int | None = None, meanwhile: Callable | None = None):
        self.under, self.at, self.meanwhile = under, at, meanwhile
        self.count, self.paused, self.busy = 0, "", False
        self._counting = threading.Lock()

    def before(self, name: str, args: tuple) -> None:
        with self._counting:  # files are written to the disk by several threads
            if self.busy or not self._counts(name, args):
                return
            self.count += 1
            if self.meanwhile is None or self.count - 1 != self.at:
                return
            self.busy, self.paused = True, name
        try:
            self.meanwhile()
        except DistsvcError as error:
            raise AssertionError(f"the second holder failed: {error}") from error
        self.busy = False

    def _counts(self, name: str, args: tuple) -> bool:
        if name == "open":
            flags = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
            return bool(flags & (os.O_WRONLY | os.O_RDWR)) and self.under in str(args[0])
        if name == "fsync":
            return self.under in os.readlink(f"/proc/self/fd/{args[0]}")
        return name in IN_STORE or any(self.under in str(one) for one in args)


@contextmanager
def watching(pause: Pause, stored: bool) -> Iterator[None]:
    """Call `Pause.before` before each change that this process makes."""
    import obstore

    module, names = (obstore, IN_STORE) if stored else (os, ON_DISK)

    def paused(name, real):
        def change(*args, **kwargs):
            pause.before(name, args)
            return real(*args, **kwargs)

        return change

    with ExitStack() as stack:
        for name in names:
            changed = paused(name, getattr(module, name))
            stack.enter_context(mock.patch.object(module, name, changed))
        yield


def hold(out: str, mark: str) -> str:
    """Hold a candidate back; return its run."""
    output = Output(out)
    with output.locked(), work_of(output, digest_of(mark)) as work:
        run_id = name_of(work)
        output.hold(write_run(output, run_id, mark))
    return run_id


class Try:
    """One output with a history, and what two holders do to it."""

    def __init__(self, folder: Path, base: str, first: str, second: str):
        self.folder, self.first, self.second = folder, first, second
        self.out = f"{base}/{DATES[0]}"
        self.base, self.published = base, ""
        table = write_table(folder / "t.parquet", three_clusters(600))
        self.jobs = {
            day: small_job(table, MODELS["sampled"], output={"path": f"{base}/{day}"})
            for day in DATES
        }
        if first in ("job", "backfill"):
            return
        for mark in ("a", "b"):
            run(self.out, mark)
        self.held = hold(self.out, "c")
        if first == "gc --keep":
            run(f"{base}/{DATES[1]}", "a")

    def begin(self) -> None:
        """Do the first holder's work."""
        match self.first:
            case "run":
                run(self.out, "d")
            case "job":
                run_job(self.jobs[DATES[0]])
            case "backfill":
                day = datetime.date.fromisoformat(DATES[0])
                list(backfill(self.jobs.__getitem__, day, day))
            case "publish --held":
                publish_held(self.out, self.held)
            case "gc":
                collect(self.out)
            case "gc --keep":
                retain(self.base, 1)
            case "rollback":
                roll_back(self.out)

    def take_over(self) -> None:
        """Do the second holder's work, from the beginning to the end."""
        before = Output(self.out).run_id
        was_held = lease.read_holder(Output(self.out).runs) is not None  # else it waits its turn
        if self.first in ("job", "backfill"):
            run_job(self.jobs[DATES[0]], start=Start(overwrite=True))
        elif self.second == "gc":
            collect(self.out)
        elif self.second == "rollback":
            with suppress(DistsvcError):
                roll_back(self.out)
        elif self.second == "publish --held" and self.held in Output(self.out).candidates():
            publish_held(self.out, self.held)
        else:
            run(self.out, "e")
        now = Output(self.out).run_id
        self.published = now if was_held and now != before else ""

    def wrong(self) -> list[str]:
        """Name what is lost or mixed, once the first holder has ended, too."""
        found = look(self.out)
        now = Output(self.out).run_id
        if self.published and now != self.published:
            found.append(f"published is {now or 'nothing'}, not {self.published}")
        try:
            run(self.out, "z")
            found += [f"after another run: {one}" for one in look(self.out)]
        except DistsvcError as error:
            found.append(f"no other run can follow: {error}")
        return found


def look(out: str) -> list[str]:
    """Name what is wrong about an output: files that are listed and not whole, or not listed."""
    store, wrong = store_of(out), []
    manifest = Output(out).manifest()
    files = manifest.files if manifest else []
    for one in files:
        for name in (one.file, one.stored):
            found = store.current(str(name))
            if found is None or hashlib.sha256(found[0]).hexdigest() != one.sha256:
                wrong.append(f"{name} is {'gone' if found is None else 'of another run'}")
    labels = sorted(name for name in store.sizes("labels"))
    listed = sorted(one.file for one in files if one.file.startswith("labels/"))
    if labels != listed:
        wrong.append(f"labels has {len(labels)} files, {len(listed)} are listed")
    for one in files:
        if one.name in ("report.html", "report.json"):
            copy, original = store.current(one.name), store.current(one.file)
            if copy is None or original is None or copy[0] != original[0]:
                wrong.append(f"{one.name} is not that of the published run")
    for manifest in Output(out).candidates().values():
        gone = [name for name in manifest.lasting if not store.has(name)]
        wrong += [f"candidate {manifest.run_id} lacks {len(gone)} files"] if gone else []
    return wrong


def stale_holder(seed: int, bucket: str = "") -> dict:
    """Pause a holder before one of its changes; return what the log says of it."""
    draw, begun = random.Random(seed), time.monotonic()
    first = HOLDERS[seed % len(HOLDERS)]
    second = draw.choice(SECOND)
    problems, pause = [], Pause("")
    with tempfile.TemporaryDirectory() as name, apart():
        place = Path(name).resolve()
        base = f"{bucket}/stale-{seed}" if bucket else str(place / "out")
        under = base if not bucket else ""

        def tried(number: str, at: int | None) -> Pause:
            (place / number).mkdir()
            one = Try(place / number, f"{base}/{number}", first, second)
            made = Pause(under, at, one.take_over)
            with watching(made, bool(bucket)), contextlib.suppress(DistsvcError):
                one.begin()
            if at is not None:
                problems.extend(one.wrong())
            return made

        count = tried("whole", None).count
        # Jobs write results of their own first; most changes that matter come last.
        late = first in ("job", "backfill") and draw.random() < 0.7
        at = draw.randrange(count // 2 if late else 0, max(count - 5, 1))
        pause = tried("paused", at)
    return {
        "seed": seed, "kind": f"stale {first}", "job": second, "what": pause.paused,
        "at": f"{at} of {count}", "problems": problems,
        "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip


def stale_holders(seeds: range, stored: bool) -> Iterator[dict]:
    """Try all, in folders or in a store of this process."""
    if not stored:
        yield from map(stale_holder, seeds)
        return
    from tests.s3_server import BUCKET, s3_server

    with s3_server():
        for seed in seeds:
            yield stale_holder(seed, f"s3://{BUCKET}")
