"""Digests of what five jobs and a later night publish, to compare two versions of the code."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000
MODELS: dict[str, dict[str, Any]] = {
    "auto": {"algorithm": "auto", "effort": "fast"},
    "boundary": {"algorithm": "support-vector", "gamma": 0.05, "nu": 0.1, "max_iter": 20_000},
    "hyperplanes": {"algorithm": "imdh"},
    "linear": {"algorithm": "linear-svdd", "nu": 0.1, "memory_rows": 5_000},
    "sampled": {"algorithm": "depddp"},
}
PREPROCESS: dict[str, dict[str, Any]] = {
    "auto": {"missing": "median", "encode": {"country": "onehot", "city": "frequency"}},
    "boundary": {"missing": "median", "scale": "robust", "log": ["bytes"]},
    "hyperplanes": {"scale": "unit"},
    "linear": {"missing": "drop", "scale": "minmax"},
    "sampled": {"missing": "median", "scale": "standard"},
}
INPUT: dict[str, dict[str, Any]] = {
    "auto": {},
    "boundary": {"where": "x0 > -12"},
    "hyperplanes": {"columns": ["v"]},
    "linear": {"columns": ["x0", "x1", "x2", "gap"]},
    "sampled": {"id": "name", "columns": ["x0", "x1", "x2", "x3"]},
}
VOLATILE = re.compile(r"created|seconds|time|peak|write_id|job_sha256|input_sha256")
"""Names of fields that differ from run to run."""


def pins(options: Namespace) -> None:
    """SHA-256 of labels, models and manifests of fixed jobs, and of what their models predict."""
    from benchmarks.harness.measure import publish
    from benchmarks.harness.rows import show

    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        rows = digests(Path(folder))
    show("What was published", rows)
    publish(options.out, "pins", rows)


def digests(folder: Path, store: str | None = None) -> list[dict[str, Any]]:
    """Run every job with 0 and 2 workers to Parquet and Zarr; return a row a published file."""
    import distsvc

    _tables(folder)
    rows = []
    for name in MODELS:
        for workers, form in ((0, "parquet"), (2, "zarr"), (2, "parquet"), (0, "zarr")):
            if store and (workers, form) not in ((0, "parquet"), (2, "zarr")):
                continue
            base = store or str(folder)
            out = f"{base}/{name}-{workers}-{form}"
            about = {"job": name, "workers": workers, "format": form, "store": bool(store)}
            rows += _published(distsvc, job(folder, name, workers, form, out), out, about)
            if name == "auto":
                later = job(folder, name, workers, form, out + "-later", night=2)
                later["continuity"] = {"previous": out}
                rows += _published(distsvc, later, out + "-later", about | {"job": "later"})
            if not store:
                rows.append(about | {"file": "predict", "sha256": _predicted(folder, out, name)})
    return rows


def job(folder: Path, name: str, workers: int, form: str, out: str, night: int = 1) -> dict:
    """Return a job as a dictionary."""
    return {
        "input": {"path": str(folder / f"night{night}")} | INPUT[name],
        "preprocess": PREPROCESS[name],
        "model": MODELS[name],
        "cluster": {"workers": workers, "block_rows": 1_500, "partition_rows": 6_000},
        "output": {"path": out, "format": form, "membership": name == "auto"}
        | ({"reasons": 2} if form == "parquet" else {}),
    }


def _tables(folder: Path) -> None:
    """Write two nights of clusters with a heavy tail, a vector, categories and gaps."""
    for night in (1, 2):
        random = np.random.default_rng(night)
        group = random.integers(0, 5, ROWS)
        middles = np.random.default_rng(9).normal(0.0, 6.0, (5, 8))
        X = middles[group] + random.normal(0.0, 1.0, (ROWS, 8))
        heavy = np.exp(X[:, 4])
        heavy[11] = 1e9
        columns: dict[str, Any] = {f"x{k}": X[:, k] for k in range(4)}
        columns |= {
            "name": np.arange(ROWS) * 7 + 3,
            "bytes": heavy,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float32).ravel()), 8),
            "country": pa.array(np.array(["DE", "FR", "IT", "ES", "PT"])[group]),
            "city": pa.array((random.pareto(1.0, ROWS) * 9).astype(int) % 300).cast(pa.string()),
            "gap": pa.array(X[:, 6], mask=random.random(ROWS) < 0.05),
        }
        whole, inner = pa.table(columns), folder / f"night{night}"
        inner.mkdir()
        pq.write_table(whole.slice(0, 9_000), inner / "a.parquet", row_group_size=2_500)
        pq.write_table(whole.slice(9_000), inner / "b.parquet", row_group_size=4_000)


def _published(distsvc: Any, content: dict, out: str, about: dict) -> list[dict[str, Any]]:
    """Run a job; return a row for each file of labels and model, and one for the manifest."""
    import fsspec

    run = distsvc.run(content, progress=False)
    system, root = fsspec.url_to_fs(out)
    system.invalidate_cache()
    manifest = json.loads(system.cat_file(f"{root}/manifest.json"))
    run_id = manifest["run_id"]
    kept = []
    places = str(Path(out).parent), str(Path(content["input"]["path"]).parent)
    for path in sorted(system.find(f"{root}")):
        inner = path.split(root.rstrip("/") + "/", 1)[1].replace(run_id, "RUN")
        if re.search(r"(^|/)(labels|model)(/|$)", inner):
            body = system.cat_file(path)
            if inner.endswith(".json"):
                body = _steady(json.loads(body.replace(run_id.encode(), b"RUN")), places)
            kept.append(about | {"file": inner, "sha256": hashlib.sha256(body).hexdigest()[:16]})
    text = json.dumps(manifest).replace(run_id, "RUN")
    if manifest.get("previous"):
        text = text.replace(manifest["previous"]["run_id"], "PREVIOUS")
    body = _steady(json.loads(text), places)
    kept.append(about | {"file": "manifest", "sha256": hashlib.sha256(body).hexdigest()[:16]})
    kept.append(about | {"file": "columns", "sha256": _digest(run.labels())})
    return kept


def _steady(content: Any, places: tuple[str, ...]) -> bytes:
    """Return JSON without what names a moment, a place, or another file's digest of those."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            steady = {k: cleaned(v) for k, v in value.items() if not VOLATILE.search(k)}
            if str(value.get("file", "")).startswith("report/"):
                return {"file": steady["file"]}
            return steady
        if isinstance(value, list):
            return [cleaned(one) for one in value]
        for place in places if isinstance(value, str) else ():
            value = value.replace(place, "BASE")
        return value

    return json.dumps(cleaned(content), sort_keys=True).encode()


def _predicted(folder: Path, out: str, name: str) -> str:
    """Return the digest of what `distsvc predict` writes for the later night."""
    import distsvc

    target = f"{out}-predicted"
    subprocess.run(
        [sys.executable, "-m", "distsvc", "predict", out, str(folder / "night2"), target],
        check=True,
        capture_output=True,
    )
    return _digest(distsvc.load(target).labels())


def _digest(table: pa.Table) -> str:
    """Return the digest of a table's values, column by column."""
    digest = hashlib.sha256()
    for column in table.combine_chunks().columns:
        digest.update(repr(column.to_pylist()).encode())
    return digest.hexdigest()[:16]
