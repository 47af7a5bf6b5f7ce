"""Runs of the command that get a signal at a random moment; by hand: ``--help``.

``python tests/jobs/signal_runs.py --runs 200 --seed 1 --burners 2`` takes about half an hour.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MARK = "DISTSVC_SIGNAL_RUN"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
BOUND = 60.0
"""Seconds after which processes that are still there count as left behind."""

JOB = """
[input]
path = "{folder}/in.parquet"
[model]
algorithm = "{algorithm}"
[cluster]
workers = {workers}
partition_rows = 500
[output]
path = "{folder}/out"
"""


@dataclass(frozen=True)
class Kind:
    """What a run does, and where it is stopped."""

    number: signal.Signals
    workers: int
    cold: bool
    algorithm: str


@dataclass(frozen=True)
class Outcome:
    """What became of it: when it was stopped or done, seconds after that, what is wrong."""

    kind: Kind
    moment: float
    seconds: float
    code: int
    wrong: list[str]


def prepare(folder: Path, kind: Kind) -> list[str]:
    """Write table and job of a run, and return its command."""
    X = np.random.default_rng(0).normal(size=(2000, 3))
    X[::2] += 6.0
    pq.write_table(pa.table({f"x{k}": X[:, k] for k in range(3)}), folder / "in.parquet")
    job = JOB.format(folder=folder, algorithm=kind.algorithm, workers=kind.workers)
    (folder / "job.toml").write_text(job)
    return [sys.executable, "-m", "distsvc", "run", str(folder / "job.toml")]


def marked(mark: str) -> list[int]:
    """Return the processes that have the mark in their environment and are no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def disturbed(kind: Kind, moment: float, warm: Path) -> Outcome:
    """Start a run, signal it after `moment` seconds and see how it ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mark = f"{MARK}={folder.name}"
        cache = folder / "kernels" if kind.cold else warm
        environment = os.environ | {MARK: folder.name, "NUMBA_CACHE_DIR": str(cache)}
        command = prepare(folder, kind)
        with (folder / "err").open("wb") as err, (folder / "stdout").open("wb") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
            started = time.monotonic()
            try:
                process.wait(moment)
                moment = time.monotonic() - started  # it was done before
            except subprocess.TimeoutExpired:
                process.send_signal(kind.number)
            signalled = time.monotonic()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            while marked(mark) and time.monotonic() - signalled < BOUND:
                time.sleep(0.02)
            seconds = time.monotonic() - signalled
            left = marked(mark)
        wrong = judged(folder, kind, process.returncode)
        if left:
            wrong.append(f"{len(left)} processes left")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
    return Outcome(kind, moment, seconds, process.returncode, wrong)


def judged(folder: Path, kind: Kind, code: int) -> list[str]:
    """Return what is wrong with the end of a run, apart from the time that it took.

    A process that a signal kills ends with the code that a shell gives it. One that gets the signal
    before it has begun with the program ends in Python's way.
    """
    wrong = []
    silent = code < 0
    code = abs(code) + 128 if silent else code
    published = (folder / "out" / "manifest.json").exists()
    error = (folder / "err").read_text(errors="replace")
    if code not in (0, CODES[kind.number]):
        wrong.append(f"code {code}")
    if code == 0 and not published:
        wrong.append("code 0 and nothing published")
    if "Traceback" in error or "Exception ignored" in error:
        wrong.append("traceback")
    if code and not silent and "Interrupted" not in error:
        wrong.append("not a word")
    out = folder / "out"
    left = {path.relative_to(out).parts[:2] for path in out.rglob("*")}
    if not published and len({parts[1] for parts in left if len(parts) == 2} - {"lock"}) > 1:
        wrong.append(f"left {sorted(left)}")  # more than an interrupted run, to be gone on with
    if wrong:
        wrong.append(error[-2000:])
    return wrong


@contextmanager
def busy(burners: int):
    """Keep processors busy with something else."""
    processes = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(burners)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _burn() -> None:
    while True:
        pass


def main() -> None:
    """Do as the options say, and print one line for each run and one for all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--burners", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="first guess at a whole run")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children must not ignore it
    draw = random.Random(options.seed)
    outcomes, whole = [], {}
    with tempfile.TemporaryDirectory() as warm, busy(options.burners):
        for run in range(options.runs):
            kind = Kind(
                draw.choice(list(CODES)),
                workers=(0, 2)[run % 2],
                cold=run // 2 % 2 == 0,
                algorithm=draw.choice(["support-vector", "imdh", "linear-svdd"]),
            )
            key = kind.workers, kind.cold, kind.algorithm
            moment = draw.random() * whole.get(key, options.seconds)
            outcome = disturbed(kind, moment, Path(warm))
            if outcome.code == 0:
                whole[key] = outcome.moment
            outcomes.append(outcome)
            print(json.dumps(asdict(outcome), default=str), flush=True)
    ended = [one for one in outcomes if one.code]
    seconds = sorted(one.seconds for one in ended) or [0.0]
    print(
        f"{len(outcomes)} runs, seed {options.seed}: {len(ended)} stopped,"
        f" {sum(not one.wrong for one in outcomes)} right;"
        f" seconds to the end: median {statistics.median(seconds):.2f}, most {seconds[-1]:.2f}"
    )
    sys.exit(any(one.wrong for one in outcomes))


if __name__ == "__main__":
    main()
