"""A reader in a loop while a result is replaced again and again, by drivers that are killed too.

Between two overwrites there may be a candidate that a check holds back: it must change nothing that
the reader sees.

The reader knows one thing: ``manifest.json`` lists the files. It must find every one of them, with
the size and the bytes that are listed, whatever happens meanwhile.
"""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from chaos import oracle
from chaos.jobs import JOBS
from chaos.lab import LIMIT, Lab
from chaos.oracle import TornError
from chaos.run import same

READ = ("level-tree", "imdh", "spdc", "predict-spdc", "predict-level-tree", "predict-imdh")
BETWEEN = 0.005
"""Seconds from one look to the next."""
HELD = 76
"""The exit code of a run that a check holds back."""
PAUSE = 0.3
"""Seconds that the slower reader lets pass, at most, between the manifest and its files."""


def look(out: Path, pause: float) -> tuple[str, str]:
    """Read a result once: return which manifest it was, and what was wrong.

    A reader that finds a file gone reads the manifest again. If it has been replaced twice
    meanwhile, the reader was overtaken, which is no fault: "overtaken".
    """
    try:
        text = (out / "manifest.json").read_bytes()
        manifest = json.loads(text)
    except FileNotFoundError:
        return "", "no manifest"
    except ValueError:
        return "", "a damaged manifest"
    time.sleep(pause)
    which = str(manifest["job_sha256"])
    for entry in manifest["files"]:
        try:
            content = (out / entry["file"]).read_bytes()
        except OSError as error:
            with suppress(OSError, ValueError):
                again = (out / "manifest.json").read_bytes()
                if again != text and json.loads(again)["job_sha256"] == which:
                    return which, "overtaken"
            return which, f"{oracle.place_of(entry['file'])}: {type(error).__name__}"
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            return which, f"{oracle.place_of(entry['file'])} is of another result"
    return which, ""


def read_in_a_loop(out: Path, stop: Path, pause: float, seed: int) -> dict:
    """Read until the file `stop` is there; return the counts of reads and of what was wrong."""
    draw, reads, wrong, seen = random.Random(seed), 0, {}, {}
    while not stop.exists():
        which, what = look(out, draw.uniform(0.0, pause))
        reads += 1
        seen[which] = seen.get(which, 0) + 1
        if what:
            wrong[what] = wrong.get(what, 0) + 1
        time.sleep(BETWEEN)
    return {"reads": reads, "wrong": wrong, "seen": seen}


def read_while_replaced(
    lab: Lab, seed: int, overwrites: int, only: str = "", held: int = 0
) -> dict:
    """Replace a result so many times beside two readers; return what the log says of it.

    After each of the first `held` overwrites a check holds a candidate back.
    """
    draw, begun = random.Random(seed), time.monotonic()
    names = [name for name in READ if name.startswith(only) and not (held and JOBS[name].predicts)]
    job = JOBS[names[seed % len(names)]]
    folder = lab.work / "readers" / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    lab.prepare(job, folder, overwrites=True)
    stop, results = folder / "stop", {one: lab.undisturbed(job, one) for one in ("new", "old")}
    readers = [start_reader(folder, stop, pause, seed) for pause in (0.0, PAUSE)]
    codes, problems = [], []
    try:
        for number in range(overwrites):
            which = ("new", "old")[number % 2]
            codes += replaced(lab, job, folder, which, draw)
            problems += whole(folder / "out", results[which])
            if number < held:
                codes.append(held_back(lab, job, folder, number))
                problems += whole(folder / "out", results[which])
    finally:
        stop.touch()
        counts = [json.loads(reader.communicate(timeout=LIMIT)[0]) for reader in readers]
    for name, count in zip(("reader", "slow reader"), counts, strict=True):
        faults = {what: n for what, n in count["wrong"].items() if what != "overtaken"}
        problems += [f"{name}: {what}, {n} of {count['reads']}" for what, n in faults.items()]
        others = len(count["seen"].keys() - {""}) - len(results)
        problems += [f"{name}: saw {others} that were never published"] if others > 0 else []
    problems += ["not every candidate was held back"] if codes.count(HELD) != held else []
    return {
        "seed": seed, "kind": "readers", "job": job.name, "codes": sorted(set(codes)),
        "overwrites": overwrites, "held": held, "kills": codes.count(-signal.SIGKILL),
        "readers": counts,
        "problems": list(dict.fromkeys(problems)), "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip


def replaced(lab: Lab, job, folder: Path, which: str, draw: random.Random) -> list[int]:
    """Replace the result; in a third of all times the first driver is killed while it publishes."""
    codes = []
    for kill in (draw.random() < 1 / 3, False):
        if codes and codes[-1] == 0:
            break
        at = draw.choice(lab.undisturbed(job, "over").publishing(narrow=True))
        fault = {"under": str(folder / "out"), "at": at, "what": "SIGKILL"} if kill else None
        driver = lab.launcher.start(folder, [*job.command(which), "--overwrite"], fault=fault)
        codes.append(driver.wait(LIMIT))
    return codes


def held_back(lab: Lab, job, folder: Path, number: int) -> int | None:
    """Start a candidate that fails a check, another one for every number; return the exit code."""
    checks = ["--set", "checks.min_rows=1000000000", "--set", f"model.seed={1000 + number}"]
    driver = lab.launcher.start(folder, [*job.command("other"), *checks, "--overwrite"])
    return driver.wait(LIMIT)


def whole(out: Path, made) -> list[str]:
    """Check that a result is what is published."""
    try:
        found = oracle.published(out)
    except TornError as error:
        return [f"torn: {'; '.join(error.args)[:200]}"]
    if found is None or not same(found, made.result):
        return ["what is published is not what was published last"]
    return []


def start_reader(folder: Path, stop: Path, pause: float, seed: int) -> subprocess.Popen:
    """Start a reader as a process of its own."""
    code = (
        f"import sys, json; from pathlib import Path; sys.path.insert(0, {sys.path[0]!r});"
        "from chaos.readers import read_in_a_loop;"
        f"print(json.dumps(read_in_a_loop(Path({str(folder / 'out')!r}), Path({str(stop)!r}),"
        f" {pause}, {seed})))"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
