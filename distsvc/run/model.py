"""A published model: ``model/`` with JSON for people and programs, and arrays beside it.

It is a rule with the preparation of its rows, and says which table it is for.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from distsvc.config import Job, parse_job
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.run.algorithms import rule_named
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.labelling import RULE, read_rule
from distsvc.run.preparation import PREPARATION, Preparation
from distsvc.run.room import Room
from distsvc.storage.arrays import read_arrays, read_json, write_arrays, write_json
from distsvc.storage.published import described
from distsvc.storage.tables import open_table, states_width
from distsvc.storage.where import where_columns

MODEL_VERSION = 3
FILES = ("model.json", "arrays.npz")


def write_model(run: RunDirectory, job: Job, room: Room) -> None:
    """Write ``model/`` into a run's directory."""
    folder = run.path / "model"
    folder.mkdir(exist_ok=True)
    preparation, rule = run.read(PREPARATION), run.read(RULE)
    content = {
        "format": MODEL_VERSION,
        "algorithm": job.model.algorithm,
        "form": read_rule(run).form,
        "parameters": room.parameters,
        "columns": run.plan.table.columns,
        "chosen_columns": job.input.columns is not None,
        "input": job.input.model_dump(include={"id", "label", "where"}),
        "preprocess": job.preprocess.model_dump(),
        "facts": preparation.facts | rule.facts,
    }
    write_json(folder / "model.json", content)
    write_arrays(folder / "arrays.npz", preparation.arrays | rule.arrays | dict(room.more_arrays()))


def restore_model(published: Path, run: RunDirectory) -> dict[str, Any]:
    """Put a published model into a run's directory; return the content of its ``model.json``.

    Raises
    ------
    JobFileError
        The model was written by another version.
    DataError
        The model is damaged.

    """
    content = read_model(published)
    arrays = read_arrays(published / "model" / "arrays.npz")
    facts = content["facts"]
    saved = Result(facts, arrays)
    rule = rule_named(content["form"]).restored(facts, arrays)
    run.write(PREPARATION, Preparation.restored(saved).result())
    edges = {"score_edges": arrays["score_edges"]}
    labelling = {"algorithm": rule.form, "n_clusters": rule.n_clusters}
    run.write(RULE, Result(rule.facts() | labelling, rule.arrays() | edges))
    return content


def read_model(published: Path) -> dict[str, Any]:
    """Return the content of a published ``model.json``; errors as in `restore_model`.

    Raises
    ------
    InputNotFoundError
        No run is published there.

    """
    if not (published / "manifest.json").exists():
        raise InputNotFoundError(f"no run is published in {published}: it has no manifest.json")
    content = read_json(published / "model" / "model.json")
    if content.get("format") != MODEL_VERSION:
        raise JobFileError(
            f"{published}/model has format {content.get('format')!r}, expected {MODEL_VERSION}"
        )
    return content


def prediction_job(published: Path, path: str, output_path: str) -> Job:
    """Return a job that labels the table at `path` with a published model."""
    content = read_model(published)
    given = {"path": path, "id": content["input"]["id"]}
    return parse_job(
        {
            "input": {k: v for k, v in given.items() if v} | {"columns": content["columns"]},
            "preprocess": content["preprocess"],
            "model": {"algorithm": content["algorithm"]},
            "output": {"path": output_path, "reasons": content["facts"].get("reasons", 0)},
        }
    )


def prediction_digest(job: Job, published: Path) -> str:
    """Return a SHA-256 of everything that decides predicted labels but the table: job and model."""
    model = [described(published / "model" / name) for name in FILES]
    return hashlib.sha256(json.dumps([job.digest(), model]).encode()).hexdigest()


def check_columns(content: dict[str, Any], path: str, staging: Path) -> None:
    """Compare the columns that a table has by default with those of a model that took its own so.

    Where the model's job named its columns, the table needs those, and may have others.
    """
    if content["chosen_columns"]:
        return
    columns, used = content["columns"], content["input"]
    where = where_columns(used["where"]) if used["where"] else []
    apart = {used["id"], used["label"], *where}
    given = {"path": path} | ({"id": used["id"]} if used["id"] else {})
    found = open_table(parse_job({"input": given, "output": {"path": "-"}}).input, staging)
    names = [name for name in found.columns if name not in apart]
    unstated = not states_width(found) and set(names) <= set(columns)
    if names != columns and not unstated:
        raise DataError(
            f"{path}: expected the model's {len(columns)} columns in their order, "
            f"{', '.join(columns[:20])}; found {len(names)}: {', '.join(names[:20])}"
        )
