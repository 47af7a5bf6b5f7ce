"""A disturbed run in its folder: starts drivers, and judges how they end and what they leave."""

import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from chaos import oracle, results
from chaos.case import Case
from chaos.jobs import JOBS
from chaos.lab import LIMIT, WITH_WORKERS, Lab, Undisturbed
from chaos.oracle import TornError
from chaos.processes import Started, end, left_running

RESTARTS = 5
LOOK_SECONDS = 0.01
"""The time between two looks at how far a driver is."""
FEW = 0.03
"""The share of a store's requests that go wrong in half of all runs, whatever else happens."""
IN_ORDER = {65, 66}
"""What a run ends with of which nothing is kept: its data are at fault."""


@dataclass
class Start:
    """What was there when a driver was started.

    `log` has the changes of files that it and its workers make, `kept` the results of which it
    makes use, and `published` is the run that was published. It is `alone` if no other driver
    was running then or came later.
    """

    log: Path
    kept: set[str]
    published: str | None
    alone: bool = True

    @property
    def n_changes(self) -> int:
        """How many changes of files there were until now."""
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    @property
    def made(self) -> list[str]:
        """The results that it made, in order; of one that was killed, perhaps not the last."""
        return results.made(results.logged(self.log))


class Run:
    """A disturbed run in its folder: starts drivers, and gathers exit codes and problems."""

    def __init__(self, lab: Lab, case: Case):
        self.lab, self.case, self.job = lab, case, JOBS[case.job]
        self.folder = lab.work / "runs" / str(case.seed)
        self.out = self.folder / "out"
        shutil.rmtree(self.folder, ignore_errors=True)
        lab.prepare(self.job, self.folder, overwrites=case.overwrite)
        rate = FEW if case.narrow else 0.0
        self.place = lab.place(self.folder, f"run-{case.seed}", seed=case.seed, rate=rate)
        self.how = "over" if case.overwrite else "new"
        self.how = "stored" if lab.store else "workers" if case.workers else self.how
        self.which = "new"
        self.wholes = [lab.undisturbed(self.job, "new")]
        self.new = self.wholes[0].result
        self.old = lab.undisturbed(self.job, "old").result if case.overwrite else None
        self.expected, self.expected_code = self.new, 0
        self.codes: list[int | None] = []
        self.problems: list[str] = []
        self.said = ""
        self.extra = ["--overwrite"] if case.overwrite else []
        self.around: list[Started] = []
        self.starts: dict[Started, Start] = {}
        self.tasks = {"kept": 0, "made": 0, "whole": 0}

    def becomes(self, made: Undisturbed, which: str = "new") -> None:
        """Expect another result from now on, of another table or another job."""
        self.wholes.append(made)
        self.expected, self.expected_code, self.which = made.result, made.code, which
        if which != "new":
            self.new = made.result

    def start(self, fault: dict | None = None, *more: str, which: str = "") -> Started:
        args = [*self.job.command(which or self.which, self.place.output), *self.extra, *more]
        if self.case.workers and not self.around:
            args += WITH_WORKERS
        running = [other for other in self.starts if not other.code.done()]
        self.look()  # which takes a while, in which others may end
        fresh, log = "--fresh" in args, self.next_log
        start = Start(log, set() if fresh else results.kept(self.out), results.published(self.out))
        for other in running:
            self.starts[other].alone = start.alone = False
        process = self.launch(args, log, fault or {})
        self.starts[process] = start
        return process

    @property
    def next_log(self) -> Path:
        """Where the changes of files are written that the next driver and its workers make."""
        return self.folder / f"changes-{len(self.starts)}"

    def launch(self, args: list[str], log: Path, fault: dict, **options) -> Started:
        """Start a process whose changes of files in the output are logged."""
        watched = self.place.watch(log, fault)
        options = {"fault": watched, "more": self.place.environment, **options}
        fresh = self.case.fresh and "module" not in options
        process = self.lab.launcher.start(self.folder, args, fresh=fresh, **options)
        self.place.started(process)
        return process

    def look(self) -> None:
        """Have in the folder `out` what the output holds."""
        self.problems += self.place.look()

    def kill_at(self, moment: float) -> dict:
        """Return the settings of a process that ends itself at a moment, which is more precise."""
        n, seconds = self.at(moment, results.kept(self.out))
        return {"at": max(n, 1), "what": "SIGKILL", "after": seconds}

    def at(self, moment: float, kept: set[str]) -> tuple[int, float]:
        """Return when a moment of what is left to be done is; see `Undisturbed.at`."""
        undisturbed = self.lab.undisturbed(self.job, self.how)
        return undisturbed.at(moment, kept, working=self.case.working)

    def wait(self, process: Started, moment: float) -> None:
        """Wait until a driver is at a moment, from 0 to 1, of the time that it would take.

        That is told by the changes of files it has made, so that how busy the machine is does not
        matter, and by the time from one to the next, where those are far apart.
        """
        start = self.starts[process]
        n, seconds = self.at(moment, start.kept)
        if self.case.fresh and n == 0:
            seconds += moment * self.lab.launcher.import_seconds
        until = time.monotonic() + LIMIT
        while start.n_changes < n and not process.code.done() and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        time.sleep(seconds)

    def ended(self, process: Started, codes: set[int], seconds: float = LIMIT) -> int | None:
        """Wait for the end of a process, and judge its code and words, and what is published."""
        code = process.wait(seconds * (1 + self.case.workers))
        if code is None:
            self.problems.append(f"still running after {seconds * (1 + self.case.workers):.0f} s")
            process.send(signal.SIGKILL)
            process.wait(LIMIT)
        self.look()
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
        if self.starts[process].alone:
            self.account(self.starts[process], code, '"event": "resumed"' in said)
        return code

    def judge(self, code: int | None) -> None:
        """Check that the old or the new result is published, whole."""
        try:
            found = oracle.published(self.out, self.place.base)
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

    def account(self, start: Start, code: int | None, resumed: bool) -> None:
        """Check that a start did no more than was missing, and kept what it did."""
        before, made, after = start.kept, start.made, results.kept(self.out)
        published = results.published(self.out) != start.published
        if again := sorted(before.intersection(made)):
            self.problems.append(f"done again: {named(again)}")
        if code == 0 and published:
            self.account_whole(before, set(made), resumed)
        elif code == 0:
            if made:
                self.problems.append(f"done although published: {named(made)}")
        elif code == 78 and after != before:
            self.problems.append(f"kept {len(before)} results, {len(after)} after exit 78")
        elif code in IN_ORDER and after not in (set(), before):
            self.problems.append(f"{len(after)} results are kept after exit {code}")
        elif code not in (0, 78, *IN_ORDER) and not published:
            had = before.union(made[:-1])
            if any("/" in name for name in had) and had - after:
                self.problems.append(f"lost with exit {code}: {named(sorted(had - after))}")

    def account_whole(self, before: set[str], made: set[str], resumed: bool) -> None:
        """Check that what was kept and what was made are all results that a run has."""
        wholes = [set(results.made(one.changes)) for one in self.wholes]
        self.tasks = {"kept": len(before), "made": len(made), "whole": len(before | made)}
        if (before | made) not in wholes:
            unlike = min((whole ^ (before | made) for whole in wholes), key=len)
            self.problems.append(f"missing, or too many: {named(sorted(unlike))}")
        if resumed != bool(before):
            self.problems.append(f"{len(before)} results were kept, and resumed is {resumed}")

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
            found = oracle.published(self.out, self.place.base)
        except TornError:
            return  # said before
        if found is None or not same(found, self.expected):
            return
        self.problems += oracle.unfinished(self.out, found)
        if left := oracle.left_behind(self.out, tidy=True):
            self.problems.append(f"left at the end: {', '.join(left)[:200]}")
        if self.case.seed % 4 == 0:
            self.collect()
            replaced = list((self.out / ".runs" / "replaced").glob("*.json"))
            found = oracle.published(self.out, self.place.base)
            if replaced or found is None or not same(found, self.expected):
                self.problems.append(f"gc: {len(replaced)} replaced results are left")

    def collect(self) -> None:
        """Have what is not published removed: nothing is kept, and what is published is whole."""
        begun = (self.out / ".runs").is_dir()
        code = self.launch(["gc", self.place.output], self.folder / "changes-gc", {}).wait(LIMIT)
        self.look()
        if code != (0 if begun else 66):
            self.problems.append(f"gc: exit {code}")
        self.judge(None)
        if left := oracle.left_behind(self.out, tidy=True):
            self.problems.append(f"left by gc: {', '.join(left)[:200]}")

    def tidy(self, seconds: float = 20) -> None:
        """End what was started around the run, and check that no process is left of it."""
        for process in self.around:
            process.send(signal.SIGKILL)
        self.place.close()
        if self.case.workers or self.case.fresh:
            left = left_running(self.folder, seconds)
            if left:
                self.problems.append(f"{len(left)} processes are left after {seconds} s")
                end(left)


def same(one: oracle.Result, other: oracle.Result) -> bool:
    """Return True if two results are the same but for the times of the input's files."""
    return set(one.differences(other)) <= {"manifest: input_sha256 differs"}


def attested(result: oracle.Result) -> str:
    """Return what a manifest says of the input; it follows from the times of the files, too."""
    return str(result.manifest["input_sha256"])


def named(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names[:6])}"
