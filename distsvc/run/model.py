"""A published model: ``model/`` with JSON for people and programs, and arrays beside it.

It is a rule with the preparation of its rows, and says which table it is for.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from distsvc.config import Job
from distsvc.errors import DataError
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.labelling import RULE, read_rule
from distsvc.run.model_form import MODEL_VERSION, MOST_BYTES, check_content, job_of, restored
from distsvc.run.preparation import PREPARATION
from distsvc.run.room import Room
from distsvc.storage.arrays import read_arrays, read_json, write_arrays, write_json
from distsvc.storage.listing import MANIFEST, checked, listed, read_manifest
from distsvc.storage.place import Place
from distsvc.storage.published import described

FILES = ("model.json", "arrays.npz")


def write_model(run: RunDirectory, job: Job, room: Room) -> None:
    """Write the model that a run publishes."""
    place = run.place("model")
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
    arrays = preparation.arrays | rule.arrays | dict(room.more_arrays())
    with place.created(FILES[0]) as path:
        write_json(path, content)
    with place.created(FILES[1]) as path:
        write_arrays(path, arrays)


def restore_model(folder: Path, run: RunDirectory) -> dict[str, Any]:
    """Put a model into a run's directory; return the content of its ``model.json``.

    `folder` is that of the model, from `checked_model`.

    Raises
    ------
    JobFileError
        The model was written by another version.
    DataError
        The model is damaged.

    """
    content = read_model(folder)
    path = folder / FILES[1]
    arrays = read_arrays(path)
    try:
        preparation, rule = restored(content, arrays)
    except DataError as error:
        raise DataError(f"{path.parent}: {error}") from None
    run.write(PREPARATION, preparation.result())
    edges = {"score_edges": arrays["score_edges"]}
    labelling = {"algorithm": rule.form, "n_clusters": rule.n_clusters}
    run.write(RULE, Result(rule.facts() | labelling, rule.arrays() | edges))
    return content


def read_model(folder: Path) -> dict[str, Any]:
    """Return the content of a ``model.json``; `folder` and errors as in `restore_model`."""
    path = folder / FILES[0]
    content = read_json(path, MOST_BYTES)
    check_content(content, path)
    return content


def checked_model(published: Place) -> Path:
    """Return where a published run's model can be read, its files compared with the manifest.

    Raises
    ------
    InputNotFoundError
        No run is published there.
    JobFileError
        The manifest was written by another version.
    DataError
        The manifest is damaged, or a file is not the one that it lists.

    """
    manifest = read_manifest(published)
    paths = [checked(published, manifest, listed(published, manifest, name)) for name in FILES]
    if paths[0].parent != paths[1].parent:
        where = f"{published.address}/{MANIFEST}"
        raise DataError(f"{where}: expected {' and '.join(FILES)} in one folder")
    return paths[0].parent


def prediction_job(folder: Path, path: str, output_path: str) -> Job:
    """Return a job that labels the table at `path` with a model; `folder` as above."""
    return job_of(read_model(folder), path, output_path)


def prediction_digest(job: Job, folder: Path) -> str:
    """Return a SHA-256 of everything that decides predicted labels but the table: job and model."""
    model = [described(folder / name) for name in FILES]
    return hashlib.sha256(json.dumps([job.digest(), model]).encode()).hexdigest()
