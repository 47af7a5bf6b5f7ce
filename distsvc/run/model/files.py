"""Files of a published model: ``model.json`` and arrays, checked when they are read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from distsvc.errors import DataError, JobFileError, shown
from distsvc.errors.forms import Form, parsed
from distsvc.job.config import MIXED, OPTIONAL_KEYS, Job
from distsvc.job.file import parse_job
from distsvc.job.parameters import PARAMETERS
from distsvc.models.nights.drift import DRIFT_FIELDS
from distsvc.models.rules.fields import ArrayField, check_fields, real, whole
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms import RULE_FORMS, rule_named
from distsvc.run.algorithms.algorithm import Learned
from distsvc.run.labelling.labeller import (
    COUNTED,
    COUNTS,
    HISTOGRAM_BINS,
    OWN,
    RULE,
    Labeller,
    typical_of,
)
from distsvc.run.labelling.phase import Labelled
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.storage.places.arrays import (
    file_facts,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.manifest import (
    MANIFEST,
    Manifest,
    checked,
    listed_file,
    read_manifest,
)
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import NOT_CHOSEN
from distsvc.storage.rows.features import Description, Feature, descriptions, names_of, restore
from distsvc.storage.rows.id_detection import is_named_like_code
from distsvc.storage.rows.where import where_columns

FILES = ("model.json", "arrays.npz")
Arrays = dict[str, np.ndarray]


def write_model(run: RunDirectory, job: Job, learned: Learned, labelled: Labelled) -> None:
    """Write the model of a run, and counts of the labelled rows."""
    preparation, labelling, counts = run.read(PREPARATION), run.read(RULE), labelled.counts
    facts = {name: fact for name, fact in labelling.facts.items() if name != "columns"}
    content = {
        "format": MODEL_VERSION,
        "algorithm": learned.algorithm,
        "form": labelled.labeller.rule.form,
        "parameters": learned.parameters,
        "features": descriptions(run.plan.table.features),
        "chosen_columns": job.input.columns is not None,
        "input": {"id": job.input.id, "label": job.input.classes, "where": job.input.where},
        "preprocess": job.preprocess.model_dump() | {"missing": run.plan.missing},
        "facts": preparation.facts | facts | run.plan.output.optional(),
    }
    arrays = preparation.arrays | labelling.arrays | learned.arrays
    arrays |= {"column_counts": counts.columns[OWN].counts, "score_counts": counts.histogram}
    arrays |= {"cluster_counts": counts.sizes}
    place = run.place("model")
    with place.created(FILES[0]) as path:
        write_json(path, content)
    with place.created(FILES[1]) as path:
        write_arrays(path, arrays)


def read_model(folder: Path) -> "ModelFile":
    """Return the content of the ``model.json`` in a folder.

    Raise `JobFileError` if another version of distsvc wrote it, and `DataError` if it is damaged.
    """
    path = folder / FILES[0]
    return ModelFile.parsed(read_json(path, 64 * 2**20), path)


def restore_model(model: "ModelFile", folder: Path, run: RunDirectory, of: str = OWN) -> None:
    """Store the model in a folder as results of a run.

    The names of these results start with `of`, so that a run can have several models.
    """
    preparation, labeller, arrays = read_labeller(model, folder)
    run.write(of + PREPARATION, preparation.result())
    labeller.write(run, of)
    run.write(of + COUNTED, Result(arrays={name: arrays[name] for name in COUNTS}))


def read_labeller(model: "ModelFile", folder: Path) -> tuple[Preparation, Labeller, Arrays]:
    """Return the preparation, the labeller, and all arrays; `DataError` names a wrong field."""
    arrays = read_arrays(folder / FILES[1])
    try:
        return *model.restored(arrays), arrays
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None


def checked_model(published: Store, manifest: Manifest | None = None) -> Path:
    """Return the local folder of a published model whose files match the manifest."""
    manifest = manifest or read_manifest(published)
    paths = [checked(published, listed_file(published, manifest, name)) for name in FILES]
    if paths[0].parent != paths[1].parent:
        where = f"{published.address}/{MANIFEST}"
        raise DataError(f"{where}: expected {' and '.join(FILES)} in one folder")
    return paths[0].parent


def model_digest(folder: Path) -> str:
    """Return a SHA-256 of the model in a folder."""
    model = [file_facts(folder / name) for name in FILES]
    return hashlib.sha256(json.dumps(model).encode()).hexdigest()


def with_previous(digest: str, previous_digest: str) -> str:
    """Combine the digests of a job and of its previous model.

    If `previous_digest` is empty, there is no previous model: return the job's digest.
    """
    if not previous_digest:
        return digest
    return hashlib.sha256(json.dumps([digest, previous_digest]).encode()).hexdigest()


MODEL_VERSION = 9

LABELLER_FIELDS = DRIFT_FIELDS | {
    "ids": ArrayField("int32", "k", least=0),
    "score_edges": ArrayField("float64", str(HISTOGRAM_BINS + 1)),
    "score_counts": ArrayField("int64", str(HISTOGRAM_BINS), least=0),
    "cluster_counts": ArrayField("int64", "k 2", least=0),
    "next_id": whole(1, 2**31),
    "typical": ArrayField("float64", "k D"),
    "typical_score": real(),
    "least_score": real(),
}
"""Required values of a saved model, besides the values of its rule and its preparation.

``k`` is the number of clusters, and ``D`` the number of prepared columns.
"""


def _named_once(features: list[Any]) -> list[Any]:
    each = restore(features)
    columns, names = [feature.column for feature in each], names_of(each)
    if len(set(columns)) < len(columns) or len(set(names)) < len(names) or "" in columns:
        raise ValueError(
            "expected a different name for each feature, found a repeated or an empty name"
        )
    return features


class ModelInput(Form):
    """The id column, the column of known classes, and the filter of the model's job."""

    model_config = ConfigDict(extra="forbid")

    id: str | None
    label: str | None
    where: str | None


class ModelFile(Form):
    """The content of ``model.json``; `restored` checks it against the arrays."""

    format: int
    algorithm: Literal[tuple(PARAMETERS)]  # type: ignore[valid-type]
    form: Literal[tuple(RULE_FORMS)]  # type: ignore[valid-type]
    parameters: dict[str, JsonValue]
    features: Annotated[list[Description], Field(min_length=1), AfterValidator(_named_once)]
    chosen_columns: bool
    input: ModelInput
    preprocess: dict[str, JsonValue]
    facts: dict[str, JsonValue]

    @classmethod
    def parsed(cls, content: object, path: Path) -> Self:
        version = content.get("format") if isinstance(content, dict) else MODEL_VERSION
        if version != MODEL_VERSION or isinstance(version, float):
            raise JobFileError(
                f"{path} has format {shown(version)}, expected {MODEL_VERSION}: another version of "
                "distsvc wrote it; use that version, or learn the model again"
            )
        model = parsed(cls, content, str(path))
        try:
            where_columns(model.input.where)
            model.job("-", "-")
        except JobFileError as error:
            raise DataError(f"{path}: {str(error)[:400]}") from None
        return model

    @property
    def learned_from(self) -> tuple[Feature, ...]:
        return restore(self.features)

    def ignored(self, table: Table) -> list[str]:
        """Return the numeric columns of a table that the model does not use.

        The list is empty if the model's job named the columns to use.
        """
        apart = {self.input.label, *where_columns(self.input.where)}
        further = [n for n, why in table.left_out.items() if why == NOT_CHOSEN and n not in apart]
        return [] if self.chosen_columns else [n for n in further if not is_named_like_code(n)]

    @property
    def rule(self) -> type[Rule]:
        return rule_named(self.form)

    def job(self, path: str, output_path: str, cluster: Mapping[str, object] | None = None) -> Job:
        given = {"path": path, "id": self.input.id}
        columns = [feature.column for feature in self.learned_from]
        optional = {name: self.facts[name] for name in OPTIONAL_KEYS if name in self.facts}
        # With a model that accepts missing values, the job is one of the default algorithm.
        takes_missing = self.preprocess.get("missing") == "auto"
        return parse_job(
            {
                "input": {k: v for k, v in given.items() if v} | {"columns": columns},
                "preprocess": self.preprocess,
                "model": {"algorithm": MIXED[0] if takes_missing else self.algorithm},
                "cluster": dict(cluster or {}),
                "output": {"path": output_path} | optional,
            }
        )

    def restored(self, arrays: Mapping[str, np.ndarray]) -> tuple[Preparation, Labeller]:
        """Return the preparation and the labeller that this file and the `arrays` describe.

        Raise `DataError` with the name of the first value that is wrong.
        """
        columns = list(names_of(self.learned_from))
        facts: Mapping[str, Any] = self.facts
        d, form = len(columns), self.rule
        preparation = Preparation.restored(Result(dict(facts), dict(arrays)), d)
        rule = form.restored(facts, arrays, preparation.width)
        sizes = {"d": d, "D": preparation.width, "k": rule.n_clusters}
        check_fields(LABELLER_FIELDS, {**facts, **arrays}, sizes)
        for name in "score_edges", "column_edges":
            if (np.diff(arrays[name]) < 0.0).any():
                raise DataError(f"array {name}: expected rising edges, found falling ones")
        ids = arrays["ids"]
        if len(np.unique(ids)) < len(ids) or ids.max() >= facts["next_id"]:
            raise DataError(
                "array ids: expected each id once and below next_id, found a repeated or larger id"
            )
        expected = {"wide": form.float64, "algorithm": form.form, "n_clusters": rule.n_clusters}
        for name, value in expected.items():
            found = facts.get(name)
            if type(found) is not type(value) or found != value:
                raise DataError(f"fact {name}: expected {value!r}, found {shown(found)}")
        beside = {name for name, of in LABELLER_FIELDS.items() if isinstance(of, ArrayField)}
        known = {*rule.arrays(), *form.beside, *preparation.result().arrays, *beside}
        unknown = sorted(arrays.keys() - known)
        if unknown:
            raise DataError(f"array {shown(unknown[0])} does not belong to this form")
        edges = arrays["score_edges"], arrays["column_edges"]
        typical = typical_of(facts, arrays)
        return preparation, Labeller(rule, ids, facts["next_id"], *edges, columns, typical)
