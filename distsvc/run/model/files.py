"""The files of a published model: ``model.json`` for people and programs, and arrays beside it."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from distsvc.errors import DataError
from distsvc.job.config import Job
from distsvc.job.file import parse_job
from distsvc.run.algorithms.algorithm import Learned
from distsvc.run.labelling.labeller import COUNTED, COUNTS, OWN, RULE, Labeller
from distsvc.run.labelling.phase import Labelled
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.model.content import MODEL_VERSION, ModelFile
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.storage.places.arrays import (
    described,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
    write_whole,
)
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.manifest import (
    MANIFEST,
    Manifest,
    checked,
    listed,
    read_manifest,
)
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Feature
from distsvc.storage.rows.where import where_columns
from distsvc.storage.tables.opening import numbers_apart, open_table
from distsvc.storage.tables.sources import source_of

FILES = ("model.json", "arrays.npz")
MOST_BYTES = 64 * 2**20
"""Of a ``model.json``."""

Arrays = dict[str, np.ndarray]


def write_model(run: RunDirectory, job: Job, learned: Learned, labelled: Labelled) -> None:
    """Write the model that a run publishes, with the counts of the rows that it labelled."""
    preparation, labelling, counts = run.read(PREPARATION), run.read(RULE), labelled.counts
    facts = {name: fact for name, fact in labelling.facts.items() if name != "columns"}
    content = {
        "format": MODEL_VERSION,
        "algorithm": learned.algorithm,
        "form": labelled.labeller.rule.form,
        "parameters": learned.parameters,
        "features": run.plan.table.to_dict()["features"],
        "chosen_columns": job.input.columns is not None,
        "input": job.input.model_dump(include={"id", "label", "where"}),
        "preprocess": job.preprocess.model_dump() | {"missing": job.missing},
        "facts": preparation.facts | facts | run.plan.output.asked(),
    }
    arrays = preparation.arrays | labelling.arrays | learned.arrays
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


def read_model(folder: Path) -> ModelFile:
    """Return the content of the ``model.json`` in a folder, which `checked_model` returns.

    Errors as of `ModelFile.parsed`.
    """
    path = folder / FILES[0]
    return ModelFile.parsed(read_json(path, MOST_BYTES), path)


def restore_model(model: ModelFile, folder: Path, run: RunDirectory, of: str = OWN) -> None:
    """Put the model of a folder into a run's directory, `of` the run or of the previous one.

    `DataError` where its arrays are damaged.
    """
    preparation, labeller, arrays = read_labeller(model, folder)
    run.write(of + PREPARATION, preparation.result())
    labeller.write(run, of)
    run.write(of + COUNTED, Result(arrays={name: arrays[name] for name in COUNTS}))


def read_labeller(model: ModelFile, folder: Path) -> tuple[Preparation, Labeller, Arrays]:
    """Return the preparation of rows, the labeller, and all arrays; errors as above."""
    arrays = read_arrays(folder / FILES[1])
    try:
        return *model.restored(arrays), arrays
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None


def checked_model(published: Store, manifest: Manifest | None = None) -> Path:
    """Return where a published run's model can be read, its files compared with the manifest.

    `manifest` is the present one by default.

    `DataError` where the manifest is damaged, or a file is not the one that it lists; else errors
    as of `read_manifest`.
    """
    manifest = manifest or read_manifest(published)
    paths = [checked(published, listed(published, manifest, name)) for name in FILES]
    if paths[0].parent != paths[1].parent:
        where = f"{published.address}/{MANIFEST}"
        raise DataError(f"{where}: expected {' and '.join(FILES)} in one folder")
    return paths[0].parent


def model_digest(folder: Path) -> str:
    """Return a SHA-256 of a model; `folder` as above."""
    model = [described(folder / name) for name in FILES]
    return hashlib.sha256(json.dumps(model).encode()).hexdigest()


def with_previous(digest: str, previous_digest: str) -> str:
    """Return a SHA-256 of all that decides labels but the table: a job, and a previous model."""
    if not previous_digest:
        return digest
    return hashlib.sha256(json.dumps([digest, previous_digest]).encode()).hexdigest()


def known_features(
    model: ModelFile, path: str, staging: str, progress: Progress
) -> tuple[Feature, ...]:
    """Return a model's features, after a comparison with the columns of the table to label.

    An event names further columns of the table, unless the model's job had named its own.

    `DataError` where the table lacks some; names them.
    """
    features, used = model.learned_from, model.input
    if model.chosen_columns:
        return features
    columns = [feature.column for feature in features]
    where = where_columns(used.where) if used.where else []
    apart = {used.id, used.label, *where}
    given = {"path": path} | ({"id": used.id} if used.id else {})
    config = parse_job({"input": given, "output": {"path": "-"}}).input
    table = open_table(config, staging, known=features)
    names = [name for name in table.stored if name not in apart]
    usable = {*names, *numbers_apart(table)}
    missing = [name for name in columns if name not in usable]
    if missing and source_of(table).states_width:
        raise DataError(
            f"{path}: expected the model's {len(columns)} columns, found "
            f"{len(names)} that are numbers; missing: {truncated(missing)}; found: "
            f"{truncated(names)}"
        )
    extra = [name for name in names if name not in columns]
    if extra:
        progress.event(
            "ignored columns", because="the model does not know them", names=truncated(extra)
        )
    return features


def _write_to(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)
