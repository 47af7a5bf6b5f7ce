"""Damaged inputs whose values are compared with those that other libraries read.

By hand: ``python -m tests.fuzz.values --n 400 --seed 0``. Each input is read in a process of its
own, so that one that aborts is counted.
"""

import argparse
import multiprocessing
import random
import shutil
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import zarr

from distsvc.errors import DistsvcError
from distsvc.job.config import InputConfig
from distsvc.storage.tables.opening import open_table, read_blocks
from tests.fuzz.inputs import damaged_input

LIMIT = 60
"""Seconds for one input."""


def ours(path: Path, staging: Path) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Return the features of an input, and the notes on its storage."""
    table = open_table(InputConfig(path=str(path)), staging)
    blocks = read_blocks(table, 0, min(table.n_rows, 100_000), 30)
    X = np.concatenate([block.X for block in blocks])
    return dict(zip(table.columns, X.T, strict=True)), table.notes


def theirs(path: Path) -> dict[str, Any]:
    """Return the columns of an input as pandas, pyarrow, zarr or a loop over lines reads them."""
    if path.suffix == ".svm":
        return _svmlight(path)
    if path.suffix == ".zarr":
        node = zarr.open(path, mode="r", use_consolidated=False)
        if isinstance(node, zarr.Array):
            return {f"f{k}": column for k, column in enumerate(np.atleast_2d(node[:].T))}
        return {name: node[name][:] for name in node.array_keys()}
    if ".csv" in path.name:
        frame = pd.read_csv(path, float_precision="round_trip", encoding_errors="replace")
    elif path.is_dir():
        parts = [pq.ParquetFile(one).read().to_pandas() for one in sorted(path.rglob("*.parquet"))]
        frame = pd.concat(parts, ignore_index=True)
    else:
        frame = pq.ParquetFile(path).read().to_pandas()
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _svmlight(path: Path) -> dict[str, np.ndarray]:
    rows = []
    for line in path.read_bytes().splitlines():
        words = line.partition(b"#")[0].split()
        if words:
            float(words[0])
            rows.append({int(k): float(v) for k, v in (word.split(b":") for word in words[1:])})
    width = max((max(row, default=0) for row in rows), default=0)
    found = {f"f{k}": np.array([row.get(k, 0.0) for row in rows]) for k in range(width + 1)}
    if not any(0 in row for row in rows):
        del found["f0"]
    return found


def difference(path: Path, staging: Path) -> tuple[str, str]:
    """Return whether the values of an input are equal, refused, noted, or differ in silence."""
    try:
        values, notes = ours(path, staging)
    except DistsvcError as error:
        return "refused", str(error)
    except Exception as error:
        return "defect", f"{type(error).__name__}: {error}"
    try:
        others = theirs(path)
    except Exception as error:
        return "noted" if notes else "only ours", f"{type(error).__name__}: {str(error)[:120]}"
    for name, column in values.items():
        known = pd.to_numeric(pd.Series(others.get(name, [])), errors="coerce")
        equal = len(known) == len(column) and np.array_equal(
            known.to_numpy(np.float64), column.astype(np.float64), equal_nan=True
        )
        if not equal:
            return "noted" if notes else "differs", f"{name}: {len(column)} rows, {len(known)}"
    return "equal", ""


def _child(seed: int, folder: str, results: Any) -> None:
    warnings.simplefilter("ignore")
    path = damaged_input(Path(folder), random.Random(seed))
    results.put((path.name, *difference(path, Path(folder) / "staging")))


def outcome(seed: int) -> tuple[str, str, str]:
    """Return the name of a damaged input, the kind of its outcome, and more about it."""
    folder = tempfile.mkdtemp(prefix="fuzz-")
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_child, args=(seed, folder, results))
    try:
        child.start()
        child.join(LIMIT)
        child.kill()
        if results.empty():
            return "", "abort", f"exit code {child.exitcode}"
        name, kind, what = results.get()
        return name, kind, what
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.n):
        name, kind, what = outcome(seed)
        counts[kind] += 1
        if kind not in ("equal", "refused", "noted"):
            print(seed, name, kind, what, flush=True)
    print(f"seeds {given.seed} to {given.seed + given.n - 1}:", dict(counts))


if __name__ == "__main__":
    main()
