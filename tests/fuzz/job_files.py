"""Mutated job files: each ends in one line that names field or file, or in a published result.

``python -m tests.fuzz.job_files --n 3000 --seed 0`` loads 3,000 and runs those that load, a tiny
table each. A mutation depends on the seed and its number alone.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import shutil
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DistsvcError
from distsvc.job.config import Job
from distsvc.job.file import load_job
from distsvc.run.job import run_job
from tests.published_files import nothing_left

N = 120
SECONDS = 20
"""Most processor time of one job file."""
BASE = {
    "input": {
        "path": '"in.parquet"',
        "columns": '["x", "y"]',
        "id": '"place"',
        "label": '"class"',
        "where": "\"place >= 0 and not (x > 100 or class in ['c'])\"",
    },
    "preprocess": {"scale": '"minmax"', "missing": '"error"'},
    "cluster": {"workers": "0", "threads": "1", "partition_rows": "50", "block_rows": "20"},
    "output": {
        "path": '"out"',
        "format": '"parquet"',
        "reasons": "0",
        "membership": "false",
        "top": "0",
    },
}
MODELS = (
    {"gamma": "1.0", "nu": "0.1", "max_iter": "300", "budget": "20", "theta": "0.1"},
    {"gamma": "[1.0, 4.0]", "max_iter": "300", "effort": '"fast"', "granularity": '"coarse"'},
    {"gamma": "1.0", "C": "5.0", "solver": '"exact"', "epsilon": "0.1", "segment_samples": "5"},
    {"gamma": "2.0", "solver": '"sgd"', "iterate": '"average"', "max_iter": "200", "tol": "0.01"},
    {"gamma": "1.0", "maintenance": '"project-nearest"', "projection_size": "3", "budget": "9"},
    {"algorithm": '"imdh"', "depth": "3", "n_init": "2", "passes": "2", "alpha": "0.1"},
    {"algorithm": '"imdh"', "n_clusters": "3", "bandwidth": "1.0", "clip": "3.0", "valley": "0.1"},
    {"algorithm": '"linear-one-class"', "nu": "0.2", "tol": "0.01", "memory_rows": "1000"},
    {"algorithm": '"linear-svdd"', "C": "0.1", "max_iter": "50", "compute_gap": "true"},
    {"algorithm": '"bico"', "n_clusters": "3", "size": "40", "n_init": "2"},
    {"algorithm": '"spdc"', "window": "50", "bandwidth": "1.0", "amnesia": "0.1", "valley": "0.1"},
    {"algorithm": '"depddp"', "n_clusters": "3", "grid_size": "32", "trim": "0.1"},
    {"algorithm": '"fuzzy-c-means"', "n_clusters": "3", "m": "2.0", "n_init": "2"},
)
NUMBERS = """
    0 -1 1 2 3 1.0 0.5 -0.0 1e-9 1e6 1e308 -1e308 5e-324 1e30 1e-30 inf -inf nan true false
    4294967295 4294967296 18446744073709551616 1000000 1000000000 1000000000000 0x10 1_000
"""
VALUES = r"""
    2024-01-01 2024-01-01T00:00:00Z 07:32:00 [] {} [1] [true] [nan] [[1.0]] {a=1} "" ''
    '3' 'auto' 'x' 'class' 'place' 'label' 'score' 'row' 'none' 'drop' 'zarr' 'exact' 'level-tree'
    ['x','x'] ['x','class'] ['place'] ['label'] 'x==' 'x>1e400' '`x`>"a"' '{run_date' "\u0000"
    "a\nb" "\u001b[31m" "\u202eb" auto [ { " ' #
"""
ODD = (
    *VALUES.split(),
    "9" * 5000,
    "[" * 3000,
    "{a=" * 3000,
    f"'{'n' * 300}'",
    f"'{'n' * 100_000}'",
    f"'{'(' * 5000}x == 1'",
    f"'x == {'9' * 5000}'",
    f"[{'1.0, ' * 1001}]",
    "'" + "/".join(["d" * 200] * 30) + "'",
)
KEYS = sorted({key for one in (*MODELS, *BASE.values()) for key in one} | {"seed", "size", "?"})
SCRAPS = [
    "\x00",
    "\n",
    "\r",
    "\ufeff",
    "'",
    '"',
    "[",
    "]",
    "=",
    ".",
    "#",
    "é",
    "\u202e",
    "1e",
    "--",
]
LENGTHY = {"max_iter": 2000, "n_init": 5, "passes": 10}
"""Keys by which a job may ask for as much time as it likes: of more, it is not run."""

FIELD = r"(input|preprocess|model|cluster|output)\b|--set|--run-date|job\.toml|in\.parquet|column"


def lines_of(number: int, changes: random.Random) -> list[str]:
    """Return a valid job file of one of the algorithms."""
    model = MODELS[number % len(MODELS)] | {"seed": str(changes.randrange(9))}
    sections = {name: dict(keys) for name, keys in (BASE | {"model": model}).items()}
    for keys in sections.values():
        for key in [key for key in keys if key not in ("path", "algorithm", "max_iter", "workers")]:
            if changes.random() < 0.3:
                del keys[key]
    text = []
    for name, keys in sections.items():
        text += [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]
    return text


def mutated(number: int, seed: int) -> tuple[bytes, tuple[str, ...], str | None]:
    """Return the job file, ``--set`` options and ``--run-date`` of a number."""
    changes = random.Random(f"{seed}-{number}")
    lines = lines_of(number, changes)
    for _ in range(changes.choice((0, 1, 1, 1, 2, 3))):
        i, kind = changes.randrange(len(lines)), changes.randrange(16)
        key, equals, _ = lines[i].partition(" = ")
        if kind < 10 and equals:
            lines[i] = f"{key} = {changes.choice(NUMBERS.split() if kind < 5 else ODD)}"
        elif kind == 10:
            lines.insert(i, lines[changes.randrange(len(lines))])
        elif kind == 11 and len(lines) > 1:
            del lines[i]
        elif kind < 14:
            lines.insert(i + 1, f"{changes.choice(KEYS)} = {changes.choice(ODD)}")
        elif kind == 14:
            lines[i] = lines[i].replace(changes.choice("[]=\"' ."), changes.choice(SCRAPS), 1)
        else:
            place = changes.randrange(len(lines[i]) + 1)
            lines[i] = lines[i][:place] + changes.choice(SCRAPS) + lines[i][place:]
    content = bytearray("\n".join(lines).encode())
    if changes.random() < 0.05:
        content[changes.randrange(len(content))] = changes.randrange(256)
    options: tuple[str, ...] = ()
    if changes.random() < 0.1:
        section = changes.choice([*BASE, "model", "", "a.b"])
        options = (f"{section}.{changes.choice(KEYS)}={changes.choice(ODD)}",)
    dates = (None,) * 150 + ("2024-02-30", "", "20240101", "x\n", "9" * 5000, "２０２４-０１-０１")
    return bytes(content), options, changes.choice(dates)


class NotWellError(Exception):
    """What should not have happened."""


def outcome(folder: Path, number: int, seed: int, run: bool) -> str:
    """Load a mutated job file, run it too if it loads; return how it ended, raise if not well."""
    content, options, date = mutated(number, seed)
    file, out = folder / "job.toml", folder / "out"
    file.write_bytes(content)
    try:
        job = load_job(file, options, date)
        if not (run and runs_here(job)):
            return "loaded"
        cluster = job.cluster.model_copy(update={"workers": 0})
        run_job(job.model_copy(update={"cluster": cluster}))
    except DistsvcError as error:
        message = str(error)
        if not (message.isprintable() and len(message) < 3000 and re.search(FIELD, message)):
            raise NotWellError(f"not one line that names a field: {message!r}") from error
        if not nothing_left(out):
            raise NotWellError(f"left behind: {sorted(out.rglob('*'))}") from error
        return type(error).__name__
    check_published(out, job.output.format)
    shutil.rmtree(out)
    return "published"


def runs_here(job: Job) -> bool:
    """Return True if a job stays in its folder, and does not ask for long work."""
    model = dict(job.model)
    here = (job.input.path, job.output.path) == ("in.parquet", "out")
    return here and all((model.get(key) or 0) <= most for key, most in LENGTHY.items())


def check_published(out: Path, form: str) -> None:
    """Check that every row has a label and a score that is a number."""
    if form == "zarr":
        import zarr

        label, score = (np.asarray(zarr.open_group(out)[name]) for name in ("label", "score"))
    else:
        table = pq.read_table(next((out / "labels").rglob("*.parquet")).parent)
        label, score = (table[name].to_numpy() for name in ("label", "score"))
    if not (len(label) and (label >= 0).all() and not np.isnan(score).any()):
        raise NotWellError("labels or scores are none")


def write_table(folder: Path) -> None:
    """Write the table that the jobs are about."""
    rng = np.random.default_rng(0)
    group = np.arange(N) % 3
    X = rng.normal(0.0, 0.3, (N, 2)) + 2.0 * group[:, None]
    kind = pa.array([("a", "b", "c")[g] if i % 40 else "c" for i, g in enumerate(group)])
    pq.write_table(
        pa.table({"place": np.arange(N), "x": X[:, 0], "y": X[:, 1], "class": kind}),
        folder / "in.parquet",
        row_group_size=30,
    )


def failures(folder: Path, numbers: range, seed: int, run: bool) -> list[str]:
    """Try mutations one after another, and tell of those that did not end well."""
    found: list[str] = []
    told = 0
    counts: collections.Counter[str] = collections.Counter()
    write_table(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for number in numbers:
            started = time.process_time()
            try:
                ended = outcome(folder, number, seed, run)
            except Exception as error:
                ended = f"failed: {type(error).__name__}"
                where = "".join(traceback.format_tb(error.__traceback__)[-3:])
                found.append(f"{number}: {type(error).__name__}: {str(error)[:500]}\n{where}")
                shutil.rmtree(folder / "out", ignore_errors=True)
            if (seconds := time.process_time() - started) > SECONDS:
                found.append(f"{number}: {seconds:.0f} s of processor time")
            counts[ended] += 1
            print(*found[told:], sep="\n", end="\n" if found[told:] else "", flush=True)
            told = len(found)
    finally:
        os.chdir(before)
    print(dict(counts.most_common()))
    return found


def main() -> None:
    """Try many, and print what did not end well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load-only", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numbers = range(given.first, given.first + given.n)
        found = failures(Path(folder), numbers, given.seed, run=not given.load_only)
    print(f"{given.n} job files, seed {given.seed}: {len(found)} did not end well")


if __name__ == "__main__":
    main()
