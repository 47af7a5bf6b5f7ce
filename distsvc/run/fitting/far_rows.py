"""What a page tells of far rows: which were set aside, and whether others decide a scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.models.rows.spread import ColumnSpread, known
from distsvc.run.learning.aside import FarRow
from distsvc.run.learning.survey import Survey
from distsvc.storage.rows.features import Feature, Number, names_of, one_hot_columns

SHOWN = 5


def told_of_aside(rows: Sequence[FarRow], columns: Sequence[str]) -> list[str]:
    """Return a note, or none, about the rows that nothing was learned from."""
    if not rows:
        return []
    told = [f"row {far.row} ({columns[far.column]} = {far.value:,.6g})" for far in rows[:SHOWN]]
    return [
        f"set aside, as far from all other rows: {_and_more(told, len(rows))}; nothing was learned "
        "from these, and they are labelled like any other"
    ]


def told_of_far_rows(survey: Survey, kind: str, features: Sequence[Feature]) -> list[str]:
    """Return a note, or none, about columns that are scaled as `kind` says."""
    if kind not in ("standard", "minmax"):
        return []
    sums = survey.sums
    deviations = np.sqrt(sums.mean_and_variance()[1])
    ends = zip(sums.least.tolist(), sums.most.tolist(), deviations.tolist(), strict=True)
    columns = names_of(features)
    values_of_categories = {n for group in one_hot_columns(features) for n in columns[group]}
    found: dict[str, ColumnSpread] = {}
    for name, values, end in zip(columns, known(survey.pilot), ends, strict=True):
        column = ColumnSpread.of(values, *end) if values.size else None
        if column is not None and column.decided(kind) and name not in values_of_categories:
            found[name] = column
    if not found:
        return []
    numbers = {feature.column for feature in features if isinstance(feature, Number)}
    as_log = [name for name, column in found.items() if column.near_as_log and name in numbers]
    told = [f"{name} ({_words(column)})" for name, column in list(found.items())[:SHOWN]]
    return [
        f"a few far rows decide the scale of {_and_more(told, len(found))}, and all others look "
        f"alike there: {_advice(as_log, len(found))}"
    ]


def _words(column: ColumnSpread) -> str:
    bulk = (
        f"are {column.low:,.6g}"
        if column.low == column.high
        else f"lie from {column.low:,.6g} to {column.high:,.6g}"
    )
    return f"95 of 100 rows {bulk}, the farthest is {column.farthest:,.6g}"


def _and_more(told: list[str], n: int) -> str:
    return ", ".join(told) + (f" and {n - SHOWN} more" if n > SHOWN else "")


def _advice(as_log: list[str], n: int) -> str:
    robust = "preprocess.scale = 'robust' draws far values in"
    if not as_log:
        return robust
    few = [*map(repr, as_log[:SHOWN]), *(["..."] if len(as_log) > SHOWN else [])]
    rest = "" if len(as_log) == n else " for these"
    return f"preprocess.log = [{', '.join(few)}] suits values of so many sizes{rest}; or {robust}"
