"""Profile cards of the page: their order, and their bars."""

from __future__ import annotations

from typing import NamedTuple

from distsvc.report.content.explained_parts import ProfileColumn, ProfilePart
from distsvc.report.content.report import Report

MAX_UNFOLDED = 6
"""Maximum number of cards that are not folded away."""

MAX_CARDS = 60
"""Maximum number of cards, of the largest clusters; more would make the page slow to load."""

MARGIN = 0.12
"""Space on both sides of a drawn range, as a share of the range."""


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
    return sorted(profiles, key=lambda one: place.get(one.label, len(place)))[:MAX_CARDS]


def bars(column: ProfileColumn) -> tuple[QuartileBar, QuartileBar]:
    """Return the bars of a cluster and of all other rows; a category's bar is a share of rows."""
    inside, outside = column.inside, column.outside
    if column.present is not None:
        return _bar(0.0, inside.share, inside.share), _bar(0.0, outside.share, outside.share)
    low, high = min(inside.lower, outside.lower), max(inside.upper, outside.upper)

    def place(value: float) -> float:
        return (value - low) / (high - low) if high > low else 0.5

    own, other = (_bar(place(s.lower), place(s.upper), place(s.median)) for s in (inside, outside))
    return own, other


def _bar(left: float, right: float, median: float) -> QuartileBar:
    left, right, median = (
        100.0 * (MARGIN + share) / (1.0 + 2.0 * MARGIN) for share in (left, right, median)
    )
    return QuartileBar(left, right - left, median)
