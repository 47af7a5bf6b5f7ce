"""What a run leaves behind beside its labels: the model, the manifest and the report."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from distsvc import __version__
from distsvc.config import Job, parse_job
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.metrics import clustering_report, indices_from_contingency
from distsvc.models.support_vector import SupportVectorClustering
from distsvc.report.page import write_page
from distsvc.run import tasks
from distsvc.run.directory import Plan, RunDirectory
from distsvc.storage.arrays import read_arrays, read_json, write_arrays, write_json
from distsvc.storage.parts import PUBLISHED, described
from distsvc.storage.tables import open_table
from distsvc.storage.where import where_columns

HISTOGRAM_BINS = 60
SHOWN_ROWS = 3000
INDEX_ROWS = 5000
GRID = 120
MODEL_VERSION = 1
MODEL_FILES = {
    "scaling": ("centre", "scale", "fill", "origin"),
    "decision": ("S", "a"),
    "clusters": ("points", "cluster", "score_edges"),
}
"""The files of a run's directory that labelling a row needs, and the arrays in each."""

LABEL_SCHEMA = {
    "label": "int32, >= 0: the cluster, 0 the largest on a sample; outliers have one too",
    "score": "float32: f(x), the decision value; 0 is the boundary of the domain of novelty",
    "outlier": "bool: f(x) < 0, the row lies outside every cluster",
}


@dataclass
class Totals:
    """What the label tasks counted: sizes (k, 2) inside and outside, the histogram, classes."""

    sizes: np.ndarray
    histogram: np.ndarray
    classes: dict[str, np.ndarray]
    parts: list[dict[str, Any]]

    @property
    def n_rows(self) -> int:
        """Rows labelled."""
        return int(self.sizes.sum())


def score_edges(model: SupportVectorClustering) -> np.ndarray:
    """Return the edges of the score histogram, from the pilot; the outermost bins take the rest."""
    scores = model.decision_(model.pilot_)
    low, high = float(scores.min()), float(scores.max())
    if high == low:
        low, high = low - 1.0, high + 1.0
    return np.linspace(low, high, HISTOGRAM_BINS + 1)


def add_up(results: Iterable[tuple[dict[str, Any], dict[str, np.ndarray]]], k: int) -> Totals:
    """Add the label tasks' counts, part by part."""
    totals = Totals(np.zeros((k, 2), np.int64), np.zeros(HISTOGRAM_BINS, np.int64), {}, [])
    for number, (facts, arrays) in enumerate(results):
        totals.sizes += arrays["sizes"]
        totals.histogram += arrays["histogram"]
        for name, counts in zip(facts["classes"], arrays["classes"], strict=True):
            totals.classes[name] = totals.classes.get(name, 0) + counts
        totals.parts.append({"file": f"labels/part-{number:05d}.parquet", **facts["part"]})
    return totals


def write_model(run: RunDirectory, job: Job, plan: Plan, model: SupportVectorClustering) -> None:
    """Write ``model/``: JSON for people and programs, arrays beside it, nothing executable."""
    folder = run.path / "model"
    folder.mkdir()
    arrays: dict[str, np.ndarray] = {
        "equilibria": model.equilibria_centred_,
        "equilibrium_labels": model.equilibrium_labels_,
    }
    facts: dict[str, Any] = {}
    for name in MODEL_FILES:
        more_facts, more_arrays = run.read(name)
        facts |= more_facts
        arrays |= more_arrays
    content = {
        "format": MODEL_VERSION,
        "algorithm": job.model.algorithm,
        "parameters": model.get_params(),
        "columns": plan.table.columns,
        "chosen_columns": job.input.columns is not None,
        "input": job.input.model_dump(include={"id", "label", "where"}),
        "preprocess": job.preprocess.model_dump(),
        "facts": facts,
    }
    write_json(folder / "model.json", content)
    write_arrays(folder / "arrays.npz", arrays)


def restore_model(
    published: Path, run: RunDirectory, path: str, output_path: str
) -> tuple[Job, int]:
    """Put a published model into a run's directory; return a job that labels `path`, and k.

    Raises
    ------
    InputNotFoundError
        No run is published there.
    JobFileError
        The model was written by a newer version.
    DataError
        The model is damaged, or the table has other columns, or the same ones in another order.

    """
    if not (published / "manifest.json").exists():
        raise InputNotFoundError(f"no run is published in {published}: it has no manifest.json")
    content = read_json(published / "model" / "model.json")
    arrays = read_arrays(published / "model" / "arrays.npz")
    if content.get("format") != MODEL_VERSION:
        raise JobFileError(
            f"{published}/model has format {content.get('format')!r}, expected {MODEL_VERSION}"
        )
    for name, members in MODEL_FILES.items():
        run.write(name, content["facts"], **{member: arrays[member] for member in members})
    columns = content["columns"]
    given = {"path": path, "id": content["input"]["id"]}
    if not content["chosen_columns"]:
        _check_columns(columns, content["input"], path, run.path / "staging")
    job = parse_job(
        {
            "input": {k: v for k, v in given.items() if v} | {"columns": columns},
            "preprocess": content["preprocess"],
            "output": {"path": output_path},
        }
    )
    return job, int(content["facts"]["n_clusters"])


def predict_digest(job: Job, published: Path) -> str:
    """Return a SHA-256 of everything that decides predicted labels but the table: job and model."""
    model = [described(published / "model" / name) for name in ("model.json", "arrays.npz")]
    return hashlib.sha256(json.dumps([job.digest(), model]).encode()).hexdigest()


def _check_columns(columns: list[str], used: dict[str, Any], path: str, staging: Path) -> None:
    """Compare the numeric columns of a table with a model's."""
    where = where_columns(used["where"]) if used["where"] else []
    apart = {used["id"], used["label"], *where}
    found = open_table(parse_job({"input": {"path": path}, "output": {"path": "-"}}).input, staging)
    names = [name for name in found.columns if name not in apart]
    if names != columns:
        raise DataError(
            f"{path}: expected the model's {len(columns)} columns in their order, "
            f"{', '.join(columns[:20])}; found {len(names)}: {', '.join(names[:20])}"
        )


def manifest(
    folder: Path, job: Job, plan: Plan, job_sha256: str, input_sha256: str, totals: Totals
) -> dict[str, Any]:
    """Return the manifest: what was made from what, and every file with its size and checksum."""
    packages = ("numpy", "numba", "pyarrow", "scikit-learn", "zarr")
    rows_of = {part["file"]: {"rows": part["rows"]} for part in totals.parts}
    names = [
        str(path.relative_to(folder))
        for place in PUBLISHED
        for path in [folder / place, *sorted((folder / place).rglob("*"))]
        if path.is_file()
    ]
    return {
        "format": 1,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "job_sha256": job_sha256,
        "input_sha256": input_sha256,
        "job": job.model_dump(mode="json", exclude={"cluster"}, exclude_none=True),
        "rows": totals.n_rows,
        "clusters": len(totals.sizes),
        "schema": {plan.table.id or "row": "the input's id, or the row's number"} | LABEL_SCHEMA,
        "files": [{"file": n} | rows_of.get(n, {}) | described(folder / n) for n in names],
        "versions": {"distsvc": __version__, "python": platform.python_version()}
        | {name: version(name) for name in packages},
    }


def make_report(
    run: RunDirectory,
    job: Job,
    plan: Plan,
    model: SupportVectorClustering,
    pilot: np.ndarray,
    totals: Totals,
    command: str,
) -> dict[str, Any]:
    """Return what ``report.json`` holds, but for the phases."""
    prepared = tasks.prepared(run, pilot)
    labels = model.clusters_.cluster[model.clusters_.labeller()(prepared)]
    order = np.argsort(-totals.sizes.sum(axis=1), kind="stable")
    rows_of = totals.sizes.sum(axis=1)
    n_outside = int(totals.sizes[:, 1].sum())
    given = job.model_dump(mode="json", exclude_none=True)
    _, published = run.read("clusters")
    report: dict[str, Any] = {
        "title": Path(job.output.path).name or "distsvc",
        "distsvc_version": __version__,
        "command": command,
        "job_file": tomli_w.dumps(given),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "input": {
            "path": job.input.path,
            "format": plan.table.format,
            "n_rows": totals.n_rows,
            "n_rows_read": plan.table.n_rows,
            "n_features": len(plan.table.columns),
            "columns": list(plan.table.columns),
        },
        "model": {
            "algorithm": job.model.algorithm,
            "parameters": model.get_params(),
            "fitted": fitted_facts(model),
        },
        "clusters": [
            {
                "label": int(c),
                "rows": int(rows_of[c]),
                "share": float(rows_of[c] / totals.n_rows),
                "outliers": int(totals.sizes[c, 1]),
            }
            for c in order
        ],
        "outliers": {"rows": n_outside, "share": n_outside / totals.n_rows},
        "score_histogram": {
            "edges": published["score_edges"].tolist(),
            "counts": totals.histogram.tolist(),
        },
        "warnings": model.notes_,
        **_pictures(run, plan, model, pilot, prepared, labels),
    }
    if totals.classes:
        report["indices"] = _indices(prepared[:INDEX_ROWS], labels[:INDEX_ROWS], totals)
    return report


def fitted_facts(model: SupportVectorClustering) -> dict[str, Any]:
    """Return the numbers that the fit arrived at."""
    return {
        "gamma": model.gamma_,
        "C": model.C_,
        "epsilon": model.epsilon_,
        "n_iter": model.n_iter_,
        "n_support_vectors": len(model.dual_coef_),
        "n_boundary": len(model.boundary_.X),
        "n_boundary_found": int(model.boundary_.counts.sum()),
        "n_equilibria": len(model.equilibria_),
        "n_clusters": model.n_clusters_,
    }


def _indices(X: np.ndarray, labels: np.ndarray, totals: Totals) -> dict[str, Any]:
    """Return the indices by class on all rows, the others on the pilot's rows."""
    table = np.column_stack(list(totals.classes.values()))
    by_class = indices_from_contingency(table)
    indices: dict[str, dict[str, Any]] = {
        name: {"value": value, "rows": totals.n_rows}
        for name, value in by_class.items()
        if name != "n_clusters"
    }
    for name, value in clustering_report(X, labels).items():
        if name != "n_clusters":
            indices[name] = {"value": value if np.isfinite(value) else None, "rows": len(X)}
    return indices


def _pictures(
    run: RunDirectory,
    plan: Plan,
    model: SupportVectorClustering,
    pilot: np.ndarray,
    prepared: np.ndarray,
    labels: np.ndarray,
) -> dict[str, Any]:
    """Return the points to draw, and for two columns the domain of novelty."""
    pilot, prepared, labels = pilot[:SHOWN_ROWS], prepared[:SHOWN_ROWS], labels[:SHOWN_ROWS]
    scores = model.decision_(prepared)
    columns = plan.table.columns
    sample: dict[str, Any] = {}
    picture: dict[str, Any] = {}
    if len(columns) == 1:
        sample |= {"kind": "single", "axes": [columns[0], "f(x)"]}
        x, y = pilot[:, 0], scores
    elif len(columns) == 2:
        _, scaling = run.read("scaling")
        pilot = np.where(np.isnan(pilot), scaling["fill"], pilot)
        sample |= {"kind": "columns", "axes": list(columns)}
        x, y = pilot.T
    else:
        x, y, share = _components(prepared, scores >= 0.0)
        sample |= {"kind": "pca", "axes": ["first component", "second component"]}
        sample["explained"] = share
    far = _beyond(x, y, scores < 0.0)
    if far.any():
        x, y, labels, scores = x[~far], y[~far], labels[~far], scores[~far]
        sample["beyond"] = int(far.sum())
    if len(columns) == 2:
        picture = {"picture": _domain(run, model, np.column_stack([x, y]))}
    sample |= {"label": labels.tolist(), "outlier": (scores < 0.0).tolist()}
    sample |= {"x": [round(float(v), 6) for v in x], "y": [round(float(v), 6) for v in y]}
    return {"sample": sample} | picture


def _components(X: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Project rows on the principal components of those inside; return x, y, shares of variance."""
    base = X[inside] if inside.sum() > 2 else X
    _, spread, axes = np.linalg.svd(base - base.mean(axis=0), full_matrices=False)
    x, y = ((X - base.mean(axis=0)) @ axes[:2].T).T
    share = spread**2 / max(float((spread**2).sum()), 1e-300)
    return x, y, [float(v) for v in share[:2]]


def _beyond(x: np.ndarray, y: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return which outliers lie so far out that drawing them would shrink all else to a spot."""
    far = np.zeros(len(x), bool)
    if outside.all():
        return far
    for v in (x, y):
        low, high = v[~outside].min(), v[~outside].max()
        margin = 0.5 * (high - low)
        far |= (v < low - margin) | (v > high + margin)
    return far & outside


def _domain(run: RunDirectory, model: SupportVectorClustering, rows: np.ndarray) -> dict[str, Any]:
    """Return f on a grid about the rows (n, 2), support vectors and equilibria, in raw units."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    x, y = (np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.column_stack([v.ravel() for v in np.meshgrid(x, y)])
    f = model.decision_(tasks.prepared(run, grid)).reshape(GRID, GRID)
    _, scaling = run.read("scaling")

    def raw(Z: np.ndarray) -> list[list[float]]:
        return ((Z + model.centre_) * scaling["scale"] + scaling["centre"]).tolist()

    return {
        "grid_x": x.tolist(),
        "grid_y": y.tolist(),
        "f": np.round(f.astype(float), 5).tolist(),
        "support_vectors": raw(model.decision_.S.T),
        "equilibria": raw(model.equilibria_centred_),
    }


def rewrite_page(folder: Path) -> Path:
    """Write ``report.html`` of a published run again and return its path.

    The manifest is brought up to date: it holds the page's checksum.
    """
    if not (folder / "manifest.json").exists():
        raise InputNotFoundError(f"no run is published in {folder}: it has no manifest.json")
    page = folder / "report.html"
    write_page(read_json(folder / "report.json"), page)
    content = read_json(folder / "manifest.json")
    for file in content["files"]:
        if file["file"] == page.name:
            file |= described(page)
    write_json(folder / "manifest.json", content)
    return page
