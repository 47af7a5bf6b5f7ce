"""Workers that freeze amid a task, and wake up once their driver was killed and the job was done.

A task is paused before one of its changes of files. The driver is taken for dead, and another one
does the job to the end: it goes on with the first one's work, or learns another model. Then the
change happens, and the worker does its task, or all that it was given. Its driver is gone.

The published labels must be those of the second driver, to the byte, and nothing may be left behind
that no later run removes.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from chaos.stale import Pause, apart, look, watching

from distsvc.errors import DistsvcError
from distsvc.job.config import Job
from distsvc.run.job import run_job
from distsvc.run.work.start import Start
from distsvc.run.work.workers import fanout
from distsvc.storage.publishing.publication import Output, collect
from tests.small_runs import MODELS, small_job, three_clusters, write_table
from tests.storage.written_runs import Crash

SECOND = ("resume", "fresh", "refit")
FIRST_SEED, OTHER_SEED = 1, 2


class LatePause(Pause):
    """A pause within a task; once that is over, its driver makes no more changes."""

    inside, phase, over = False, "", False

    def before(self, name: str, args: tuple) -> None:
        if self.busy:
            return
        if self.over:
            raise Crash
        if self.inside:
            super().before(name, args)


@contextmanager
def late(pause: LatePause, goes_on: bool) -> Iterator[None]:
    """End the driver when a task that was paused ends, or with `goes_on` when all tasks have."""
    real = fanout._one_by_one

    def one_by_one(task, run_dir, numbers):
        if pause.busy:
            yield from real(task, run_dir, numbers)
            return

        def paused(run_dir, number):
            pause.inside, was = True, pause.paused
            try:
                return task(run_dir, number)
            finally:
                pause.inside = False
                if pause.paused and not was:
                    pause.phase = task.__self__.name
                if pause.paused and not (goes_on and number != numbers[-1]):
                    pause.over = True
                    raise Crash

        yield from real(paused, run_dir, numbers)

    with mock.patch.object(fanout, "_one_by_one", one_by_one):
        yield


def late_job(folder: Path, out: str, model: str, seed: int) -> Job:
    """Return a small job of three partitions, whose table is written if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "t.parquet"
    if not table.exists():
        write_table(table, three_clusters(900))
    return small_job(table, MODELS[model] | {"seed": seed}, output={"path": out})


def labels_of(out: str) -> list[str]:
    """Return the SHA-256 of the published files of labels."""
    manifest = Output(out).manifest()
    files = manifest.files if manifest else []
    return [one.sha256 for one in files if one.file.startswith("labels/")]


@cache
def undisturbed(model: str, seed: int) -> tuple[list[str], int]:
    """Return the labels of a job that nothing disturbs, and how many changes its tasks make."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        pause = LatePause(str(place / "out"))
        with watching(pause, stored=False), late(pause, goes_on=True):
            run_job(late_job(place, str(place / "out"), model, seed))
        return labels_of(str(place / "out")), pause.count


def late_worker(seed: int) -> dict:
    """Pause a worker before one of its changes; return what the log says of it."""
    draw, begun = random.Random(seed), time.monotonic()
    model = list(MODELS)[seed % len(MODELS)]
    second, goes_on = SECOND[seed // len(MODELS) % len(SECOND)], draw.random() < 0.5
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name, apart():
        place = Path(name).resolve()
        out = str(place / "out")
        count = undisturbed(model, FIRST_SEED)[1]
        at = draw.randrange(count)
        wanted = OTHER_SEED if second == "refit" else FIRST_SEED
        jobs = {one: late_job(place, out, model, one) for one in (FIRST_SEED, wanted)}

        def take_over() -> None:
            start = Start() if second == "resume" else Start(fresh=True)
            run_job(jobs[wanted], start=start)

        pause = LatePause(out, at, take_over)
        try:
            with watching(pause, stored=False), late(pause, goes_on):
                run_job(jobs[FIRST_SEED])
        except (Crash, DistsvcError):
            pass
        if not pause.paused:
            problems.append("it was not paused")
        problems += look(out)
        if labels_of(out) != undisturbed(model, wanted)[0]:
            problems.append("the labels are not those of the second driver")
        other = FIRST_SEED + OTHER_SEED - wanted
        run_job(late_job(place, out, model, other), start=Start(overwrite=True))
        if labels_of(out) != undisturbed(model, other)[0]:
            problems.append("another run has other labels")
        collect(out)
        problems += [f"after gc: {one}" for one in look(out)]
        problems += [f"left: {one}" for one in Output(out).leftovers()[:3]]
    return {
        "seed": seed, "kind": f"late {second}", "job": model, "what": pause.paused,
        "goes_on": goes_on, "moment": pause.phase, "at": f"{at} of {count}", "problems": problems,
        "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip
