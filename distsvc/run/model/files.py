"""A published model: ``model/`` with JSON for people and programs, and arrays beside it.

It is a rule with the preparation of its rows, and says which table it is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from distsvc.errors import DataError
from distsvc.job.config import Job
from distsvc.run.algorithms.algorithm import Room
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.labeller import COUNTED, COUNTS, OWN, RULE, read_rule
from distsvc.run.learning.preparation import PREPARATION
from distsvc.run.model.form import MODEL_VERSION, MOST_BYTES, check_content, job_of, restored
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.storage.places.arrays import (
    read_arrays,
    read_json,
    write_arrays,
    write_json,
    write_whole,
)
from distsvc.storage.places.place import Place
from distsvc.storage.publishing.columns import described
from distsvc.storage.publishing.manifest import MANIFEST, checked, listed, read_manifest

FILES = ("model.json", "arrays.npz")


def write_model(run: RunDirectory, job: Job, room: Room, counts: Counts) -> None:
    """Write the model that a run publishes; `counts` are those of the rows that it labelled."""
    preparation, labelling = run.read(PREPARATION), run.read(RULE)
    rule = read_rule(run)
    facts = {name: fact for name, fact in labelling.facts.items() if name != "columns"}
    content = {
        "format": MODEL_VERSION,
        "algorithm": room.algorithm(job),
        "form": rule.form,
        "parameters": room.parameters,
        "features": run.plan.table.to_dict()["features"],
        "chosen_columns": job.input.columns is not None,
        "input": job.input.model_dump(include={"id", "label", "where"}),
        "preprocess": job.preprocess.model_dump(),
        "facts": preparation.facts | facts | run.plan.extras(),
    }
    arrays = preparation.arrays | labelling.arrays | dict(room.more_arrays())
    arrays |= {"column_counts": counts.columns[OWN].counts, "score_counts": counts.histogram}
    arrays |= {"cluster_counts": counts.sizes}
    place = run.place("model")
    with place.created(FILES[0]) as path:
        write_json(path, content)
    with place.created(FILES[1]) as path:
        write_arrays(path, arrays)


def copy_model(run: RunDirectory, folder: Path) -> None:
    """Write the model of another run, from `folder`, as the one that this run publishes."""
    place = run.place("model")
    for name in FILES:
        content = (folder / name).read_bytes()
        with place.created(name) as path:
            write_whole(path, partial(_write_to, content))


def restore_model(folder: Path, run: RunDirectory, of: str = OWN) -> dict[str, Any]:
    """Put a model into a run's directory; return the content of its ``model.json``.

    `folder` is that of the model, from `checked_model`; `of` says as whose.

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
        preparation, labeller = restored(content, arrays)
    except DataError as error:
        raise DataError(f"{path.parent}: {error}") from None
    run.write(of + PREPARATION, preparation.result())
    labeller.write(run, of)
    run.write(of + COUNTED, Result(arrays={name: arrays[name] for name in COUNTS}))
    return content


def read_model(folder: Path) -> dict[str, Any]:
    """Return the content of a ``model.json``; `folder` and errors as in `restore_model`."""
    path = folder / FILES[0]
    content = read_json(path, MOST_BYTES)
    check_content(content, path)
    return content


def checked_model(published: Place, manifest: dict[str, Any] | None = None) -> Path:
    """Return where a published run's model can be read, its files compared with the manifest.

    The manifest is the one that is there now, unless one is given.

    Raises
    ------
    InputNotFoundError
        No run is published there.
    JobFileError
        The manifest was written by another version.
    DataError
        The manifest is damaged, or a file is not the one that it lists.

    """
    manifest = manifest or read_manifest(published)
    paths = [checked(published, manifest, listed(published, manifest, name)) for name in FILES]
    if paths[0].parent != paths[1].parent:
        where = f"{published.address}/{MANIFEST}"
        raise DataError(f"{where}: expected {' and '.join(FILES)} in one folder")
    return paths[0].parent


def prediction_job(folder: Path, path: str, output_path: str, cluster: Mapping[str, Any]) -> Job:
    """Return a job that labels the table at `path` with a model; `folder` as above."""
    return job_of(read_model(folder), path, output_path, cluster)


def model_digest(folder: Path) -> str:
    """Return a SHA-256 of a model; `folder` as above."""
    model = [described(folder / name) for name in FILES]
    return hashlib.sha256(json.dumps(model).encode()).hexdigest()


def with_previous(digest: str, previous_digest: str) -> str:
    """Return a SHA-256 of what decides the labels but the table: a job's, and another's model."""
    if not previous_digest:
        return digest
    return hashlib.sha256(json.dumps([digest, previous_digest]).encode()).hexdigest()


def _write_to(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)
