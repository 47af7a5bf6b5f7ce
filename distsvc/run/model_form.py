"""What a saved model has to be, checked before anything is computed with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from distsvc.config import Job
from distsvc.errors import DataError, JobFileError, shown
from distsvc.forms import Form, parsed
from distsvc.job_file import parse_job
from distsvc.models.drift import NEEDS as COLUMN_NEEDS
from distsvc.models.fields import Array, Count, Number, check_fields
from distsvc.parameters import PARAMETERS
from distsvc.run.algorithms import ROOMS, rule_named
from distsvc.run.directory import Result
from distsvc.run.labeller import HISTOGRAM_BINS, Labeller, typical_of
from distsvc.run.preparation import Preparation
from distsvc.storage.where import where_columns

MODEL_VERSION = 5
LONGEST_REASON = 400
EXTRAS = ("reasons", "membership", "top")
"""Facts that are keys of ``[output]``."""

MOST_BYTES = 64 * 2**20
"""Of a ``model.json``."""

NEEDS = COLUMN_NEEDS | {
    "ids": Array("int32", "k", least=0),
    "score_edges": Array("float64", str(HISTOGRAM_BINS + 1)),
    "score_counts": Array("int64", str(HISTOGRAM_BINS), least=0),
    "cluster_counts": Array("int64", "k 2", least=0),
    "next_id": Count(1, 2**31),
    "typical": Array("float64", "k d"),
    "typical_score": Number(),
    "least_score": Number(),
}
"""What a model holds besides its rule and the preparation of its rows; ``k`` is its clusters."""


def _one_of(names: list[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"expected {' or '.join(map(repr, names))}, found {shown(name)}")
        return name

    return AfterValidator(check)


def _named_once(columns: list[str]) -> list[str]:
    if len(set(columns)) < len(columns) or "" in columns:
        raise ValueError("expected names, each once, found one twice, or without a letter")
    return columns


class InputForm(Form):
    """The columns that the model's job kept apart, and its filter."""

    model_config = ConfigDict(extra="forbid")

    id: str | None
    label: str | None
    where: str | None


class ModelForm(Form):
    """The content of ``model.json``; the rule checks the facts."""

    format: int
    algorithm: Annotated[str, _one_of(list(PARAMETERS))]
    form: Annotated[str, _one_of([rule.form for room in ROOMS for rule in room.rules])]
    parameters: dict[str, JsonValue]
    columns: Annotated[list[str], Field(min_length=1), AfterValidator(_named_once)]
    chosen_columns: bool
    input: InputForm
    preprocess: dict[str, JsonValue]
    facts: dict[str, JsonValue]


def check_content(content: Any, path: Path) -> None:
    """Check what a ``model.json`` at `path` holds.

    Raises
    ------
    JobFileError
        It was written by another version.
    DataError
        It is damaged.

    """
    version = content.get("format") if isinstance(content, dict) else MODEL_VERSION
    if version != MODEL_VERSION or isinstance(version, float):
        found = shown(version)
        raise JobFileError(f"{path} has format {found}, expected {MODEL_VERSION}")
    parsed(ModelForm, content, str(path))
    try:
        where_columns(content["input"]["where"])
        job_of(content, "-", "-")
    except JobFileError as error:
        raise DataError(f"{path}: {str(error)[:LONGEST_REASON]}") from None


def job_of(
    content: dict[str, Any], path: str, output_path: str, cluster: Mapping[str, Any] | None = None
) -> Job:
    """Return the job that labels the table at `path` with the model of a ``model.json``."""
    given, facts = {"path": path, "id": content["input"]["id"]}, content["facts"]
    return parse_job(
        {
            "input": {k: v for k, v in given.items() if v} | {"columns": content["columns"]},
            "preprocess": content["preprocess"],
            "model": {"algorithm": content["algorithm"]},
            "cluster": dict(cluster or {}),
            "output": {"path": output_path} | {n: facts[n] for n in EXTRAS if n in facts},
        }
    )


def restored(
    content: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> tuple[Preparation, Labeller]:
    """Return what prepares and labels rows, of a checked ``model.json`` and its arrays.

    Raises
    ------
    DataError
        An array or a fact is missing, or not what it has to be; says which.

    """
    facts, d = content["facts"], len(content["columns"])
    form = rule_named(content["form"])
    rule = form.restored(facts, arrays, d)
    preparation = Preparation.restored(Result(facts, dict(arrays)), d)
    check_fields(NEEDS, facts | dict(arrays), {"d": d, "k": rule.n_clusters})
    for name in "score_edges", "column_edges":
        if (np.diff(arrays[name]) < 0.0).any():
            raise DataError(f"array {name}: expected rising edges, found falling ones")
    ids = arrays["ids"]
    if len(np.unique(ids)) < len(ids) or ids.max() >= facts["next_id"]:
        raise DataError("array ids: expected each id once, below next_id, found others")
    expected = {"wide": form.float64, "algorithm": form.form, "n_clusters": rule.n_clusters}
    for name, value in expected.items():
        found = facts.get(name)
        if type(found) is not type(value) or found != value:
            raise DataError(f"fact {name}: expected {value!r}, found {shown(found)}")
    beside = {name for name, of in NEEDS.items() if isinstance(of, Array)}
    known = {*rule.arrays(), *form.beside, *preparation.result().arrays, *beside}
    unknown = sorted(arrays.keys() - known)
    if unknown:
        raise DataError(f"array {shown(unknown[0])} is not one of such a model")
    edges = arrays["score_edges"], arrays["column_edges"]
    typical = typical_of(facts, arrays)
    return preparation, Labeller(rule, ids, facts["next_id"], *edges, content["columns"], typical)
