"""A small table, jobs that cluster it, and what a run leaves."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from distsvc.job.config import Job
from distsvc.job.file import parse_job
from tests.published_files import labels_folder
from tests.small_runs import digests

MODEL = {"gamma": 4.0, "nu": 0.1, "max_iter": 20_000, "budget": 40}
N = 900


def blobs(n: int = N, seed: int = 0) -> pa.Table:
    """Three clusters in two columns of unlike scale, an id, a class, and a column to filter by."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    X = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.5]])[y] + random.normal(0, 0.4, (n, 2))
    return pa.table(
        {
            "x": X[:, 0],
            "y": 100.0 * X[:, 1] + 7.0,
            "event": pa.array(random.permutation(n) + 10_000),
            "class": pa.array(np.array(["a", "b", "c"])[y]),
            "split": pa.array(np.arange(n) % 3, pa.int8()),
        }
    )


def config(path, out, **sections) -> Job:
    given = {
        "input": {"path": str(path), "columns": ["x", "y"]} | sections.pop("input", {}),
        "output": {"path": str(out)} | sections.pop("output", {}),
        "model": MODEL | sections.pop("model", {}),
        "cluster": {"partition_rows": 300, "block_rows": 100} | sections.pop("cluster", {}),
    }
    return parse_job(given | sections)


def label_files(out) -> dict[str, str]:
    """Return the digests of the parts, by their own names."""
    return digests(labels_folder(out))


def check_manifest(out) -> dict:
    manifest = json.loads((out / "manifest.json").read_text())
    entries = {file[key]: file for file in manifest["files"] for key in ("file", "stored")}
    found = digests(out)
    beside = {"manifest.json", "_SUCCESS", ".runs/lock", "report.html", "report.json"}
    assert set(entries) == set(found) - beside
    for name, file in entries.items():
        assert file["sha256"] == found[name]
        assert file["bytes"] == (out / name).stat().st_size
    return manifest


def copied(out, folder) -> Path:
    """Copy a published run into a folder, to be damaged."""
    for name in digests(out):
        target = folder / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((out / name).read_bytes())
    return folder / "copy"
