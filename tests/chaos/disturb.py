"""What is done to runs, by kind; the oracle judges what they leave.

Every kind takes the first start of a run, or several, and says with which exit codes they may end.
The run is then started again, undisturbed, until it ends well.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from chaos import faults, results
from chaos.case import Case
from chaos.lab import LIMIT, Lab
from chaos.processes import Started, end, workers_of
from chaos.run import Run
from chaos.store import WHATS

SIGNAL_SECONDS = 10
"""In which a driver has to end after one signal, from when it has been delivered."""


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
    outcome |= {"tasks": run.tasks, "seconds": round(time.monotonic() - begun, 2)}
    return asdict(case) | outcome


def step(run: Run, *, publishing: bool) -> int:
    """Return at which change of files something happens; half of them are no mere writes."""
    made = run.lab.undisturbed(run.job, run.how)
    if publishing:
        numbers = made.publishing(narrow=run.case.narrow)
    else:
        numbers = list(range(1, len(made.events) + 1))
    if run.case.kind == "input" and run.case.narrow:
        numbers = numbers[: made.publishing()[0]]
    elif run.case.in_place:
        numbers = [n for n in numbers if not made.events[n - 1].startswith("write ")]
    return numbers[int(run.case.moment * len(numbers))]


def kill_driver(run: Run) -> None:
    kills = int(run.case.what) if run.case.kind == "driver-kills" else 1
    for moment in run.case.moments(kills):
        if run.lab.store:
            process = run.start()
            run.wait(process, moment)
            process.send(signal.SIGKILL)
        else:
            process = run.start(run.kill_at(moment))
        if run.ended(process, {-signal.SIGKILL, 0}) == 0:
            break


def kill_then_change_input(run: Run) -> None:
    """Kill a driver, change the input, and be refused: only what was asked anew begins anew."""
    kill_driver(run)
    changed = run.lab.undisturbed(run.job, run.case.what)
    faults.swap(str(run.folder / "in"), str(changed.folder / "in"), run.case.in_place)
    if unfinished(run):
        refused(run, run.start(), ("in",))
        run.extra = [*run.extra, "--fresh"]
    if published(run) and "--overwrite" not in run.extra:
        run.extra = [*run.extra, "--overwrite"]
    run.becomes(changed)


def kill_then_change_job(run: Run) -> None:
    """Kill a driver, and be refused with another job; then the first goes on, or another begins."""
    kill_driver(run)
    if not unfinished(run):
        return
    run.lab.give_model(run.job, run.folder, "other")
    said = ("model: ",) if run.job.predicts else ("model.seed: 1, now 3",)
    refused(run, run.start(which="other"), said)
    if run.case.what == "other":
        run.becomes(run.lab.undisturbed(run.job, "other"), "other")
    if run.case.what != "goes on":
        run.extra = [*run.extra, "--fresh"]


def kill_then_collect(run: Run) -> None:
    """Kill a driver, and have what it left removed: the next one begins from nothing."""
    kill_driver(run)
    run.collect()
    if kept := results.kept(run.out):
        run.problems.append(f"gc leaves {len(kept)} results")


def unfinished(run: Run) -> bool:
    """Return True if a run was interrupted that will go on, and has not published before."""
    return bool(results.kept(run.out)) and not published(run)


def published(run: Run) -> bool:
    """Return True if a start has published."""
    before = next(iter(run.starts.values())).published
    return results.published(run.out) != before


def refused(run: Run, process: Started, words: tuple[str, ...]) -> None:
    """Check that a start is refused because another run was begun, in words that say so."""
    run.ended(process, {78})
    expected = ("begun with another job, input or version", "--fresh", *words)
    if missing := [word for word in expected if word not in process.said()]:
        run.problems.append(f"exit 78 does not say {missing}")


def signal_driver(run: Run) -> None:
    process = run.start()
    run.wait(process, run.case.moment)
    number = getattr(signal, run.case.what)
    process.send(number)
    run.ended(process, {128 + number, -number, 0}, SIGNAL_SECONDS)


def stop_driver(run: Run) -> None:
    """Stop the driver for a while, in which another start finds the output held."""
    process = run.start()
    run.wait(process, run.case.moment)
    process.send(signal.SIGSTOP)
    if run.case.timed:
        run.ended(run.start(), {0, 75})
    else:
        time.sleep(run.case.pause)
    process.send(signal.SIGCONT)
    run.ended(process, {0, 75})


def kill_at_step(run: Run) -> None:
    """Kill a driver at a change of files; in a store, before the change is made or after it."""
    what = "SIGKILL"
    if run.lab.store:
        what = "kill before" if run.case.timed else "kill after"
    at = step(run, publishing=run.case.kind == "publish-kill")
    run.ended(run.start({"at": at, "what": what}), {-signal.SIGKILL, 0})


def fail_requests(run: Run) -> None:
    """Have many requests of a store go wrong, of those that change something or of all."""
    whats = ("lost",) if run.case.kind == "store-lost" else WHATS
    fault = {"seed": run.case.seed, "rate": run.case.moment / 3, "whats": whats}
    run.ended(run.start(fault), {0, 75})


def end_answers(run: Run) -> None:
    """Have a store give no answer any more, from some change on."""
    at = step(run, publishing=not run.case.timed)
    run.ended(run.start({"at": at, "what": "gone"}), {0, 75}, 2 * LIMIT)


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
    run.becomes(changed)
    if run.case.timed or run.lab.store:
        process = run.start()
        run.wait(process, run.case.moment)
        faults.swap(**args)
    else:
        at = step(run, publishing=False)
        process = run.start({"at": at, "what": "SWAP", "swap": args})
    run.ended(process, {0, 65, changed.code})
    run.extra = ["--overwrite"]


def two_drivers(run: Run) -> None:
    """Start the same run again while it is under way: what both compute is the same."""
    first = run.start()
    run.wait(first, run.case.moment)
    second = run.start()
    if run.ended(second, {0, 75}) == 75 and f"{first.pid}" not in second.said():
        run.problems.append("exit 75 does not say who holds the output")
    run.ended(first, {0, 75})


def disturb_worker(run: Run) -> None:
    process, until = run.start(), time.monotonic() + LIMIT
    while not (found := workers_of(run.folder)) and time.monotonic() < until:
        time.sleep(0.05)
    run.wait(process, run.case.moment)
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
    process = run.start(None, "--scheduler-file", str(address))
    run.wait(process, run.case.moment)
    run.around[0].send(signal.SIGKILL)
    run.ended(process, {0, 75})
    for other in run.around:
        other.send(signal.SIGKILL)
    run.around.clear()
    address = start_cluster(run, "second.json")
    run.extra += ["--scheduler-file", str(address)]


def start_cluster(run: Run, name: str) -> Path:
    """Start a scheduler and two workers, and return the scheduler's file."""
    file, log = run.folder / name, run.next_log
    plain = ["--host", "127.0.0.1", "--scheduler-file", str(file)]
    scheduling = "distributed.cli.dask_scheduler"
    args = [*plain, "--port", "0", "--no-dashboard"]
    scheduler = run.launch(args, log, {}, module=scheduling)
    run.around.append(scheduler)
    until = time.monotonic() + LIMIT
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory"]
    for number in range(2):
        args = [*plain, *options, str(run.folder / f"worker-{number}")]
        run.around.append(run.launch(args, log, {}, module="distributed.cli.dask_worker"))
    return file


DISTURB: dict[str, Callable[[Run], None]] = {
    "driver-kill": kill_driver,
    "driver-kills": kill_driver,
    "driver-signal": signal_driver,
    "driver-stop": stop_driver,
    "step-kill": kill_at_step,
    "publish-kill": kill_at_step,
    "storage-fault": fail_at_step,
    "publish-fault": fail_at_step,
    "input": change_input,
    "killed-input": kill_then_change_input,
    "killed-job": kill_then_change_job,
    "killed-gc": kill_then_collect,
    "two-drivers": two_drivers,
    "worker-kill": disturb_worker,
    "worker-stop": disturb_worker,
    "scheduler-kill": kill_scheduler,
    "store-lost": fail_requests,
    "store-trouble": fail_requests,
    "store-gone": end_answers,
}
