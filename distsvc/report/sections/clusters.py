"""The page's tables of clusters by column, its list of columns, and its profile cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ColumnPart, ColumnsPart, ProfileColumn, ProfilePart, Spread
from distsvc.report.content.report import Report
from distsvc.report.figures.profiles import place_in_range
from distsvc.report.formats import number, percent, short_name

MIN_EXPLAINED = 0.01
"""Minimum explained share of a column's spread for the column to count as informative."""

MIN_COLOURED = 0.1
"""Difference below which a cell is not coloured: Cliff's delta, or of shares."""


class ComparedCell(NamedTuple):
    """The cell of a cluster in the table by columns.

    Attributes
    ----------
    text, more : str
    side : str
        "high" or "low" if the cell is coloured, else empty.
    strength : float
        Opacity of the colour, from 0 to 1.
    place : float
        The number by which two clusters are compared.

    """

    text: str
    more: str
    side: str
    strength: float
    place: float


class ComparedRow(NamedTuple):
    """A column, or one level of it, in each cluster."""

    level: str
    note: str
    cells: list[ComparedCell]


def comparable(found: ColumnsPart) -> list[ColumnPart]:
    """Return the columns with values by cluster, in the order of the table."""
    if len(found.label) < 2:
        return []
    by_cluster = (one for one in found.columns if one.rows or one.quartiles)
    return sorted(by_cluster, key=lambda one: -one.explained_share)


def compared_rows(one: ColumnPart, sizes: Sequence[int]) -> list[ComparedRow]:
    """Return the rows of a column: its medians, or the shares of its levels."""
    absent = _absent(one, sizes)
    if one.quartiles:
        places = _standardised(one)
        cells = [
            _number_cell(quartiles, lean, place, _missing(one, sizes, k))
            for k, (quartiles, lean, place) in enumerate(
                zip(one.quartiles, one.leaning, places, strict=True)
            )
        ]
        return [ComparedRow("", absent, cells)]
    counts = np.array(one.rows, np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    rest = np.maximum(counts.sum() - counts.sum(axis=1), 1.0)
    levels = [_positive(one.levels)] if len(one.levels) == 2 else range(len(one.levels))
    rows = []
    for level in levels:
        others = (counts[:, level].sum() - counts[:, level]) / rest
        cells = [
            _share_cell(float(share), float(share - other))
            for share, other in zip(shares[:, level], others, strict=True)
        ]
        name = short_name(one.levels[level], PAGE_LIMITS.name)
        rows.append(ComparedRow(name, absent if level == levels[0] else "", cells))
    return rows


def _positive(levels: Sequence[str]) -> int:
    """Return the index of the affirmative level of two, such as "yes"; else the last index."""
    words = [level.lower() for level in levels]
    return next((k for k, word in enumerate(words) if word in ("yes", "true", "y", "1", "t")), 1)


def _number_cell(
    quartiles: Sequence[float | None], lean: float, place: float, absent: str
) -> ComparedCell:
    low, middle, high = quartiles
    if low is None or middle is None or high is None:
        return ComparedCell("–", absent, "", 0.0, place)
    side = "" if abs(lean) < MIN_COLOURED else "high" if lean > 0.0 else "low"
    more = f"{number(low)} to {number(high)}{'; ' if absent else ''}{absent}"
    return ComparedCell(number(middle), more, side, min(1.0, abs(lean)), place)


def _share_cell(share: float, beyond: float) -> ComparedCell:
    side = "" if abs(beyond) < MIN_COLOURED / 2 else "high" if beyond > 0.0 else "low"
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
    # A share close to the share of all rows is not worth a note.
    return f"{percent(share)} missing" if abs(share - whole) >= 0.05 else ""


def _absent(one: ColumnPart, sizes: Sequence[int]) -> str:
    """Return the share of missing values, and the value that replaced them."""
    if not one.missing:
        return ""
    filled = "" if one.filled is None else f", filled with {number(one.filled)}"
    return f"{percent(one.missing / max(sum(sizes), one.missing))} missing{filled}"


class QuartileBar(NamedTuple):
    """A bar from the lower to the upper quartile, and the median, in percent of the width."""

    left: float
    width: float
    median: float


def cards(report: Report) -> list[ProfilePart]:
    """Return the profiles that have a card, the largest cluster first."""
    if report.profiles is None:
        return []
    place = {row.label: i for i, row in enumerate(report.clusters)}
    profiles = report.profiles.clusters
    return sorted(profiles, key=lambda one: place.get(one.label, len(place)))[
        : PAGE_LIMITS.clusters
    ]


def bars(column: ProfileColumn) -> tuple[QuartileBar, QuartileBar]:
    """Return the bars of a cluster and of all other rows; a category's bar is a share of rows."""
    inside, outside = column.inside, column.outside
    low, high = min(inside.lower, outside.lower), max(inside.upper, outside.upper)

    def bar(rows: Spread) -> QuartileBar:
        if column.present is not None:
            values, ends = (0.0, rows.share, rows.share), (0.0, 1.0)
        else:
            values, ends = (rows.lower, rows.upper, rows.median), (low, high)
        left, right, median = (100.0 * place_in_range(value, *ends) for value in values)
        return QuartileBar(left, right - left, median)

    return bar(inside), bar(outside)
