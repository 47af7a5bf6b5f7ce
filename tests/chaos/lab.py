"""Where runs are disturbed: undisturbed results to compare with, and one folder for each run."""

import shutil
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from chaos import jobs, oracle, results
from chaos.jobs import Job
from chaos.places import InStore, OnDisk
from chaos.processes import Launcher, workers_of
from chaos.store import Store

LIMIT = 120
"""Seconds after which an undisturbed end is not waited for any longer, without workers."""
Place = OnDisk | InStore
SPAN = 1.03
"""How much of the time of an undisturbed run, until its last change, moments are drawn from."""
WITH_WORKERS = ("--set", "cluster.workers=2")


@dataclass(frozen=True)
class Undisturbed:
    """What a start led to that nothing disturbed.

    `folder` holds the table ``in`` and the output ``out``. `changes` are those of files that it
    and its workers made, in order, in seconds from its start; with workers, from the first of
    them.
    """

    folder: Path
    code: int
    result: oracle.Result | None
    changes: list[results.Change]

    @property
    def events(self) -> list[str]:
        """The changes of files, as texts."""
        return [str(change) for change in self.changes]

    def at(
        self, moment: float, kept: set[str] = frozenset(), *, working: bool = False
    ) -> tuple[int, float]:
        """Return after how many changes of files, and how many seconds later, a moment is.

        Where results are kept, the moment is one of what is left to be done. `working` says that it
        is one before the last result: small jobs take longest for their page.
        """
        opened = max((c.time for c in self.changes if c.is_plan), default=0.0)
        skipped = max((c.time for c in self.changes if c.result in kept), default=opened)
        if working:
            last = max((c.time for c in self.changes if c.result), default=skipped)
            time = skipped + moment * max(last - skipped, 0.0)
        else:
            time = moment * (SPAN * self.changes[-1].time - skipped + opened)
            time += skipped - opened if time > opened else 0.0
        before = [c.time for c in self.changes if c.time <= time]
        n_skipped = sum(opened < one <= skipped for one in before)
        return len(before) - n_skipped, max(time - max([0.0, *before]), 0.0)

    def publishing(self, *, narrow: bool = False) -> list[int]:
        """Return the numbers, from 1, of the changes that were made when all labels were written.

        With `narrow` those of them that were not made to the run's work files.
        """
        parts = [
            number
            for number, event in enumerate(self.events, 1)
            if event.startswith(("open ", "PUT ")) and "part-" in event.rpartition("/")[2]
        ]
        later = range(max(parts, default=0) + 1, len(self.events) + 1)
        work = "/out/.runs/"
        return [n for n in later if not (narrow and work in self.events[n - 1])]


class Lab:
    """Makes undisturbed results once, when they are needed; close it at the end."""

    def __init__(self, work: Path, *, stored: bool = False):
        self.work = Path(work)
        self.store = Store() if stored else None
        self.launcher = Launcher(self.work)
        self._made: dict[tuple, Undisturbed] = {}
        self._locks: dict[tuple, threading.Lock] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self.launcher.close()
        if self.store is not None:
            self.store.close()

    def place(self, folder: Path, name: str, *, seed: int = 0, rate: float = 0.0) -> Place:
        """Return where a run in a folder has its output: in the store, if there is one."""
        if self.store is None:
            return OnDisk(folder)
        return InStore(folder, self.store, name, seed, rate)

    def undisturbed(self, job: Job, how: str) -> Undisturbed:
        """Return a job's result: ``new``, ``old``, ``other``, ``over`` (new over old), ``workers``,
        or ``stored``.

        A change of `jobs.CHANGES` stands for what is published of the table changed so.
        """
        key = (job.name, how)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._made:
                self._made[key] = self._make(job, how)
            return self._made[key]

    def _make(self, job: Job, how: str) -> Undisturbed:
        folder = self.work / "undisturbed" / job.name / how
        shutil.rmtree(folder, ignore_errors=True)
        which = how if how in jobs.SEEDS else "new"
        if how in jobs.CHANGES:
            before = self.undisturbed(job, "new").folder / "in"
            jobs.changed_table(job, how, before, folder / "in", content=50)
        self.prepare(job, folder, overwrites=how == "over")
        self.give_model(job, folder, which)
        stored = how == "stored"
        place = self.place(folder, f"undisturbed-{job.name}") if stored else OnDisk(folder)
        args = job.command(which, place.output) + (["--overwrite"] if how == "over" else [])
        args += WITH_WORKERS if how == "workers" else ()
        fault = place.watch(folder / "events", {})
        process = self.launcher.start(folder, args, fault=fault, more=place.environment)
        begun = time.monotonic()
        while how == "workers" and not workers_of(folder) and time.monotonic() < begun + LIMIT:
            time.sleep(0.05)
        begun = time.monotonic() if how == "workers" else begun
        code = process.wait(2 * LIMIT)
        if code is None or (code and how not in jobs.CHANGES):
            raise RuntimeError(f"{job.name}, {how}, undisturbed: exit {code}: {process.said()}")
        place.look()
        place.close()
        result = oracle.published(folder / "out", place.base)
        changes = results.logged(folder / "events")
        changes = [replace(one, time=one.time - begun) for one in changes]
        made = Undisturbed(folder, code, result, changes)
        if how in ("over", "workers", "stored"):
            differing = result.differences(self.undisturbed(job, "new").result)
            if differing:
                raise RuntimeError(f"{job.name}, {how}, undisturbed: {differing}")
        return made

    def prepare(self, job: Job, folder: Path, *, overwrites: bool) -> None:
        """Make a folder with job, table and models, and with an old result if one is there."""
        folder.mkdir(parents=True, exist_ok=True)
        table = self.work / "undisturbed" / job.name / "in"
        with self._lock:
            if not table.exists():
                job.write_table(table, 0)
        if not (folder / "in").exists():
            shutil.copytree(table, folder / "in")
        job.prepare(folder)
        for which in ("new", "old"):
            self.give_model(job, folder, which)
        if overwrites:
            shutil.copytree(self.undisturbed(job, "old").folder / "out", folder / "out")

    def give_model(self, job: Job, folder: Path, which: str) -> None:
        """Copy one of the models that a job predicts with, if it does, into its folder."""
        if job.predicts and not (folder / f"model-{which}").exists():
            model = self.undisturbed(job.fitting, which).folder / "out"
            shutil.copytree(model, folder / f"model-{which}")
