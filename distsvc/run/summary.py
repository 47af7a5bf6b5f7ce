"""What a run leaves behind beside its labels: the model, the manifest and the report."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from distsvc import __version__
from distsvc.config import Job, parse_job
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.metrics import clustering_report, indices_from_contingency
from distsvc.models.baselines.rules import RULES
from distsvc.models.baselines.sampled import Baseline
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.hyperplanes.tree import ClusterTree
from distsvc.models.linear.estimators import LinearModel, LinearOneClassSVM, LinearSVDD
from distsvc.models.support_vector.estimator import SupportVectorClustering
from distsvc.report.page import write_page
from distsvc.run import level_pictures, pictures, reasons
from distsvc.run.directory import Plan, RunDirectory
from distsvc.storage.arrays import read_arrays, read_json, write_arrays, write_json
from distsvc.storage.publication import PUBLISHED
from distsvc.storage.published import described, meanings, part_file
from distsvc.storage.tables import open_table, states_width
from distsvc.storage.where import where_columns

HISTOGRAM_BINS = 60
INDEX_ROWS = 5000
MODEL_VERSION = 3
LINEAR_FILES: dict[str, tuple[str, ...]] = {
    "scaling": ("centre", "scale", "fill", "origin"),
    "linear": ("weights", "mean"),
    "labelling": ("score_edges",),
}
MODEL_FILES = {
    "support-vector": {
        "scaling": ("centre", "scale", "fill", "origin"),
        "decision": ("S", "a"),
        "clusters": ("points", "cluster"),
        "labelling": ("score_edges",),
    },
    "level-tree": {
        "scaling": ("centre", "scale", "fill", "origin"),
        "levels": ("components", "S", "a", "part"),
        "labelling": ("score_edges",),
    },
    "imdh": {
        "scaling": ("centre", "scale", "fill", "origin"),
        "tree": tuple(field.name for field in fields(ClusterTree)),
        "labelling": ("score_edges",),
    },
    "linear-one-class": LINEAR_FILES,
    "linear-svdd": LINEAR_FILES,
} | {
    form: {
        "scaling": ("centre", "scale", "fill", "origin"),
        "rule": tuple(field.name for field in fields(rule)),
        "labelling": ("score_edges",),
    }
    for form, rule in RULES.items()
}
"""The files of a run's directory that labelling a row needs, and the arrays in each."""

LABEL_SCHEMA = {
    "support-vector": {
        "label": "int32, >= 0: the cluster, 0 the largest on a sample; outliers have one too",
        "score": "float32: f(x), the decision value; 0 is the boundary of the domain of novelty",
        "outlier": "bool: f(x) < 0, the row lies outside every cluster",
    },
    "level-tree": {
        "label": "int32, >= 0: the cluster, 0 the largest on a sample; outliers have one too",
        "score": "float32: f(x), the density relative to the least of any cluster's rows, less 1",
        "outlier": "bool: f(x) < 0, the row lies outside every cluster",
    },
    "imdh": {
        "label": "int32, >= 0: the cluster, 0 the largest on a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane on the row's path through the "
        "tree, in standard deviations of its node's rows along its normal; infinity where there is "
        "one cluster",
        "outlier": "bool: always false, for a tree of hyperplanes divides all of space",
    },
    "linear-one-class": {
        "label": "int32: always 0",
        "score": "float32: w.x - rho, the decision value; 0 is the hyperplane",
        "outlier": "bool: score < 0, the row lies on the origin's side of the hyperplane",
    },
    "linear-svdd": {
        "label": "int32: always 0",
        "score": "float32: R^2 - |x - a|^2, the decision value; 0 is the ball's surface",
        "outlier": "bool: score < 0, the row lies outside the ball",
    },
    "centres": {
        "label": "int32, >= 0: the cluster, that of the nearest centre; 0 the largest on a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane midway between the row's "
        "centre and another, in the unit of the scaled columns; infinity where there is one "
        "cluster",
        "outlier": "bool: always false, for centres divide all of space",
    },
    "splits": {
        "label": "int32, >= 0: the cluster, 0 the largest on a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane on the row's path through the "
        "tree, in the unit of the scaled columns; infinity where there is one cluster",
        "outlier": "bool: always false, for a tree of hyperplanes divides all of space",
    },
}

ALL_INSIDE = {
    "imdh": (
        "A tree of hyperplanes divides all of space among its clusters, so no row lies outside. "
        "The score tells how near a row comes to belonging elsewhere: its distance to the nearest "
        "hyperplane on its path, in standard deviations of the node's rows along its normal.",
        {
            "heading": "Distance to the nearest hyperplane",
            "title": "distance to the nearest hyperplane on the row's path, in standard deviations",
            "boundary": None,
        },
    ),
    "centres": (
        "Centres divide all of space among their clusters, so no row lies outside. The score tells "
        "how near a row comes to belonging elsewhere: its distance to the nearest hyperplane "
        "midway between its centre and another, in the unit of the scaled columns.",
        {
            "heading": "Distance to the border of the cluster",
            "title": "distance to the nearest hyperplane midway to another centre",
            "boundary": None,
        },
    ),
    "splits": (
        "A tree of hyperplanes divides all of space among its clusters, so no row lies outside. "
        "The score tells how near a row comes to belonging elsewhere: its distance to the nearest "
        "hyperplane on its path, in the unit of the scaled columns.",
        {
            "heading": "Distance to the nearest hyperplane",
            "title": "distance to the nearest hyperplane on the row's path",
            "boundary": None,
        },
    ),
}
"""Of models without outliers: what the page says of that and of the score."""

OUTSIDE_OF_LINEAR = {
    "linear-one-class": "The decision value is w.x - rho: negative on the origin's side of the "
    "hyperplane, and the further the row lies there the lower.",
    "linear-svdd": "The decision value is the squared radius of the ball less the row's squared "
    "distance from its centre: negative outside.",
}

Model = SupportVectorClustering | IncrementalMDH | LinearOneClassSVM | LinearSVDD | Baseline
"""The estimators that a job can have."""


@dataclass
class Totals:
    """What the label tasks counted: sizes (k, 2) inside and outside, the histogram, classes."""

    sizes: np.ndarray
    histogram: np.ndarray
    classes: dict[str, np.ndarray]
    parts: list[dict[str, Any]]
    leading: np.ndarray | None = None
    farthest: list[dict[str, Any]] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Rows labelled."""
        return int(self.sizes.sum())


def write_labelling(run: RunDirectory, algorithm: str, n_clusters: int, scores: np.ndarray) -> None:
    """Write what is common to all models that label: which, how many clusters, what scores.

    The edges of the score histogram are those of the pilot's scores (m,); the outermost bins take
    the rest.
    """
    low, high = (float(scores.min()), float(scores.max())) if np.isfinite(scores).all() else (0, 1)
    if high == low:
        low, high = low - 1.0, high + 1.0
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    facts = {"algorithm": algorithm, "n_clusters": n_clusters}
    run.write("labelling", facts, score_edges=edges)


def add_up(results: Iterable[tuple[dict[str, Any], dict[str, np.ndarray]]]) -> Totals:
    """Add the label tasks' counts, part by part."""
    totals = Totals(np.zeros((1, 2), np.int64), np.zeros(HISTOGRAM_BINS, np.int64), {}, [])
    for number, (facts, arrays) in enumerate(results):
        totals.sizes = totals.sizes + arrays["sizes"]
        totals.histogram += arrays["histogram"]
        for name, counts in zip(facts["classes"], arrays["classes"], strict=True):
            totals.classes[name] = totals.classes.get(name, 0) + counts
        totals.leading = arrays["leading"] + (0 if totals.leading is None else totals.leading)
        totals.farthest = reasons.farthest(totals.farthest + facts["farthest"])
        totals.parts.append({"file": part_file(number), **facts["part"]})
    return totals


def write_model(run: RunDirectory, job: Job, model: Model) -> None:
    """Write ``model/``: JSON for people and programs, arrays beside it, nothing executable."""
    folder, plan = run.path / "model", run.plan
    folder.mkdir()
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    form = run.read("labelling")[0]["algorithm"]
    for name in MODEL_FILES[form]:
        more_facts, more_arrays = run.read(name)
        facts |= more_facts
        arrays |= more_arrays
    if form == "support-vector":
        arrays["equilibria"] = model.equilibria_centred_
        arrays["equilibrium_labels"] = model.equilibrium_labels_
    content = {
        "format": MODEL_VERSION,
        "algorithm": job.model.algorithm,
        "form": form,
        "parameters": model.get_params(),
        "columns": plan.table.columns,
        "chosen_columns": job.input.columns is not None,
        "input": job.input.model_dump(include={"id", "label", "where"}),
        "preprocess": job.preprocess.model_dump(),
        "facts": facts,
    }
    write_json(folder / "model.json", content)
    write_arrays(folder / "arrays.npz", arrays)


def restore_model(published: Path, run: RunDirectory, path: str, output_path: str) -> Job:
    """Put a published model into a run's directory; return a job that labels `path`.

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
    for name, members in MODEL_FILES[content["form"]].items():
        run.write(name, content["facts"], **{member: arrays[member] for member in members})
    columns = content["columns"]
    given = {"path": path, "id": content["input"]["id"]}
    if not content["chosen_columns"]:
        _check_columns(columns, content["input"], path, run.path / "staging")
    return parse_job(
        {
            "input": {k: v for k, v in given.items() if v} | {"columns": columns},
            "preprocess": content["preprocess"],
            "model": {"algorithm": content["algorithm"]},
            "output": {"path": output_path, "reasons": content["facts"].get("reasons", 0)},
        }
    )


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
    if not states_width(found) and set(names) <= set(columns):
        return
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
    form = RunDirectory(folder).read("labelling")[0]["algorithm"]
    rows_of = {part["file"]: {"rows": part["rows"]} for part in totals.parts}
    columns = [*LABEL_SCHEMA[form], *(["reasons"] if job.output.reasons else [])]
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
        "schema": meanings(plan.table.id or "row", columns, LABEL_SCHEMA[form]),
        "files": [{"file": n} | rows_of.get(n, {}) | described(folder / n) for n in names],
        "versions": {"distsvc": __version__, "python": platform.python_version()}
        | {name: version(name) for name in packages},
    }


def make_report(
    run: RunDirectory, job: Job, model: Model, pilot: np.ndarray, totals: Totals, command: str
) -> dict[str, Any]:
    """Return what ``report.json`` holds, but for the phases."""
    plan = run.plan
    rows = pictures.Rows.of(run, pilot)
    order = np.argsort(-totals.sizes.sum(axis=1), kind="stable")
    rows_of = totals.sizes.sum(axis=1)
    n_outside = int(totals.sizes[:, 1].sum())
    given = job.model_dump(mode="json", exclude_none=True)
    labelling, published = run.read("labelling")
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
            "fitted": model.fitted_facts(),
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
        **pictures.plane(run, rows),
    }
    if isinstance(model, IncrementalMDH):
        report["tree"] = pictures.tree(model, plan.table.columns, rows)
    elif len(plan.table.columns) == 2 and isinstance(model, SupportVectorClustering):
        report["picture"] = pictures.domain(run, model, report["sample"])
    if labelling["algorithm"] in ALL_INSIDE:
        meaning, score = ALL_INSIDE[labelling["algorithm"]]
        report["outliers"] |= {"defined": False, "meaning": meaning}
        report["score_histogram"] |= score
        if labelling["n_clusters"] == 1:
            report["score_histogram"]["counts"] = []
    if isinstance(model, SupportVectorClustering) and model.by_levels_:
        report["levels"] = level_pictures.levels(model.levels_)
        doubts = report["levels"]["doubts"]
        report["warnings"] = [note for note in model.notes_ if note not in doubts]
    if isinstance(model, LinearModel) and totals.leading is not None:
        columns = plan.table.columns
        report["reasons"] = reasons.for_report(columns, totals.leading, totals.farthest)
        report["outliers"]["meaning"] = OUTSIDE_OF_LINEAR[job.model.algorithm]
        report["score_histogram"]["title"] = "decision value; negative is outside"
    elif totals.classes:
        report["indices"] = _indices(rows.X[:INDEX_ROWS], rows.labels[:INDEX_ROWS], totals)
    return report


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
