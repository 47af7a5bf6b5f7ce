"""Names of clusters in a few words, as "high bytes, low duration", by what sets them apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from distsvc.report.content.explained_parts import ProfileColumn, ProfilePart
from distsvc.report.content.report import Report
from distsvc.report.formats import number, one_line, percent, short_name

LONGEST = 40
"""Characters of a column's name."""

LONGEST_NAME = 60
"""Maximum number of characters of a name that the job gives."""

SHARE = "log(share(", "))"
"""Around the name of a column whose values are told by how frequent they are."""

ALONE = ", otherwise like the others"
"""End of the name of a cluster that only one flag or category sets apart."""

IN_NAME, MOST_IN_NAME = 2, 4
"""Columns in a name, and in one that would be another cluster's, too."""


def cluster_names(report: Report) -> dict[int, str]:
    """Return the name of each cluster by its id: the job's, or one by its columns.

    Clusters with neither a name in the job nor a profile have none.
    """
    found = names(report.profiles.clusters) if report.profiles else {}
    given = {row.label: report.names.get(str(row.label)) for row in report.clusters}
    return found | {label: one_line(name, LONGEST_NAME) for label, name in given.items() if name}


def names(found: Sequence[ProfilePart]) -> dict[int, str]:
    """Return the name of each cluster by its label; nothing of one that no column sets apart.

    Clusters that would be called the same have more columns in their names, then numbers.
    """
    named: dict[int, str] = {}
    waiting = list(found)
    for n_columns in range(IN_NAME, MOST_IN_NAME + 1):
        told = {one.label: _name(one.columns[:n_columns]) for one in waiting}
        again = {name for name, n in Counter(told.values()).items() if n > 1}
        named |= {label: name for label, name in told.items() if name not in again}
        waiting = [one for one in waiting if told[one.label] in again]
    exact = {one.label: ", ".join(map(range_words, one.columns[:IN_NAME])) for one in waiting}
    return named | exact


def _name(columns: Sequence[ProfileColumn]) -> str:
    """Return the name of a cluster; a flag alone does not describe it."""
    alone = len(columns) == 1 and columns[0].present is not None
    return ", ".join(map(words, columns)) + (ALONE if alone else "")


def words(column: ProfileColumn) -> str:
    """Return where a cluster lies in a column in a word or two: "high bytes", "country=DE"."""
    inside, outside = column.inside, column.outside
    if column.present is not None:
        return _short(column.column) if column.present else f"not {_short(column.column)}"
    if (frequent := _inner(column.column, *SHARE)) is not None:
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
    if (frequent := _inner(column.column, *SHARE)) is not None:
        share = percent(min(1.0, math.exp(column.inside.median)))
        return f"{frequent} with {share} of the rows"
    return f"{short_name(column.column, LONGEST)} {limits(column)}"


def limits(column: ProfileColumn) -> str:
    """Return a range in words: "12 to 40", "12 or more"."""
    low, high = column.low, column.high
    if low is None:
        return "any value" if high is None else f"{number(high)} or less"
    if high is None:
        return f"{number(low)} or more"
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _short(column: str) -> str:
    """Return a column's name without its logarithm."""
    return short_name(_inner(column, "log(", ")") or column, LONGEST)


def _inner(column: str, begin: str, end: str) -> str | None:
    """Return what stands in a column's name between two parts, None of other columns."""
    fits = column.startswith(begin) and column.endswith(end) and len(column) > len(begin + end)
    return column[len(begin) : -len(end)] if fits else None
