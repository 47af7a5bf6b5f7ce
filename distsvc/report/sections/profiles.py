"""The page's section on profiles of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distsvc.report.content.explained_parts import (
    ProfileColumn,
    ProfilePart,
    ProfilesPart,
    Spread,
)
from distsvc.report.content.report import ClusterRow
from distsvc.report.formats import FoldedTable, folded, number, percent, things

SEEN = 6
"""Clusters that are seen at once."""

MARGIN = 0.12
"""On both sides of a drawn range, as a share of it."""


class QuartileBar(NamedTuple):
    """From the lower to the upper quartile, and the median, in percent of the drawing's width."""

    left: float
    width: float
    median: float


class Line(NamedTuple):
    """One column of a profile."""

    column: str
    inside: QuartileBar
    outside: QuartileBar
    medians: str
    range: str


class Row(NamedTuple):
    """A typical row, and its values."""

    row: int
    values: list[str]


class Card(NamedTuple):
    """One cluster."""

    label: int
    size: str
    lines: list[Line]
    names: list[str]
    typical: list[Row]


class ProfilesSection(NamedTuple):
    """All clusters, how many rows tell of them, of which nothing is told, and how values are."""

    rows: int
    cards: FoldedTable
    untold: str
    has_categories: bool


def section(part: ProfilesPart, clusters: Sequence[ClusterRow]) -> ProfilesSection:
    """Return the profiles of clusters, in the order of their sizes."""
    sizes = {row.label: row for row in clusters}
    place = {row.label: i for i, row in enumerate(clusters)}
    some = sorted(part.clusters, key=lambda one: place.get(one.label, len(place)))
    cards = [_card(one, sizes) for one in some]
    n_untold = len(sizes.keys() - {one.label for one in some})
    untold = f"Nothing is told of {things(n_untold, 'small cluster')}." if n_untold else ""
    told = (column for one in some for column in one.columns)
    has_categories = any(column.present is not None for column in told)
    return ProfilesSection(part.rows, folded(cards, "more clusters", SEEN), untold, has_categories)


def _card(profile: ProfilePart, sizes: Mapping[int, ClusterRow]) -> Card:
    row = sizes.get(profile.label)
    size = f"{things(row.rows, 'row')} ({percent(row.share)})" if row else ""
    typical = [Row(one.row, [_value(value) for value in one.values]) for one in profile.typical]
    lines = [_line(column) for column in profile.columns]
    return Card(profile.label, size, lines, [column.column for column in profile.columns], typical)


def _line(column: ProfileColumn) -> Line:
    inside, outside = column.inside, column.outside
    shares = f"{percent(inside.share)} (others {percent(outside.share)})"
    if column.present is not None:
        named = column.column if column.present else f"not {column.column}"
        return Line(named, _share(inside), _share(outside), medians="", range=shares)
    low, high = min(inside.lower, outside.lower), max(inside.upper, outside.upper)
    return Line(
        column=column.column,
        inside=_bar(inside, low, high),
        outside=_bar(outside, low, high),
        medians=f"median {number(inside.median)} (others {number(outside.median)})",
        range=f"{_range(column)}: {shares}",
    )


def _bar(of: Spread, low: float, high: float) -> QuartileBar:
    """Place quartiles in a drawing from low to high, with a margin."""

    def at(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return 100.0 * (MARGIN + share) / (1.0 + 2.0 * MARGIN)

    return QuartileBar(at(of.lower), at(of.upper) - at(of.lower), at(of.median))


def _share(of: Spread) -> QuartileBar:
    """Place the share of the rows in the range in a drawing from none to all."""
    end = 100.0 * (MARGIN + of.share) / (1.0 + 2.0 * MARGIN)
    begin = 100.0 * MARGIN / (1.0 + 2.0 * MARGIN)
    return QuartileBar(begin, end - begin, end)


def _range(column: ProfileColumn) -> str:
    low, high = column.low, column.high
    if low is None:
        return "any value" if high is None else f"{number(high)} or less"
    if high is None:
        return f"{number(low)} or more"
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _value(value: float | None) -> str:
    return "missing" if value is None else number(value)
