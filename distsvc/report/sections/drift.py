"""The page's section on drift."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from distsvc.report.content.comparison_parts import ColumnDrift, DriftPart, ReferencePart
from distsvc.report.formats import (
    FoldedTable,
    count,
    folded,
    listed,
    one_line,
    percent,
    short_name,
    things,
)

STABLE, ANOTHER = 0.1, 0.25
"""Population stability indices up to which a column is as it was, and above which it is another."""

LONGEST_NAME = 300


class DriftRow(NamedTuple):
    """A line of the table of columns; `bar` is a share of the room, `kind` tells its colour."""

    column: str
    stability: str
    bar: float
    kind: str
    missing_before: float
    missing_after: float


class DriftSection(NamedTuple):
    """The table of columns; `missing` says whether any column lacks values."""

    summary: str
    columns: FoldedTable
    missing: bool
    capped: bool
    others: list[str]


def section(found: DriftPart) -> DriftSection:
    """Return the section; the text of `found` is untrusted."""
    return _section(found.columns, _besides(found))


def of_reference(found: ReferencePart) -> DriftSection:
    """Return the section on the drift from a reference, whose text is untrusted."""
    run = f"{one_line(found.path, LONGEST_NAME)}, of {one_line(found.run_date, LONGEST_NAME)}"
    return _section(found.columns, [f"The reference is the run at {run}."])


def _section(found: Sequence[ColumnDrift], others: Iterable[str]) -> DriftSection:
    columns = sorted(found, key=lambda column: -column.index)
    largest = max((column.index for column in columns), default=0.0)
    end = min(1.0, max(largest, 1.2 * ANOTHER))
    return DriftSection(
        summary=_drifted(columns),
        columns=folded([_column(column, end) for column in columns], "more columns"),
        missing=any(column.missing_before or column.missing_after for column in columns),
        capped=largest > 1,
        others=list(others),
    )


def _column(column: ColumnDrift, end: float) -> DriftRow:
    return DriftRow(
        column=short_name(column.column, LONGEST_NAME),
        stability=_index(column.index),
        bar=min(1.0, max(0.0, column.index / end)),
        kind="much" if column.index > ANOTHER else "some" if column.index > STABLE else "",
        missing_before=column.missing_before,
        missing_after=column.missing_after,
    )


def _index(index: float) -> str:
    return f"{index:.3f}" if index < 9.9995 else f"{index:,.4g}"


def _drifted(columns: Sequence[ColumnDrift]) -> str:
    """Say how many columns have changed."""
    another = sum(column.index > ANOTHER for column in columns)
    some = sum(column.index > STABLE for column in columns) - another
    of = f"of {things(len(columns), 'column')}"
    if not another and not some:
        return f"None {of} has drifted."
    parts = [f"{count(another)} {'has' if another == 1 else 'have'} changed much"] * bool(another)
    parts += [f"{count(some)} {'has' if some == 1 else 'have'} changed some"] * bool(some)
    return f"{of[0].upper()}{of[1:]}, {listed(parts)}."


def _besides(found: DriftPart) -> Iterable[str]:
    """Say how scores and outliers are beside those of the run before."""
    if found.score is not None and found.score_rows:
        yield (
            f"The index of the earlier model's scores of {things(found.score_rows, 'row')} is "
            f"{_index(found.score)}."
        )
    before, after = found.outlier_share_before, found.outlier_share_after
    if before is not None and after is not None:
        was = f"{percent(before)} of the rows lay outside every cluster before"
        yield f"{was}, {percent(after)} do now."
    elif after is not None:
        yield f"{percent(after)} of the rows lie outside every cluster now."
