"""The page's words on drift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distsvc.report.content.comparison_parts import ColumnDrift, DriftPart
from distsvc.report.formats import count, listed, percent, things

STABLE_INDEX, CHANGED_INDEX = 0.1, 0.25
"""Population stability indices up to which a column is stable, and above which it changed much."""


def summary(columns: Sequence[ColumnDrift]) -> str:
    """Return how many columns have changed, as a sentence."""
    much = sum(column.index > CHANGED_INDEX for column in columns)
    some = sum(column.index > STABLE_INDEX for column in columns) - much
    columns_in_all = things(len(columns), "column")
    parts = [
        f"{count(n)} {'has' if n == 1 else 'have'} changed {how}"
        for n, how in ((much, "much"), (some, "some"))
        if n
    ]
    if not parts:
        return f"None of {columns_in_all} has drifted."
    return f"Of {columns_in_all}, {listed(parts)}."


def index_text(index: float) -> str:
    """Format a population stability index."""
    return f"{index:.3f}" if index < 9.9995 else f"{index:,.4g}"


def scores_and_outliers(found: DriftPart) -> Iterator[str]:
    """Yield sentences that compare scores and outliers with those of the previous run."""
    if found.score is not None and found.score_rows:
        yield (
            f"The index of the earlier model's scores of {things(found.score_rows, 'row')} is "
            f"{index_text(found.score)}."
        )
    before, after = found.outlier_share_before, found.outlier_share_after
    if before is not None and after is not None:
        was = f"{percent(before)} of the rows lay outside every cluster before"
        yield f"{was}, {percent(after)} do now."
    elif after is not None:
        yield f"{percent(after)} of the rows lie outside every cluster now."
