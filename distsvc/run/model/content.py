"""The content of a saved model: ``model.json``, and the arrays beside it, checked before use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from distsvc.errors import DataError, JobFileError, shown
from distsvc.errors.forms import Form, parsed
from distsvc.job.config import ASKING, MIXED, Job
from distsvc.job.file import parse_job
from distsvc.job.parameters import PARAMETERS
from distsvc.models.nights.drift import DRIFT_FIELDS
from distsvc.models.rules.fields import ArrayField, check_fields, real, whole
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms import RULES, rule_named
from distsvc.run.labelling.labeller import HISTOGRAM_BINS, Labeller, typical_of
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.directory import Result
from distsvc.storage.rows.features import Description, Feature, names_of, restore
from distsvc.storage.rows.where import where_columns

MODEL_VERSION = 9
LONGEST_REASON = 400

NEEDS = DRIFT_FIELDS | {
    "ids": ArrayField("int32", "k", least=0),
    "score_edges": ArrayField("float64", str(HISTOGRAM_BINS + 1)),
    "score_counts": ArrayField("int64", str(HISTOGRAM_BINS), least=0),
    "cluster_counts": ArrayField("int64", "k 2", least=0),
    "next_id": whole(1, 2**31),
    "typical": ArrayField("float64", "k D"),
    "typical_score": real(),
    "least_score": real(),
}
"""Fields of a model besides its rule and the preparation of its rows; ``k`` is its clusters."""


def _one_of(names: list[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"expected {' or '.join(map(repr, names))}, found {shown(name)}")
        return name

    return AfterValidator(check)


def _named_once(features: list[Any]) -> list[Any]:
    each = restore(features)
    columns, names = [feature.column for feature in each], names_of(each)
    if len(set(columns)) < len(columns) or len(set(names)) < len(names) or "" in columns:
        raise ValueError("expected names, each once, found one twice, or without a letter")
    return features


class ModelInput(Form):
    """The columns that the model's job kept apart, and its filter."""

    model_config = ConfigDict(extra="forbid")

    id: str | None
    label: str | None
    where: str | None


class ModelFile(Form):
    """The content of ``model.json``; `restored` checks the facts, with the arrays."""

    format: int
    algorithm: Annotated[str, _one_of(list(PARAMETERS))]
    form: Annotated[str, _one_of(list(RULES))]
    parameters: dict[str, JsonValue]
    features: Annotated[list[Description], Field(min_length=1), AfterValidator(_named_once)]
    chosen_columns: bool
    input: ModelInput
    preprocess: dict[str, JsonValue]
    facts: dict[str, JsonValue]

    @classmethod
    def parsed(cls, content: Any, path: Path) -> ModelFile:
        """Return the content of the ``model.json`` at `path`.

        `JobFileError` where it was written by another version, `DataError` where it is damaged.
        """
        version = content.get("format") if isinstance(content, dict) else MODEL_VERSION
        if version != MODEL_VERSION or isinstance(version, float):
            raise JobFileError(f"{path} has format {shown(version)}, expected {MODEL_VERSION}")
        model = parsed(cls, content, str(path))
        try:
            where_columns(model.input.where)
            model.job("-", "-")
        except JobFileError as error:
            raise DataError(f"{path}: {str(error)[:LONGEST_REASON]}") from None
        return model

    @property
    def learned_from(self) -> tuple[Feature, ...]:
        """The features of the table that the model was learned from."""
        return restore(self.features)

    @property
    def rule(self) -> type[Rule]:
        """The form of the rule."""
        return rule_named(self.form)

    def job(self, path: str, output_path: str, cluster: Mapping[str, Any] | None = None) -> Job:
        """Return the job that labels the table at `path` with the model."""
        given = {"path": path, "id": self.input.id}
        columns = [feature.column for feature in self.learned_from]
        asked = {name: self.facts[name] for name in ASKING if name in self.facts}
        # A model that takes missing values is labelled with as a job of the default algorithm.
        takes_missing = self.preprocess.get("missing") == "auto"
        return parse_job(
            {
                "input": {k: v for k, v in given.items() if v} | {"columns": columns},
                "preprocess": self.preprocess,
                "model": {"algorithm": MIXED[0] if takes_missing else self.algorithm},
                "cluster": dict(cluster or {}),
                "output": {"path": output_path} | asked,
            }
        )

    def restored(self, arrays: Mapping[str, np.ndarray]) -> tuple[Preparation, Labeller]:
        """Return the preparation of rows and the labeller, of the arrays beside ``model.json``.

        `DataError` where an array or a fact is missing, or not what it has to be; says which.
        """
        columns = list(names_of(self.learned_from))
        facts: Mapping[str, Any] = self.facts
        d, form = len(columns), self.rule
        preparation = Preparation.restored(Result(dict(facts), dict(arrays)), d)
        rule = form.restored(facts, arrays, preparation.width)
        sizes = {"d": d, "D": preparation.width, "k": rule.n_clusters}
        check_fields(NEEDS, {**facts, **arrays}, sizes)
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
        beside = {name for name, of in NEEDS.items() if isinstance(of, ArrayField)}
        known = {*rule.arrays(), *form.beside, *preparation.result().arrays, *beside}
        unknown = sorted(arrays.keys() - known)
        if unknown:
            raise DataError(f"array {shown(unknown[0])} is not one of such a model")
        edges = arrays["score_edges"], arrays["column_edges"]
        typical = typical_of(facts, arrays)
        return preparation, Labeller(rule, ids, facts["next_id"], *edges, columns, typical)
