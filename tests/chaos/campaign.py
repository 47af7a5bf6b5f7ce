"""Many disturbed runs: a line of JSON for each, a table of all, and exit 1 if one went wrong.

python -m tests.chaos --runs 500 --seed 0       five hundred runs
python -m tests.chaos --runs 500 --store        the same in an object store that fails
python -m tests.chaos --only 17                 the run of a seed again, and what it left
python -m tests.chaos --overwrites 200          a reader in a loop while results are replaced
python -m tests.chaos --races 100               drivers that start at the same moment
"""

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from chaos.case import KINDS, STORED, Case
from chaos.disturb import disturbed
from chaos.lab import Lab
from chaos.races import race
from chaos.readers import read_while_replaced

PER_SEED = 1_000_000
"""Runs have the seeds from ``PER_SEED * --seed`` on."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=0, help="disturbed runs")
    parser.add_argument("--overwrites", type=int, default=0, help="overwrites beside a reader")
    parser.add_argument("--races", type=int, default=0, help="races of two to four drivers")
    parser.add_argument("--seed", type=int, default=0, help="where seeds begin")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="seeds of single runs")
    parser.add_argument(
        "--kinds", nargs="+", choices=[*KINDS, *STORED], help="only these disturbances"
    )
    parser.add_argument("--job", default="", help="only jobs whose name begins so")
    parser.add_argument("--store", action="store_true", help="outputs in an object store")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--work", type=Path, help="where runs are made; bad ones stay there")
    parser.add_argument("--log", type=Path, help="the lines of JSON; default: WORK/log.jsonl")
    return parser.parse_args()


def cases(given: argparse.Namespace) -> list[Case]:
    """Return the runs that are asked for."""
    if given.only:
        return [Case.of(seed, stored=given.store) for seed in given.only]
    drawn = (Case.of(seed, stored=given.store) for seed in itertools.count(PER_SEED * given.seed))
    wanted = (
        case
        for case in drawn
        if (not given.kinds or case.kind in given.kinds) and case.job.startswith(given.job)
    )
    return list(itertools.islice(wanted, given.runs))


def attempted(lab: Lab, case: Case) -> dict:
    """Do a run; a failure of the harness itself is a problem of its own."""
    try:
        return disturbed(lab, case)
    except Exception as error:
        traceback.print_exc()
        problem = f"the harness failed: {type(error).__name__}: {error}"
        return {"seed": case.seed, "kind": case.kind, "job": case.job, "problems": [problem]}


def main() -> int:
    given = arguments()
    work = given.work or Path(tempfile.mkdtemp(prefix="distsvc-chaos-"))
    work.mkdir(parents=True, exist_ok=True)
    log = given.log or work / "log.jsonl"
    only = given.job
    lab, begun, outcomes = Lab(work.resolve(), stored=given.store), time.monotonic(), []
    try:
        with ThreadPoolExecutor(given.jobs) as pool, open(log, "a") as lines:
            todo = [pool.submit(attempted, lab, case) for case in cases(given)]
            seeds = [PER_SEED * given.seed + n for n in range(given.races)]
            todo += [pool.submit(race, lab, seed, only) for seed in seeds]
            if given.overwrites:
                asked = given.seed, given.overwrites, only
                todo.append(pool.submit(read_while_replaced, lab, *asked))
            for outcome in (one.result() for one in as_completed(todo)):
                outcomes.append(outcome)
                lines.write(json.dumps(outcome) + "\n")
                lines.flush()
                if outcome["problems"]:
                    show(outcome)
    finally:
        lab.close()
    wrong = summary(outcomes, time.monotonic() - begun)
    print(f"log: {log}")
    if not wrong and given.work is None and given.log is not None:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if wrong else 0


def show(outcome: dict) -> None:
    keys = ("seed", "kind", "job", "what", "overwrite", "moment", "codes", "tasks")
    shown = " ".join(
        f"{key}={outcome[key]}" for key in keys if outcome.get(key) not in (None, "", 0)
    )
    print(f"VIOLATION {shown}", *(f"    {problem}" for problem in outcome["problems"]), sep="\n")
    sys.stdout.flush()


def summary(outcomes: list[dict], seconds: float) -> int:
    """Print runs and violations by kind, and return how many runs went wrong."""
    runs = Counter(outcome["kind"] for outcome in outcomes)
    wrong = Counter(outcome["kind"] for outcome in outcomes if outcome["problems"])
    print(f"{'kind':<16}{'runs':>6}{'wrong':>7}  seeds of what went wrong")
    for kind in sorted(runs):
        seeds = [str(o["seed"]) for o in outcomes if o["kind"] == kind and o["problems"]]
        shown = " ".join(seeds[:20]) + (" ..." if len(seeds) > 20 else "")
        print(f"{kind:<16}{runs[kind]:>6}{wrong[kind]:>7}  {shown}")
    tasks = [o["tasks"] for o in outcomes if o.get("tasks", {}).get("kept")]
    made, whole = (sum(one[what] for one in tasks) for what in ("made", "whole"))
    print(f"{len(tasks)} last starts went on, and made {made} of {whole} results")
    total = sum(runs.values())
    print(f"{'all':<16}{total:>6}{sum(wrong.values()):>7}  {60 * total / seconds:.0f} a minute")
    return sum(wrong.values())
