"""Names of clusters by the columns that set them apart, as "high bytes, low duration"."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ProfileColumn, ProfilePart
from distsvc.report.content.report import Report
from distsvc.report.formats import number, one_line, percent, short_name

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

    A name has the first number of `columns` for which no other one says the same in any order.
    Names that stay equal get ranges. So do words of several names whose ranges lie apart, as two
    clusters with high values of which one is the higher.
    """
    shown: dict[int, Sequence[ProfileColumn]] = {}
    waiting = list(found)
    for n_columns in columns:
        said = {one.label: frozenset(map(words, one.columns[:n_columns])) for one in waiting}
        times = Counter(said.values())
        shown |= {
            one.label: one.columns[:n_columns] for one in waiting if times[said[one.label]] == 1
        }
        waiting = [one for one in waiting if times[said[one.label]] > 1]
    equal = {one.label: one.columns[: columns.start] for one in waiting}
    vague = _vague_words([column for each in (shown | equal).values() for column in each])
    return {label: _name(each, vague) for label, each in shown.items()} | {
        label: ", ".join(map(range_words, each)) for label, each in equal.items()
    }


def _vague_words(columns: Sequence[ProfileColumn]) -> set[str]:
    """Return the words that stand for two ranges without a common value."""
    lows: dict[str, float] = {}
    highs: dict[str, float] = {}
    for column in columns:
        word = words(column)
        lows[word] = max(lows.get(word, -math.inf), -math.inf if column.low is None else column.low)
        highs[word] = min(
            highs.get(word, math.inf), math.inf if column.high is None else column.high
        )
    return {word for word in lows if lows[word] > highs[word]}


def _name(columns: Sequence[ProfileColumn], vague: Collection[str]) -> str:
    """Return the name of a cluster; a flag alone does not describe it."""
    alone = len(columns) == 1 and columns[0].present is not None
    each = [range_words(one) if words(one) in vague else words(one) for one in columns]
    return ", ".join(each) + (", otherwise like the others" if alone else "")


def words(column: ProfileColumn) -> str:
    """Return the place of a cluster in a column in a word or two: "high bytes", "country=DE"."""
    inside, outside = column.inside, column.outside
    if column.present is not None:
        return _short(column.column) if column.present else f"not {_short(column.column)}"
    if (frequent := _inner(column.column, *LOG_SHARE)) is not None:
        return f"{'common' if inside.median >= outside.median else 'rare'} {frequent}"
    name = _short(column.column)
    if column.low is not None and column.low == column.high:
        return f"{name} {number(column.low)}"
    if column.low is None or column.high is None:
        rises = column.high is None
    elif inside.median > outside.upper or inside.median < outside.lower:
        rises = inside.median > outside.upper
    else:
        return f"medium {name}"
    return f"{'high' if rises else 'low'} {name}"


def range_words(column: ProfileColumn) -> str:
    """Return the range of a cluster in a column: "bytes 12 to 40"."""
    if column.present is not None:
        return words(column)
    if (frequent := _inner(column.column, *LOG_SHARE)) is not None:
        share = percent(min(1.0, math.exp(column.inside.median)))
        return f"{frequent} with {share} of the rows"
    return f"{short_name(column.column, PAGE_LIMITS.column_name)} {limits(column)}"


def limits(column: ProfileColumn) -> str:
    """Return a range in words: "12 to 40", "12 or more"."""
    if column.low is None and column.high is None:
        return "any value"
    low, high = (
        None if end is None else number(end, column.width) for end in (column.low, column.high)
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
    """Return the text between two parts of a column's name, None if it has other parts."""
    fits = column.startswith(begin) and column.endswith(end) and len(column) > len(begin + end)
    return column[len(begin) : -len(end)] if fits else None
