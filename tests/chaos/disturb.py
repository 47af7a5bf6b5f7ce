"""Disturbed runs: what is done to one is drawn from its seed, and the oracle judges what it left.

Every kind takes the first start of a run and says with which exit codes it may end. The run is then
started again, undisturbed, until it ends well.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chaos import faults, oracle
from chaos.jobs import CHANGES, JOBS
from chaos.lab import LIMIT, WITH_WORKERS, Lab
from chaos.oracle import TornError
from chaos.processes import Started, end, left_running, workers_of

RESTARTS = 5
SIGNAL_SECONDS = 10
"""In which a driver has to end after one signal, from when it has been delivered."""

KINDS = {
    "driver-kill": 14, "driver-signal": 14, "driver-stop": 4, "step-kill": 10, "publish-kill": 18,
    "storage-fault": 10, "publish-fault": 14, "input": 14, "two-drivers": 4, "worker-kill": 3,
    "worker-stop": 2, "scheduler-kill": 3,
}  # fmt: skip
"""How often each kind is drawn."""

WHATS = {
    "driver-signal": ("SIGTERM", "SIGINT"),
    "storage-fault": ("ENOSPC", "EIO", "EACCES", "FULL"),
    "publish-fault": ("ENOSPC", "EIO", "EACCES", "FULL"),
    "input": CHANGES,
}
MAPPED = ("level-tree", "imdh", "linear-svdd")
"""Jobs that are run with workers too: those that read the table most often."""


@dataclass(frozen=True)
class Case:
    """One disturbed run; all of it follows from the seed.

    Attributes
    ----------
    seed : int
    kind, job : str
    what : str
        The signal, the error or the change of the input, for kinds that have several.
    overwrite : bool
        Whether another result is there before.
    fresh : bool
        Whether drivers are started from nothing, and not forked.
    workers : int
    moment : float
        When, from 0, the start, to 1; of the time that an undisturbed run takes, or of the changes
        of files that it makes.
    in_place, timed : bool
        Whether an input is written over, not replaced; and whether at a time, not at a step.
    pause : float
        Seconds for which a process is stopped.
    narrow : bool
        Whether, of the steps of publishing, only those outside the run's work files are meant; of
        the steps of a run whose input changes, those until all labels are written.
    at : int
        The number of the step, where it does not follow from `moment`.

    """

    seed: int
    kind: str
    job: str
    what: str
    overwrite: bool
    fresh: bool
    workers: int
    moment: float
    in_place: bool
    timed: bool
    pause: float
    narrow: bool
    at: int = 0

    @classmethod
    def of(cls, seed: int) -> "Case":
        draw = random.Random(seed)
        [kind] = draw.choices(list(KINDS), list(KINDS.values()))
        clustered = kind.startswith(("worker", "scheduler"))
        fits, predicts = (MAPPED, ()) if clustered else _names()
        name = draw.choice(predicts if predicts and draw.random() < 0.3 else fits)
        return cls(
            seed=seed,
            kind=kind,
            job=name,
            what=draw.choice(WHATS.get(kind, ("",))),
            overwrite=draw.random() < 0.5,
            fresh=draw.random() < 0.08,
            workers=2 if clustered else 0,
            moment=draw.random(),
            in_place=draw.random() < 0.5,
            timed=draw.random() < 0.5,
            pause=draw.uniform(0.3, 2.0),
            narrow=draw.random() < 0.6,
        )


def _names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    predicts = tuple(name for name in JOBS if name.startswith("predict-"))
    return tuple(name for name in JOBS if name not in predicts), predicts


class Run:
    """A disturbed run in its folder: starts drivers, and gathers exit codes and problems."""

    def __init__(self, lab: Lab, case: Case):
        self.lab, self.case, self.job = lab, case, JOBS[case.job]
        name = f"{case.job}-{case.overwrite:d}-{case.what}-{case.at}" if case.at else str(case.seed)
        self.folder = lab.work / "runs" / name
        self.out = self.folder / "out"
        shutil.rmtree(self.folder, ignore_errors=True)
        lab.prepare(self.job, self.folder, overwrites=case.overwrite)
        self.new = lab.undisturbed(self.job, "new").result
        self.old = lab.undisturbed(self.job, "old").result if case.overwrite else None
        self.expected, self.expected_code = self.new, 0
        self.codes: list[int | None] = []
        self.problems: list[str] = []
        self.said = ""
        self.extra = ["--overwrite"] if case.overwrite else []
        self.around: list[Started] = []

    def start(self, fault: dict | None = None, *more: str) -> Started:
        args = [*self.job.command("new"), *self.extra, *more]
        if self.case.workers and not self.around:
            args += WITH_WORKERS
        if fault:
            fault = {"under": str(self.out), **fault}
        return self.lab.launcher.start(self.folder, args, fresh=self.case.fresh, fault=fault)

    def ended(self, process: Started, codes: set[int], seconds: float = LIMIT) -> int | None:
        """Wait for the end of a process, and judge its code and words, and what is published."""
        code = process.wait(seconds * (1 + self.case.workers))
        if code is None:
            self.problems.append(f"still running after {seconds * (1 + self.case.workers):.0f} s")
            process.send(signal.SIGKILL)
            process.wait(LIMIT)
        said = process.said()
        if "init_import_site" in said and code not in codes:
            code = min(codes)  # Python was not yet there when the signal came
        self.codes.append(code)
        self.said = self.said or next((x for x in said.splitlines() if x[:1] not in "{ "), "")[:300]
        if code is not None and code not in codes:
            self.problems.append(f"exit {code}, expected one of {sorted(codes)}")
        if code is not None and code >= 0:
            self.problems += oracle.misspoken(code, said)
        self.judge(code)
        return code

    def judge(self, code: int | None) -> None:
        """Check that the old or the new result is published, whole."""
        try:
            found = oracle.published(self.out)
        except TornError as error:
            self.problems.append(f"torn after exit {code}: {'; '.join(error.args)[:200]}")
            return
        choices = [one for one in (self.expected, self.new) if one is not None]
        if code != 0:
            choices.append(self.old)
        if found is None and self.old is None and code != 0:
            return
        if found is None:
            self.problems.append(f"nothing is published after exit {code}")
        elif not any(one is not None and same(found, one) for one in choices):
            differing = found.differences(self.expected or self.new)
            self.problems.append(f"another result after exit {code}: {', '.join(differing)[:200]}")
        elif code == 0 and same(found, self.new) != (attested(found) == attested(self.new)):
            self.problems.append(f"the manifest attests another input after exit {code}")
        if left := oracle.left_behind(self.out, tidy=False):
            self.problems.append(f"left after exit {code}: {', '.join(left)[:200]}")

    def restart(self) -> None:
        """Start it again, undisturbed, until it ends as it should."""
        for _ in range(RESTARTS):
            code = self.ended(self.start(), {self.expected_code, 75})
            if code != 75:
                break
            time.sleep(0.5)
        if code != self.expected_code:
            self.problems.append(f"restarts end with exit {code}")
        elif code == 0:
            self.finish()

    def finish(self) -> None:
        """Check what is there after a good end: all of the new result, and nothing else."""
        try:
            found = oracle.published(self.out)
        except TornError:
            return  # said before
        if found is None or not same(found, self.expected):
            return
        self.problems += oracle.unfinished(self.out, found)
        if left := oracle.left_behind(self.out, tidy=True):
            self.problems.append(f"left at the end: {', '.join(left)[:200]}")
        if self.case.seed % 4 == 0 and self.lab.collects():
            self.collect()

    def collect(self) -> None:
        """Have what is not published removed: only the result is left, and it is whole."""
        process = self.lab.launcher.start(self.folder, ["gc", "out"])
        code = process.wait(LIMIT)
        found = None
        try:
            found = oracle.published(self.out)
        except TornError as error:
            self.problems.append(f"torn by gc: {'; '.join(error.args)[:200]}")
        replaced = list((self.out / ".runs" / "replaced").glob("*.json"))
        if code != 0 or found is None or not same(found, self.expected) or replaced:
            self.problems.append(f"gc: exit {code}, {len(replaced)} replaced results are left")

    def tidy(self, seconds: float = 20) -> None:
        """End what was started around the run, and check that no process is left of it."""
        for process in self.around:
            process.send(signal.SIGKILL)
        if self.case.workers or self.case.fresh:
            left = left_running(self.folder, seconds)
            if left:
                self.problems.append(f"{len(left)} processes are left after {seconds} s")
                end(left)


def same(one: oracle.Result, other: oracle.Result) -> bool:
    """Return whether two results are the same but for the times of the input's files."""
    return set(one.differences(other)) <= {"manifest: input_sha256 differs"}


def attested(result: oracle.Result) -> str:
    """Return what a manifest says of the input; it follows from the times of the files, too."""
    return str(result.manifest["input_sha256"])


def disturbed(lab: Lab, case: Case) -> dict:
    """Do one run and return what is said of it in the log."""
    begun = time.monotonic()
    run = Run(lab, case)
    try:
        DISTURB[case.kind](run)
        run.restart()
    finally:
        run.tidy()
    if not run.problems:
        shutil.rmtree(run.folder, ignore_errors=True)
    outcome = {"codes": run.codes, "problems": list(dict.fromkeys(run.problems)), "said": run.said}
    return asdict(case) | outcome | {"seconds": round(time.monotonic() - begun, 2)}


def moment(run: Run) -> float:
    """Return after how many seconds something happens."""
    how = "workers" if run.case.workers else "over" if run.case.overwrite else "new"
    seconds = run.lab.undisturbed(run.job, how).seconds
    if run.case.fresh and not run.case.workers:
        seconds += run.lab.launcher.import_seconds
    return 1.1 * run.case.moment * seconds


def step(run: Run, *, publishing: bool) -> int:
    """Return at which change of files something happens; half of them are no mere writes."""
    if run.case.at:
        return run.case.at
    made = run.lab.undisturbed(run.job, "over" if run.case.overwrite else "new")
    if publishing:
        numbers = made.publishing(narrow=run.case.narrow)
    else:
        numbers = list(range(1, len(made.events) + 1))
    if run.case.kind == "input" and run.case.narrow:
        numbers = numbers[: made.publishing()[0]]
    elif run.case.in_place:
        numbers = [n for n in numbers if not made.events[n - 1].startswith("write ")]
    return numbers[int(run.case.moment * len(numbers))]


def every_step(lab: Lab, name: str) -> list[Case]:
    """Return a kill and a full disk at every step of publishing, first and over another result."""
    plain = Case.of(0)
    return [
        replace(plain, seed=-1, kind=kind, job=name, what=what, overwrite=overwrite, fresh=False,
                workers=0, moment=0.0, at=at)
        for overwrite in (False, True)
        for at in lab.undisturbed(JOBS[name], "over" if overwrite else "new").publishing()
        for kind, what in (("publish-kill", ""), ("publish-fault", "FULL"))
    ]  # fmt: skip


def kill_driver(run: Run) -> None:
    seconds, process = moment(run), run.start()
    time.sleep(seconds)
    process.send(signal.SIGKILL)
    run.ended(process, {-signal.SIGKILL, 0})


def signal_driver(run: Run) -> None:
    seconds, process = moment(run), run.start()
    time.sleep(seconds)
    number = getattr(signal, run.case.what)
    process.send(number)
    run.ended(process, {128 + number, -number, 0}, SIGNAL_SECONDS)


def stop_driver(run: Run) -> None:
    """Stop the driver for a while, in which another start finds the output held."""
    seconds, process = moment(run), run.start()
    time.sleep(seconds)
    process.send(signal.SIGSTOP)
    if run.case.timed:
        run.ended(run.start(), {0, 75})
    else:
        time.sleep(run.case.pause)
    process.send(signal.SIGCONT)
    run.ended(process, {0, 75})


def kill_at_step(run: Run) -> None:
    at = step(run, publishing=run.case.kind == "publish-kill")
    run.ended(run.start({"at": at, "what": "SIGKILL"}), {-signal.SIGKILL, 0})


def fail_at_step(run: Run) -> None:
    at = step(run, publishing=run.case.kind == "publish-fault")
    run.ended(run.start({"at": at, "what": run.case.what}), {0, 70, 75, 77})


def change_input(run: Run) -> None:
    changed = run.lab.undisturbed(run.job, run.case.what)
    args = {
        "old": str(run.folder / "in"),
        "new": str(changed.folder / "in"),
        "in_place": run.case.in_place,
    }
    run.expected, run.expected_code = changed.result, changed.code
    if run.case.timed:
        seconds, process = moment(run), run.start()
        time.sleep(seconds)
        faults.swap(**args)
    else:
        at = step(run, publishing=False)
        process = run.start({"at": at, "what": "SWAP", "swap": args})
    run.ended(process, {0, 65, changed.code})
    run.extra = ["--overwrite"]


def two_drivers(run: Run) -> None:
    """Start the same run again while it is under way: what both compute is the same."""
    seconds, first = moment(run), run.start()
    time.sleep(seconds)
    second = run.start()
    if run.ended(second, {0, 75}) == 75 and f"{first.pid}" not in second.said():
        run.problems.append("exit 75 does not say who holds the output")
    run.ended(first, {0, 75})


def disturb_worker(run: Run) -> None:
    seconds, process = moment(run), run.start()
    until = time.monotonic() + LIMIT
    while not (found := workers_of(run.folder)) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(seconds)
    found = sorted(workers_of(run.folder)) or found
    chosen = found[run.case.seed % len(found) :][:1]
    if run.case.kind == "worker-kill":
        end(chosen)
    else:
        send(chosen, signal.SIGSTOP)
        time.sleep(run.case.pause)
        send(chosen, signal.SIGCONT)
    run.ended(process, {0, 75})


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def kill_scheduler(run: Run) -> None:
    """Kill the scheduler of a cluster that others run, and start the run again on another."""
    address = start_cluster(run, "first.json")
    seconds, process = moment(run), run.start(None, "--scheduler-file", str(address))
    time.sleep(seconds)
    run.around[0].send(signal.SIGKILL)
    run.ended(process, {0, 75})
    for other in run.around:
        other.send(signal.SIGKILL)
    run.around.clear()
    address = start_cluster(run, "second.json")
    run.extra += ["--scheduler-file", str(address)]


def start_cluster(run: Run, name: str) -> Path:
    """Start a scheduler and two workers, and return the scheduler's file."""
    file = run.folder / name
    launch = run.lab.launcher.start
    plain = ["--host", "127.0.0.1", "--scheduler-file", str(file)]
    scheduler = launch(
        run.folder,
        [*plain, "--port", "0", "--no-dashboard"],
        module="distributed.cli.dask_scheduler",
    )
    run.around.append(scheduler)
    until = time.monotonic() + LIMIT
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory"]
    for number in range(2):
        args = [*plain, *options, str(run.folder / f"worker-{number}")]
        run.around.append(launch(run.folder, args, module="distributed.cli.dask_worker"))
    return file


DISTURB: dict[str, Callable[[Run], None]] = {
    "driver-kill": kill_driver,
    "driver-signal": signal_driver,
    "driver-stop": stop_driver,
    "step-kill": kill_at_step,
    "publish-kill": kill_at_step,
    "storage-fault": fail_at_step,
    "publish-fault": fail_at_step,
    "input": change_input,
    "two-drivers": two_drivers,
    "worker-kill": disturb_worker,
    "worker-stop": disturb_worker,
    "scheduler-kill": kill_scheduler,
}
