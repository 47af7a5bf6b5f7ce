"""The page's section on profiles of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from distsvc.report.content.explained_parts import (
    ProfileColumn,
    ProfilePart,
    ProfilesPart,
    Spread,
)
from distsvc.report.content.report import ClusterRow
from distsvc.report.formats import (
    FoldedTable,
    folded,
    number,
    percent,
    things,
)
from distsvc.report.sections.names import limits, names

SEEN = 6
"""Clusters that are seen at once."""

MOST_TOLD = 60
"""Clusters that are told of at all, the largest; a page of more would be slow to load."""

MORE = "more clusters"

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
    name: str
    size: str
    lines: list[Line]
    names: list[str]
    typical: list[Row]


class ProfilesSection(NamedTuple):
    """Profile cards, the rows of the sample, and which clusters have no card."""

    rows: int
    cards: FoldedTable
    untold: str
    has_categories: bool


def section(
    part: ProfilesPart,
    clusters: Sequence[ClusterRow],
    given: Mapping[int, str] = MappingProxyType({}),
) -> ProfilesSection:
    """Return the profiles of clusters, in the order of their sizes.

    Clusters have the names that are `given`, or else names by their columns.
    """
    named = names(part.clusters) | dict(given)
    sizes = {row.label: row for row in clusters}
    place = {row.label: i for i, row in enumerate(clusters)}
    some = sorted(part.clusters, key=lambda one: place.get(one.label, len(place)))
    cards = [_card(one, sizes, named) for one in some[:MOST_TOLD]]
    n_untold = len(sizes.keys() - {card.label for card in cards})
    untold = f"{things(n_untold, 'smaller cluster')} not shown here." if n_untold else ""
    told = (column for one in some for column in one.columns)
    has_categories = any(column.present is not None for column in told)
    return ProfilesSection(
        rows=part.rows,
        cards=folded(cards, MORE, SEEN),
        untold=untold,
        has_categories=has_categories,
    )


def _card(profile: ProfilePart, sizes: Mapping[int, ClusterRow], named: Mapping[int, str]) -> Card:
    row = sizes.get(profile.label)
    size = f"{things(row.rows, 'row')} ({percent(row.share)})" if row else ""
    typical = [
        Row(one.row, [_value(v, c) for v, c in zip(one.values, profile.columns, strict=True)])
        for one in profile.typical
    ]
    lines = [_line(column) for column in profile.columns]
    return Card(
        profile.label,
        named[profile.label],
        size,
        lines,
        [column.column for column in profile.columns],
        typical,
    )


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
        range=f"{limits(column)}: {shares}",
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


def _value(value: float | None, column: ProfileColumn) -> str:
    if value is None:
        return "missing"
    if column.present is not None:
        return "yes" if value else "no"
    return number(value)
