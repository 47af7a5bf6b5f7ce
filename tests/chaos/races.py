"""Drivers that start at the same moment on one output: exactly one of them publishes."""

import random
import shutil
import time
from functools import partial

from chaos import oracle
from chaos.jobs import JOBS
from chaos.lab import LIMIT, Lab
from chaos.oracle import TornError
from chaos.run import same

RACING = ("level-tree", "imdh", "spdc", "predict-spdc", "predict-level-tree", "predict-imdh")
SPREAD = 0.02
"""Seconds within which the drivers start."""
TROUBLE = 0.2
"""The largest share of requests that go wrong where the output is in a store."""


def race(lab: Lab, seed: int, only: str = "") -> dict:
    """Start two to four drivers together, and return what is said of the race in the log.

    In some races one of them has another job, and some replace what is there.
    """
    draw, begun = random.Random(seed), time.monotonic()
    job = JOBS[draw.choice([name for name in RACING if name.startswith(only)])]
    mixed, overwrites = draw.random() < 0.3, draw.random() < 0.3
    which = ["new"] * draw.randint(2, 4)
    if mixed:
        which[-1] = "old"
    folder = lab.work / "races" / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    lab.prepare(job, folder, overwrites=False)
    known = {one: lab.undisturbed(job, one).result for one in set(which)}
    if overwrites and not mixed:
        shutil.copytree(lab.undisturbed(job, "old").folder / "out", folder / "out")
    extra = ["--overwrite"] if overwrites else []
    place = lab.place(folder, f"race-{seed}", seed=seed, rate=TROUBLE * draw.random())
    watched = {"fault": place.watch(folder / "changes", {}), "more": place.environment}
    start_at = time.monotonic() + 0.5
    drivers = [
        lab.launcher.start(
            folder,
            job.command(one, place.output) + extra,
            start_at=start_at + SPREAD * draw.random(),
            **watched,
        )
        for one in which
    ]
    codes = [driver.wait(LIMIT) for driver in drivers]
    said = [driver.said() for driver in drivers]
    problems = place.look()
    place.close()
    published = partial(oracle.published, folder / "out", place.base)
    problems += judged(folder / "out", published, which, codes, said, known, overwrites)
    problems += held_by([d.pid for d in drivers], codes, said)
    if not problems:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "seed": seed, "kind": "race", "job": job.name, "overwrite": overwrites, "what": which,
        "codes": codes, "problems": problems, "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip


def judged(out, published, which, codes, said, known, overwrites) -> list[str]:
    """Check how many published, that the result is one of theirs, and that nothing else is left."""
    problems = [
        problem
        for code, text in zip(codes, said, strict=True)
        for problem in ([f"exit {code}"] if code is None else oracle.misspoken(code, text))
    ]
    allowed = {0, 75, 78} if len(known) > 1 and not overwrites else {0, 75}
    problems += [f"exit {code}" for code in codes if code not in allowed]
    publishing = [
        one
        for one, code, text in zip(which, codes, said, strict=True)
        if code == 0 and "already published" not in text
    ]
    if len(publishing) != 1 and not (len(known) > 1 and overwrites and publishing):
        problems.append(f"{len(publishing)} of {len(which)} published")
    try:
        found = published()
    except TornError as error:
        return [*problems, f"torn: {'; '.join(error.args)[:200]}"]
    if found is None:
        return [*problems, "nothing is published"]
    if not any(same(found, known[one]) for one in publishing):
        problems.append("what is published is no one's")
    problems += oracle.unfinished(out, found)
    if left := oracle.left_behind(out, tidy=True):
        problems.append(f"left: {', '.join(left)[:200]}")
    return problems


def held_by(pids: list[int], codes: list[int | None], said: list[str]) -> list[str]:
    """Check that a driver that found the output held says by which of the others."""
    for pid, code, text in zip(pids, codes, said, strict=True):
        others = [str(other) for other in pids if other != pid]
        if code == 75 and not any(other in text for other in others):
            return ["exit 75 does not say who holds the output"]
    return []
