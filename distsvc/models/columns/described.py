"""The kind and scale of each modelled column in words for users, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distsvc.inputs.mixed import MOST_LEVELS
from distsvc.models.columns.maps import AS_FOUND, GivenColumn, NumberMap
from distsvc.models.columns.model import (
    ZERO_INFLATED,
    CategoryColumn,
    ColumnModel,
    NumberColumn,
)

TIME_STEPS = {"a day": 86_400, "an hour": 3_600, "a minute": 60, "a second": 1}
"""Units in which steps between times are described, in seconds."""

SCALE_WORDS = {"identity": "as stored", "root": "square root", "log": "logarithm", "logit": "logit"}
"""Words for the scales (keys of `SCALES`)."""


@dataclass(frozen=True)
class ColumnDescription:
    """The kind and scale of a column, and why they were chosen."""

    kind: str  # as in job files; or "rounded", "constant" or "copy"
    scale: str  # value of `SCALE_WORDS`; empty if the column has no scale
    reason: str


def described(
    model: ColumnModel,
    names: Sequence[str],
    given: Sequence[GivenColumn] | None = None,
    units: Sequence[str] = (),
) -> list[ColumnDescription]:
    """Describe the kind and scale of each column of a model; `names` (d,) are the columns' names.

    `given` are the kinds and scales from the job file. `units` (d,) are "days" or "seconds" for
    times, and empty for other columns.
    """
    found = []
    salts = model.salts.tolist()
    for j, column in enumerate(model.columns):
        of = AS_FOUND if given is None else given[j]
        if column is None:
            kind, reason = "constant", "all values are equal; not used"
            first = salts.index(salts[j])
            if model.columns[first] is not None:
                kind = "copy"
                reason = f"orders the rows as {names[first]!r} does, or in reverse; not used"
            found.append(ColumnDescription(kind, "", reason))
        elif isinstance(column, CategoryColumn):
            reason = "given in [columns]" if of.kind else f"{len(column.codes)} values"
            found.append(ColumnDescription(column.kind, "", reason))
        else:
            found.append(_number(column, of, units[j] if units else ""))
    return found


def _number(column: NumberColumn, given: GivenColumn, unit: str) -> ColumnDescription:
    """Describe a column of numbers. The scale of a zero-inflated column ignores the spike."""
    of = column.map if column.amounts is None else column.amounts
    kind = column.kind
    reason = {
        ZERO_INFLATED: f"many values are exactly {column.spike or 0.0:g}",
        "ordinal": f"{len(of.values)} values; no smooth density fits, so only their order is used",
        "continuous": "most values differ",
        "count": "whole numbers",
        "rounded": _rounding(of, unit),
    }[kind]
    scale = "" if kind == "ordinal" else SCALE_WORDS[of.scale]
    if given.kind:
        return ColumnDescription(given.kind, scale, "given in [columns]")
    if scale and of.scale != "identity":
        reason += f"; the {scale} fits them best"
    return ColumnDescription(kind, scale, reason)


def _rounding(of: NumberMap, unit: str) -> str:
    """Return the reason why a column counts as rounded: its step, or its commonest gap."""
    step = f"{of.step:.6g}"
    if of.step and of.has_steps(of.values, float(step)):
        return f"rounded to {_step_words(step, unit)}"
    return f"values repeat; the commonest gap between different values is {_step_words(step, unit)}"


def _step_words(step: str, unit: str) -> str:
    """Return a step of times in words, such as "15 minutes"; `step` itself if `unit` is empty."""
    if not unit:
        return step
    seconds = float(step) * (86_400 if unit == "days" else 1)
    for name, length in TIME_STEPS.items():
        if seconds and seconds % length == 0:
            count = seconds / length
            return name if count == 1 else f"{count:,.0f} {name.split()[1]}s"
    return f"{seconds:g} seconds"


def may_be_levels(x: np.ndarray) -> bool:
    """Return True if x (n,) has few enough distinct values for a category."""
    return len(np.unique(x[~np.isnan(x)])) <= MOST_LEVELS
