"""What the arrays and facts of a saved model have to be, before anything is computed with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from distsvc.errors import DataError, shown
from distsvc.models.nights.drift import NEEDS as COLUMN_NEEDS
from distsvc.models.rules.fields import ArrayField, check_fields, real, whole
from distsvc.run.algorithms import rule_named
from distsvc.run.labelling.labeller import HISTOGRAM_BINS, Labeller, typical_of
from distsvc.run.learning.preparation import Preparation
from distsvc.run.model.content import MODEL_VERSION, check_content, features_of, job_of
from distsvc.run.work.directory import Result
from distsvc.storage.rows.features import names_of

__all__ = ["MODEL_VERSION", "MOST_BYTES", "check_content", "features_of", "job_of", "restored"]

MOST_BYTES = 64 * 2**20
"""Of a ``model.json``."""

NEEDS = COLUMN_NEEDS | {
    "ids": ArrayField("int32", "k", least=0),
    "score_edges": ArrayField("float64", str(HISTOGRAM_BINS + 1)),
    "score_counts": ArrayField("int64", str(HISTOGRAM_BINS), least=0),
    "cluster_counts": ArrayField("int64", "k 2", least=0),
    "next_id": whole(1, 2**31),
    "typical": ArrayField("float64", "k d"),
    "typical_score": real(),
    "least_score": real(),
}
"""What a model holds besides its rule and the preparation of its rows; ``k`` is its clusters."""


def restored(
    content: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> tuple[Preparation, Labeller]:
    """Return what prepares and labels rows, of a checked ``model.json`` and its arrays.

    Raises
    ------
    DataError
        An array or a fact is missing, or not what it has to be; says which.

    """
    columns = list(names_of(features_of(content)))
    facts, d = content["facts"], len(columns)
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
    beside = {name for name, of in NEEDS.items() if isinstance(of, ArrayField)}
    known = {*rule.arrays(), *form.beside, *preparation.result().arrays, *beside}
    unknown = sorted(arrays.keys() - known)
    if unknown:
        raise DataError(f"array {shown(unknown[0])} is not one of such a model")
    edges = arrays["score_edges"], arrays["column_edges"]
    typical = typical_of(facts, arrays)
    return preparation, Labeller(rule, ids, facts["next_id"], *edges, columns, typical)
