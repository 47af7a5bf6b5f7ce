"""Names of clusters by the columns that set them apart, as "high bytes, low duration"."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import NamedColumn, ProfileColumn, ProfilePart
from distsvc.report.content.report import Report
from distsvc.report.formats import measured, one_line, percent, short_name

LOG_SHARE = "log(share(", "))"
"""Text around the name of a column that is encoded by the frequency of its values."""


def cluster_names(report: Report) -> dict[int, str]:
    """Return names of clusters by id: from the job, or else made from their columns."""
    found = {label: _joined(each) for label, each in column_names(report).items()}
    given = {row.label: report.names.get(str(row.label)) for row in report.clusters}
    return found | {label: one_line(name, 60) for label, name in given.items() if name}


def column_names(report: Report) -> dict[int, list[NamedColumn]]:
    """Return the columns from which each cluster's name is made, by cluster id.

    Clusters without a profile are left out.
    """
    if report.profiles is None:
        return {}
    earlier = {int(label): each for label, each in report.earlier_names.items()}
    return names(report.profiles.clusters, earlier=earlier)


def renamed(report: Report) -> list[tuple[int, str, str]]:
    """Return (id, earlier name, present name) of each cluster whose name has changed.

    Names that are given in the job don't count, only names made from columns.
    """
    now, given = column_names(report), report.names
    names_now = {label: _joined(each) for label, each in now.items() if str(label) not in given}
    before = {label: _joined(each) for label, each in report.earlier_names.items()}
    return [
        (label, before[str(label)], name)
        for label, name in names_now.items()
        if name and before.get(str(label), name) not in ("", name)
    ]


def names(
    found: Sequence[ProfilePart],
    columns: range = range(2, 5),
    earlier: Mapping[int, Sequence[NamedColumn]] | None = None,
) -> dict[int, list[NamedColumn]]:
    """Return the columns in each cluster's name, by label; [] if the profile has no columns.

    `columns` is the range of the number of columns that a new name has.
    """
    # A cluster keeps its `earlier` name while this name is true. A new name has the fewest columns,
    # a number in `columns`, that make it unique in any order. If possible, it fits no other
    # cluster. Names that are equal have ranges in place of words such as "high".
    kept, shown = dict[int, Sequence[NamedColumn]](), dict[int, Sequence[ProfileColumn]]()
    waiting = list[ProfilePart]()
    for one in found:
        before = (earlier or {}).get(one.label, ())
        same = _columns_of(before, one)
        if len(same) >= max(1, min(columns.start, len(one.columns))):
            kept[one.label], shown[one.label] = before, same
        else:
            waiting.append(one)
    taken = Counter(frozenset(map(words, each)) for each in shown.values())
    for is_exclusive, n_columns in itertools.product((True, False), columns):
        texts = {one.label: frozenset(map(words, one.columns[:n_columns])) for one in waiting}
        times = Counter(texts.values()) + taken
        unique = {
            one.label: one.columns[:n_columns]
            for one in waiting
            if times[texts[one.label]] == 1
            and not (is_exclusive and _fits_another(one.columns[:n_columns], one.label, found))
        }
        shown |= unique
        waiting = [one for one in waiting if one.label not in unique]
    equal = {one.label: one.columns[: columns.start] for one in waiting}
    peers = [column for each in (shown | equal).values() for column in each]
    named = {label: _named(each, peers, kept.get(label, ())) for label, each in shown.items()}
    return named | {label: list(map(_in_range, each)) for label, each in equal.items()}


def _fits_another(
    columns: Sequence[ProfileColumn], label: int, found: Sequence[ProfilePart]
) -> bool:
    """Return True if the medians of another cluster lie in the ranges of all `columns`."""
    for other in found:
        medians = {one.column: one.inside.median for one in other.columns}
        if other.label != label and all(
            one.column in medians and _has(one, medians[one.column]) for one in columns
        ):
            return True
    return False


def _columns_of(named: Sequence[NamedColumn], profile: ProfilePart) -> list[ProfileColumn]:
    """Return the columns of a cluster's earlier name; [] if the name is no longer true."""
    now = {column.column: column for column in profile.columns}
    found = [now[one.column] for one in named if one.column in now]
    is_true = len(found) == len(named) and all(
        _has(one, now[one.column].inside.median)
        if one.has_range
        else one.text == words(now[one.column])
        for one in named
    )
    return found if is_true else []


def _has(range_of: ProfileColumn | NamedColumn, value: float) -> bool:
    """Return True if a value lies in a range, which may be open."""
    low, high = range_of.low, range_of.high
    return (low is None or low <= value) and (high is None or value <= high)


def _named(
    columns: Sequence[ProfileColumn], peers: Sequence[ProfileColumn], kept: Sequence[NamedColumn]
) -> list[NamedColumn]:
    """Return each column of a name in words, such as "high bytes", or with its range.

    A column has a range if it has one in `kept`, the earlier name. It also has a range if it is
    more extreme in the name of another cluster (`peers`).
    """
    rest = ""
    if len(columns) == 1 and columns[0].present is not None:
        rest = ", otherwise like the others"
    found = []
    for k, one in enumerate(columns):
        if kept and kept[k].has_range:
            found.append(kept[k])
        elif any(_is_beyond(other, one) for other in peers if other.column == one.column):
            found.append(_in_range(one))
        else:
            found.append(NamedColumn(column=one.column, text=words(one) + rest))
    return found


def _in_range(column: ProfileColumn) -> NamedColumn:
    """Return a column named with its range, as "bytes 12 to 40"; a category has no range."""
    if column.present is not None:
        return NamedColumn(column=column.column, text=words(column))
    if (frequent := _inner(column.column, *LOG_SHARE)) is not None:
        share = percent(min(1.0, math.exp(column.inside.median)))
        return NamedColumn(column=column.column, text=f"{frequent} with {share} of the rows")
    equals = "= " if column.low is not None and column.low == column.high else ""
    text = f"{short_name(column.column, PAGE_LIMITS.column_name)} {equals}{limits(column)}"
    return NamedColumn(column=column.column, text=text, low=column.low, high=column.high)


def _joined(named: Sequence[NamedColumn]) -> str:
    return ", ".join(one.text for one in named)


def _is_beyond(other: ProfileColumn, column: ProfileColumn) -> bool:
    """Return True if `other` has the same place word, such as "high", but is more extreme."""
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
    """Return a cluster's values in a column in a few words: "high bytes", "rpm = 0"."""
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
    """Return "high", "low" or the like; empty for a category or a single value."""
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
    """Return a short name of a column: "bytes" for the column "log(bytes)"."""
    return short_name(_inner(column, "log(", ")") or column, PAGE_LIMITS.column_name)


def _inner(column: str, begin: str, end: str) -> str | None:
    """Return the text between `begin` and `end`; None if the column does not have both."""
    fits = column.startswith(begin) and column.endswith(end) and len(column) > len(begin + end)
    return column[len(begin) : -len(end)] if fits else None
