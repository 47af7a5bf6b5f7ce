"""The columns of a table beside those of the model that is to label it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distsvc.errors import DataError
from distsvc.errors.urls import shown_url
from distsvc.job.file import parse_job
from distsvc.run.model.content import features_of
from distsvc.run.work.progress import Progress
from distsvc.storage.rows.features import Feature
from distsvc.storage.rows.where import where_columns
from distsvc.storage.tables.opening import numbers_apart, open_table, states_width


def known_features(
    content: dict[str, Any], path: str, staging: str, progress: Progress
) -> tuple[Feature, ...]:
    """Return a model's features, whose columns a table has; tell of others that it has by default.

    Where the model's job named its columns, others are not told of.

    Raises
    ------
    DataError
        It lacks some; names them.

    """
    features = features_of(content)
    if content["chosen_columns"]:
        return features
    columns = [feature.column for feature in features]
    used = content["input"]
    where = where_columns(used["where"]) if used["where"] else []
    apart = {used["id"], used["label"], *where}
    given = {"path": path} | ({"id": used["id"]} if used["id"] else {})
    config = parse_job({"input": given, "output": {"path": "-"}}).input
    found = open_table(config, staging, known=features)
    names = [name for name in found.stored if name not in apart]
    usable = {*names, *numbers_apart(found)}
    missing = [name for name in columns if name not in usable]
    if missing and states_width(found):
        raise DataError(
            f"{shown_url(path)}: expected the model's {len(columns)} columns, found "
            f"{len(names)} that are numbers; missing: {named(missing)}; found: {named(names)}"
        )
    extra = [name for name in names if name not in columns]
    if extra:
        progress.event(
            "ignored columns", because="the model does not know them", names=named(extra)
        )
    return features


def named(columns: Sequence[str]) -> str:
    """Return the names of columns for an error, of the first ones where there are many."""
    return ", ".join(columns[:20])
