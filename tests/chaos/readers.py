"""A reader in a loop while a result is replaced again and again, by drivers that are killed too.

How a reader looks is told in `chaos.looking`.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from chaos import oracle
from chaos.jobs import JOBS, Job
from chaos.lab import LIMIT, Lab, Place
from chaos.oracle import TornError
from chaos.run import same

READ = ("level-tree", "imdh", "spdc", "predict-spdc", "predict-level-tree", "predict-imdh")
PAUSE = 0.3
"""Seconds that the slower reader lets pass, at most, between the manifest and its files."""


def read_while_replaced(lab: Lab, seed: int, overwrites: int, only: str = "") -> dict:
    """Replace a result so many times beside two readers; return what the log says of it."""
    draw, begun = random.Random(seed), time.monotonic()
    names = [name for name in READ if name.startswith(only)]
    job = JOBS[names[seed % len(names)]]
    folder = lab.work / "readers" / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    lab.prepare(job, folder, overwrites=True)
    place = lab.place(folder, f"readers-{seed}", seed=seed)
    stop, results = folder / "stop", {one: lab.undisturbed(job, one) for one in ("new", "old")}
    where = folder / "out" if lab.store is None else lab.store.behind_url(place.output)
    readers = [start_reader(str(where), stop, pause, seed) for pause in (0.0, PAUSE)]
    codes, problems = [], []
    try:
        for number in range(overwrites):
            which = ("new", "old")[number % 2]
            codes += replaced(lab, place, job, folder, which, draw)
            problems += place.look() + whole(folder / "out", place.base, results[which])
    finally:
        stop.touch()
        counts = [json.loads(reader.communicate(timeout=LIMIT)[0]) for reader in readers]
        place.close()
    for name, count in zip(("reader", "slow reader"), counts, strict=True):
        faults = {what: n for what, n in count["wrong"].items() if what != "overtaken"}
        problems += [f"{name}: {what}, {n} of {count['reads']}" for what, n in faults.items()]
        others = len(count["seen"].keys() - {""}) - len(results)
        problems += [f"{name}: saw {others} that were never published"] if others > 0 else []
    return {
        "seed": seed, "kind": "readers", "job": job.name, "codes": sorted(set(codes)),
        "overwrites": overwrites, "kills": codes.count(-signal.SIGKILL), "readers": counts,
        "problems": list(dict.fromkeys(problems)), "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip


def replaced(
    lab: Lab, place: Place, job: Job, folder: Path, which: str, draw: random.Random
) -> list[int | None]:
    """Replace the result; in a third of all times the first driver is killed while it publishes."""
    codes: list[int | None] = []
    how, what = ("over", "SIGKILL") if lab.store is None else ("stored", "kill before")
    for kill in (draw.random() < 1 / 3, False):
        if codes and codes[-1] == 0:
            break
        at = draw.choice(lab.undisturbed(job, how).publishing(narrow=True))
        watched = place.watch(folder / "changes", {"at": at, "what": what} if kill else {})
        args = [*job.command(which, place.output), "--overwrite"]
        driver = lab.launcher.start(folder, args, fault=watched, more=place.environment)
        place.started(driver)
        codes.append(driver.wait(LIMIT))
    return codes


def whole(out: Path, base: str, made) -> list[str]:
    """Check that a result is what is published; `base` is what the output is in."""
    try:
        found = oracle.published(out, base)
    except TornError as error:
        return [f"torn: {'; '.join(error.args)[:200]}"]
    if found is None or not same(found, made.result):
        return ["what is published is not what was published last"]
    return []


def start_reader(out: str, stop: Path, pause: float, seed: int) -> subprocess.Popen:
    """Start a reader as a process of its own."""
    code = (
        f"import sys, json; from pathlib import Path; sys.path.insert(0, {sys.path[0]!r});"
        "from chaos.looking import read_in_a_loop;"
        f"print(json.dumps(read_in_a_loop({out!r}, Path({str(stop)!r}),"
        f" {pause}, {seed})))"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
