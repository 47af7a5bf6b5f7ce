"""Where runs are disturbed: undisturbed results to compare with, and one folder for each run."""

import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from chaos import jobs, oracle
from chaos.jobs import Job
from chaos.processes import Launcher, workers_of

LIMIT = 120
"""Seconds after which an undisturbed end is not waited for any longer, without workers."""
WITH_WORKERS = ("--set", "cluster.workers=2")


@dataclass(frozen=True)
class Undisturbed:
    """What a start led to that nothing disturbed.

    Attributes
    ----------
    folder : Path
        Holds the table ``in`` and the output ``out``.
    code : int
    result : Result or None
    seconds : float
        From start to end; with workers, from the first worker to the end.
    events : list of str
        The changes of files that the driver made, in order.

    """

    folder: Path
    code: int
    result: oracle.Result | None
    seconds: float
    events: list[str]

    def publishing(self, *, narrow: bool = False) -> list[int]:
        """Return the numbers, from 1, of the changes that were made when all labels were written.

        With `narrow` those of them that were not made to the run's work files.
        """
        parts = [
            number
            for number, event in enumerate(self.events, 1)
            if event.startswith("open ") and "part-" in event.rpartition("/")[2]
        ]
        later = range(max(parts, default=0) + 1, len(self.events) + 1)
        work = f" {self.folder}/out/.runs/"
        return [n for n in later if not (narrow and work in self.events[n - 1])]


class Lab:
    """Makes undisturbed results once, when they are needed; close it at the end."""

    def __init__(self, work: Path):
        self.work = Path(work)
        self.launcher = Launcher(self.work)
        self._made: dict[tuple, Undisturbed] = {}
        self._locks: dict[tuple, threading.Lock] = {}
        self._lock = threading.Lock()
        self._collects: bool | None = None

    def close(self) -> None:
        self.launcher.close()

    def undisturbed(self, job: Job, how: str) -> Undisturbed:
        """Return a job's result: ``new``, ``old``, ``over`` (new over old), or ``workers``.

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
        which = "old" if how == "old" else "new"
        if how in jobs.CHANGES:
            before = self.undisturbed(job, "new").folder / "in"
            jobs.changed_table(job, how, before, folder / "in", content=50)
        self.prepare(job, folder, overwrites=how == "over")
        args = job.command(which) + (["--overwrite"] if how == "over" else [])
        args += WITH_WORKERS if how == "workers" else ()
        begun = time.monotonic()
        fault = {"under": str(folder / "out"), "log": str(folder / "events")}
        process = self.launcher.start(folder, args, fault=fault)
        while how == "workers" and not workers_of(folder) and time.monotonic() < begun + LIMIT:
            time.sleep(0.05)
        begun = time.monotonic() if how == "workers" else begun
        code = process.wait(2 * LIMIT)
        seconds = time.monotonic() - begun
        if code is None or (code and how not in jobs.CHANGES):
            raise RuntimeError(f"{job.name}, {how}, undisturbed: exit {code}: {process.said()}")
        result = oracle.published(folder / "out")
        events = (folder / "events").read_text().splitlines()
        made = Undisturbed(folder, code, result, seconds, events)
        if how in ("over", "workers"):
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
        if job.predicts:
            for which in ("new", "old"):
                model = self.undisturbed(job.fitting, which).folder / "out"
                shutil.copytree(model, folder / f"model-{which}")
        if overwrites:
            shutil.copytree(self.undisturbed(job, "old").folder / "out", folder / "out")

    def collects(self) -> bool:
        """Return whether the command line has ``gc``."""
        with self._lock:
            if self._collects is None:
                process = self.launcher.start(self.work, ["gc", "--help"])
                self._collects = process.wait(LIMIT) == 0
            return self._collects
