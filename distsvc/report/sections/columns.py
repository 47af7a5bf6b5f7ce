"""The page's table of clusters by column, and its list of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from distsvc.report.content.explained_parts import ColumnPart, ColumnsPart
from distsvc.report.formats import listed, number, percent, short_name

MAX_COMPARED = 24
"""Maximum number of columns in the table of clusters."""

SAYS_NOTHING = 0.01
"""Explained share of a column's spread below which it says nothing about the clusters."""

CARRIES = 0.2
"""Explained share from which a column carries the division."""

SLIGHT = 0.1
"""Difference below which a cell is not coloured: Cliff's delta, or of shares."""

MIN_ABSENT = 0.05
"""Difference of a cluster's share of missing values to that of all rows from which it is named."""

LONGEST_NAME = 60


class ComparedCell(NamedTuple):
    """A cell: its text and more of it, its colour, and a number by which clusters differ."""

    text: str
    more: str
    side: str
    strength: float
    place: float


class ComparedRow(NamedTuple):
    """A row: a column, or a level of one (`level`), in each cluster and in all."""

    column: str
    level: str
    note: str
    whole: str
    cells: list[ComparedCell]


class ColumnComparison(NamedTuple):
    """The table of clusters by column: each has a row, or one for each level.

    The features come first, then `others`, and apart those that say nothing about the clusters.
    """

    labels: list[int]
    columns: list[list[ComparedRow]]
    others: list[list[ComparedRow]]
    silent: list[list[ComparedRow]]
    sample: int
    has_shares: bool
    has_numbers: bool
    hidden: str


def comparison(found: ColumnsPart) -> ColumnComparison | None:
    """Return the table of several clusters by column, those that carry the division first."""
    if len(found.label) < 2:
        return None
    told = [one for one in found.columns if one.rows or one.quartiles]
    order = sorted(told, key=lambda one: -(one.explained or 0.0))
    shown = order[:MAX_COMPARED]
    if not shown:
        return None
    silent = [one for one in shown if (one.explained or 0.0) < SAYS_NOTHING]
    silent = silent if len(silent) < len(shown) else []
    telling = [one for one in shown if one not in silent]

    def rows_of(some: Sequence[ColumnPart]) -> list[list[ComparedRow]]:
        return [_rows(one, found.size) for one in some]

    n_hidden = len(order) - len(shown) + found.n_hidden
    return ColumnComparison(
        found.label,
        rows_of([one for one in telling if one.feature]),
        rows_of([one for one in telling if not one.feature]),
        rows_of(silent),
        found.sample,
        any(one.rows for one in shown),
        any(one.quartiles for one in shown),
        f"{n_hidden:,} more columns are not shown." if n_hidden else "",
    )


def _rows(one: ColumnPart, sizes: Sequence[int]) -> list[ComparedRow]:
    """Return the rows of a column: its medians, or the shares of its levels."""
    name = short_name(one.column, LONGEST_NAME)
    absent = _absent(one, sizes)
    if one.quartiles:
        places = _standardised(one)
        cells = [
            _number_cell(quartiles, lean, place, _missing(one, sizes, k))
            for k, (quartiles, lean, place) in enumerate(
                zip(one.quartiles, one.leaning, places, strict=True)
            )
        ]
        return [ComparedRow(name, "", absent, "", cells)]
    counts = np.array(one.rows, np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    whole = counts.sum(axis=0) / max(counts.sum(), 1.0)
    levels = range(len(one.levels))
    if len(one.levels) == 2:
        levels = range(_positive(one.levels), _positive(one.levels) + 1)
    rows = []
    for level in levels:
        others = (counts[:, level].sum() - counts[:, level]) / np.maximum(
            counts.sum() - counts.sum(axis=1), 1.0
        )
        cells = [
            _share_cell(float(share), float(share - other))
            for share, other in zip(shares[:, level], others, strict=True)
        ]
        rows.append(
            ComparedRow(
                name,
                short_name(one.levels[level], LONGEST_NAME),
                absent if level == levels[0] else "",
                percent(float(whole[level])),
                cells,
            )
        )
    return rows


def _positive(levels: Sequence[str]) -> int:
    """Return which of two levels stands for a flag: the affirmed one, else the last."""
    words = [level.lower() for level in levels]
    return next((k for k, word in enumerate(words) if word in ("yes", "true", "y", "1", "t")), 1)


def _number_cell(
    quartiles: Sequence[float | None], lean: float, place: float, absent: str
) -> ComparedCell:
    low, middle, high = quartiles
    if low is None or middle is None or high is None:
        return ComparedCell("–", absent, "", 0.0, place)
    side = "" if abs(lean) < SLIGHT else "high" if lean > 0.0 else "low"
    more = f"{number(low)} to {number(high)}{'; ' if absent else ''}{absent}"
    return ComparedCell(number(middle), more, side, min(1.0, abs(lean)), place)


def _share_cell(share: float, beyond: float) -> ComparedCell:
    side = "" if abs(beyond) < SLIGHT / 2 else "high" if beyond > 0.0 else "low"
    return ComparedCell(percent(share), "", side, min(1.0, 1.5 * abs(beyond)), share)


def _standardised(one: ColumnPart) -> list[float]:
    """Return the clusters' medians in units of their mean quartile range."""
    known = [q for q in one.quartiles if None not in q]
    spans = [q[2] - q[0] for q in known if q[2] is not None and q[0] is not None]
    unit = float(np.mean(spans)) if spans else 0.0
    middles = [q[1] for q in one.quartiles]
    if not unit > 0.0:
        unit = float(np.ptp([m for m in middles if m is not None])) or 1.0 if known else 1.0
    return [0.0 if m is None else m / unit for m in middles]


def _missing(one: ColumnPart, sizes: Sequence[int], k: int) -> str:
    if not one.absent or not sizes[k]:
        return ""
    share, whole = one.absent[k] / sizes[k], sum(one.absent) / max(sum(sizes), 1)
    return f"{percent(share)} missing" if abs(share - whole) >= MIN_ABSENT else ""


def _absent(one: ColumnPart, sizes: Sequence[int]) -> str:
    """Return how many values are missing, and what was used in their place."""
    if not one.missing:
        return ""
    filled = "" if one.filled is None else f", filled with {number(one.filled)}"
    return f"{percent(one.missing / max(sum(sizes), one.missing))} missing{filled}"


class ListedColumn(NamedTuple):
    """A line of the list of columns; `bar` is the explained share in percent."""

    column: str
    kind: str
    reason: str
    missing: str
    explained: str
    bar: float


class ColumnList(NamedTuple):
    """The list of columns, and in sentences which carry the division and which say nothing."""

    summary: list[str]
    rows: list[ListedColumn]
    others: list[tuple[str, str]]
    has_division: bool
    has_missing: bool


def column_list(found: ColumnsPart) -> ColumnList:
    """Return the list of features by what they say about the clusters, and of other columns."""
    features = [one for one in found.columns if one.feature]
    features.sort(key=lambda one: -(one.explained or 0.0))
    several, n_rows = len(found.label) > 1, max(sum(found.size), 1)
    rows = [
        ListedColumn(
            short_name(one.column, LONGEST_NAME),
            ", ".join(part for part in (one.kind, one.scale) if part),
            one.reason,
            percent(min(1.0, one.missing / n_rows)) if one.missing else "",
            _explained(one.explained),
            100.0 * (one.explained or 0.0),
        )
        for one in features
    ]
    rest = (one for one in found.columns if not one.feature)
    others = [(short_name(one.column, LONGEST_NAME), one.reason) for one in rest]
    return ColumnList(
        _summary(features) if several else [],
        rows,
        others,
        several,
        any(one.missing for one in features),
    )


def _explained(share: float | None) -> str:
    if share is None:
        return "–"
    return "nothing" if share < SAYS_NOTHING else f"{100 * share:.0f}\u00a0%"


def _summary(features: Sequence[ColumnPart]) -> list[str]:
    """Return which columns carry the division, and which say nothing, as sentences."""
    known = [one for one in features if one.explained is not None]
    carry = [one.column for one in known if (one.explained or 0.0) >= CARRIES]
    silent = [one.column for one in known if (one.explained or 0.0) < SAYS_NOTHING]
    told = []
    if carry:
        told.append(f"{_names(carry)} {'carries' if len(carry) == 1 else 'carry'} the division.")
    if silent:
        told.append(f"{_names(silent)} {'says' if len(silent) == 1 else 'say'} nothing about it.")
    return told


def _names(columns: Sequence[str], most: int = 8) -> str:
    names = [short_name(name, LONGEST_NAME) for name in columns[:most]]
    if len(columns) > most:
        names.append(f"{len(columns) - most:,} more")
    return listed(names)
