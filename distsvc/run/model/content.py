"""The content of a ``model.json``: its form, its features, and the job that labels with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from distsvc.errors import DataError, JobFileError, shown
from distsvc.errors.forms import Form, parsed
from distsvc.job.config import Job
from distsvc.job.file import parse_job
from distsvc.job.parameters import PARAMETERS
from distsvc.run.algorithms import ROOMS
from distsvc.storage.rows.features import Description, Feature, names_of, restored
from distsvc.storage.rows.where import where_columns

MODEL_VERSION = 6
LONGEST_REASON = 400
EXTRAS = ("reasons", "membership", "top")
"""Facts that are keys of ``[output]``."""


def _one_of(names: list[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"expected {' or '.join(map(repr, names))}, found {shown(name)}")
        return name

    return AfterValidator(check)


def _named_once(features: list[Any]) -> list[Any]:
    each = restored(features)
    columns, names = [feature.column for feature in each], names_of(each)
    if len(set(columns)) < len(columns) or len(set(names)) < len(names) or "" in columns:
        raise ValueError("expected names, each once, found one twice, or without a letter")
    return features


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
    features: Annotated[list[Description], Field(min_length=1), AfterValidator(_named_once)]
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


def features_of(content: dict[str, Any]) -> tuple[Feature, ...]:
    """Return what the model of a ``model.json`` was learned from."""
    return restored(content["features"])


def job_of(
    content: dict[str, Any], path: str, output_path: str, cluster: Mapping[str, Any] | None = None
) -> Job:
    """Return the job that labels the table at `path` with the model of a ``model.json``."""
    columns = [feature.column for feature in features_of(content)]
    given, facts = {"path": path, "id": content["input"]["id"]}, content["facts"]
    return parse_job(
        {
            "input": {k: v for k, v in given.items() if v} | {"columns": columns},
            "preprocess": content["preprocess"],
            "model": {"algorithm": content["algorithm"]},
            "cluster": dict(cluster or {}),
            "output": {"path": output_path} | {n: facts[n] for n in EXTRAS if n in facts},
        }
    )
