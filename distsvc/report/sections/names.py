"""Names of clusters by the columns that set them apart, as "high bytes, low duration"."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ProfileColumn, ProfilePart
from distsvc.report.content.report import Report
from distsvc.report.formats import measured, one_line, percent, short_name

LOG_SHARE = "log(share(", "))"
"""Text around the name of a column that is encoded by the frequency of its values."""


def cluster_names(report: Report) -> dict[int, str]:
    """Return the name of each cluster by its id: the job's, or one by its columns.

    Clusters without a name in the job and without a profile have none.
    """
    found = names(report.profiles.clusters) if report.profiles else {}
    given = {row.label: report.names.get(str(row.label)) for row in report.clusters}
    return found | {label: one_line(name, 60) for label, name in given.items() if name}


def names(found: Sequence[ProfilePart], columns: range = range(2, 5)) -> dict[int, str]:
    """Return the name of each cluster by its label, empty if no column sets it apart.

    A name has the smallest number of columns, from `columns`, that makes it unique in any order.
    Names that stay equal have ranges in place of words such as "high". A single column also has its
    range if another cluster with the same word is clearly higher or lower.
    """
    shown: dict[int, Sequence[ProfileColumn]] = {}
    waiting = list(found)
    for n_columns in columns:
        texts = {one.label: frozenset(map(words, one.columns[:n_columns])) for one in waiting}
        times = Counter(texts.values())
        shown |= {
            one.label: one.columns[:n_columns] for one in waiting if times[texts[one.label]] == 1
        }
        waiting = [one for one in waiting if times[texts[one.label]] > 1]
    equal = {one.label: one.columns[: columns.start] for one in waiting}
    peers = [column for each in (shown | equal).values() for column in each]
    return {label: _name(each, peers) for label, each in shown.items()} | {
        label: ", ".join(map(range_words, each)) for label, each in equal.items()
    }


def _name(columns: Sequence[ProfileColumn], peers: Sequence[ProfileColumn]) -> str:
    """Return a cluster's name by its columns; `peers` are the columns in the names of all clusters.

    A name that is only a flag goes on with "otherwise like the others".
    """
    alone = len(columns) == 1 and columns[0].present is not None
    each = [
        range_words(one)
        if any(_is_beyond(other, one) for other in peers if other.column == one.column)
        else words(one)
        for one in columns
    ]
    return ", ".join(each) + (", otherwise like the others" if alone else "")


def _is_beyond(other: ProfileColumn, column: ProfileColumn) -> bool:
    """Return True if another cluster with the same words has clearly more extreme values.

    The median of each lies outside the range of the other.
    """
    place = _place_word(column)
    if _place_word(other) != place:
        return False
    above, below = _is_above(other, column), _is_above(column, other)
    return {"high": above, "common": above, "low": below, "rare": below}.get(place, above or below)


def _is_above(one: ProfileColumn, other: ProfileColumn) -> bool:
    if one.low is None or other.high is None:
        return False
    return one.inside.median > other.high and other.inside.median < one.low


def words(column: ProfileColumn) -> str:
    """Return the place of a cluster in a column in a few words: "high bytes", "rpm = 0"."""
    if column.present is not None:
        return _short(column.column) if column.present else f"not {_short(column.column)}"
    place, frequent = _place_word(column), _inner(column.column, *LOG_SHARE)
    if column.unit in ("date", "time", "clock"):
        place = {"high": "late", "low": "early"}.get(place, place)
    if frequent is not None:
        return f"{place} {frequent}"
    name = _short(column.column)
    return f"{place} {name}" if place else f"{name} = {measured(column.low or 0.0, column.unit)}"


def _place_word(column: ProfileColumn) -> str:
    """Return the word for a cluster's place in a column, empty for a category or a single value."""
    inside, outside = column.inside, column.outside
    if column.present is not None:
        return ""
    if _inner(column.column, *LOG_SHARE) is not None:
        return "common" if inside.median >= outside.median else "rare"
    if column.low is not None and column.low == column.high:
        return ""
    if column.low is None or column.high is None:
        return "high" if column.high is None else "low"
    if inside.median > outside.upper or inside.median < outside.lower:
        return "high" if inside.median > outside.upper else "low"
    return "medium"


def range_words(column: ProfileColumn) -> str:
    """Return the words for a cluster's range in a column: "bytes 12 to 40"."""
    if column.present is not None:
        return words(column)
    if (frequent := _inner(column.column, *LOG_SHARE)) is not None:
        share = percent(min(1.0, math.exp(column.inside.median)))
        return f"{frequent} with {share} of the rows"
    equals = "= " if column.low is not None and column.low == column.high else ""
    return f"{short_name(column.column, PAGE_LIMITS.column_name)} {equals}{limits(column)}"


def limits(column: ProfileColumn) -> str:
    """Return a range in words: "12 to 40", "12 or more"."""
    if column.low is None and column.high is None:
        return "any value"
    low, high = (
        None if end is None else measured(end, column.unit, column.width)
        for end in (column.low, column.high)
    )
    if low is None:
        return f"{high} or less"
    if high is None:
        return f"{low} or more"
    return low if low == high else f"{low} to {high}"


def _short(column: str) -> str:
    """Return a column's name without its logarithm."""
    return short_name(_inner(column, "log(", ")") or column, PAGE_LIMITS.column_name)


def _inner(column: str, begin: str, end: str) -> str | None:
    """Return a column's name between `begin` and `end`, None if it lacks one of these."""
    fits = column.startswith(begin) and column.endswith(end) and len(column) > len(begin + end)
    return column[len(begin) : -len(end)] if fits else None
