"""The parts of ``report.json`` that explain an answer: reasons of rows, profiles of clusters."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from distsvc.report.content.parts import (
    Known,
    Label,
    Number,
    ReportPart,
    Size,
    Unsaid,
    check_lengths,
)

MOST_SHARE_BINS = 1_000
"""More than that is never written."""


class LeadingColumn(ReportPart):
    """A column, and the rows far out of which it is the first reason."""

    column: str
    rows: Size


class Reason(ReportPart):
    """A column's share of all that takes a row out, the row's value there, and a typical one.

    Of a vector there are so many numbers, `width`, in place of a value. Of categories the column
    names the row's own, and `held` is the share of its cluster's rows that have it.
    """

    column: str
    share: Number
    value: Known = None
    typical: Unsaid[Known] = None
    width: Unsaid[Size | None] = None
    held: Unsaid[Known] = None


class FarRow(ReportPart):
    """A row by its number in the table, its score, its cluster and the heaviest reasons."""

    row: Size
    score: Number
    label: Unsaid[Label | None] = None
    reasons: list[Reason]


class ReasonsPart(ReportPart):
    """Reasons of outliers, or of rows near a border: the columns that do most, the farthest rows.

    `counted` is the number of rows of a sample that `leading` is of, None where it is of all.
    """

    leading: list[LeadingColumn]
    farthest: list[FarRow]
    counted: Unsaid[Size | None] = None


class MembershipPart(ReportPart):
    """Shares of their own clusters in rows, and in words what such a share is (`meaning`).

    `counts` are rows by that share, from 0 to 1 in steps of equal width.
    """

    meaning: str
    counts: Annotated[list[Size], Field(min_length=2, max_length=MOST_SHARE_BINS)]

    def above(self, share: float) -> float:
        """Return the part of the rows whose share is at least `share`, the edge of a step."""
        first = round(share * len(self.counts))
        return sum(self.counts[first:]) / max(sum(self.counts), 1)


class Spread(ReportPart):
    """The quartiles of some rows in a column, and the share of them in a range."""

    lower: Number
    median: Number
    upper: Number
    share: Number

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if not self.lower <= self.median <= self.upper:
            raise ValueError("expected quartiles that rise, found others")
        return self


class ProfileColumn(ReportPart):
    """One column of a cluster's profile.

    The range is open where `low` or `high` is None. `inside` is of the cluster's rows,
    `outside` of the others, and `apart` the difference of their shares in the range: how well
    that tells them apart. Of a value of categories, `present` is whether the range is of the
    rows that have it, or of all others.
    """

    column: str
    apart: Number
    low: Known
    high: Known
    inside: Spread
    outside: Spread
    present: Unsaid[bool | None] = None


class TypicalRow(ReportPart):
    """A row by its number in the table, with its values in the columns of a profile."""

    row: Size
    values: list[Known]


class ProfilePart(ReportPart):
    """A cluster's profile: its rows in the sample, columns, the best first, typical rows."""

    label: Label
    rows: Size
    columns: list[ProfileColumn]
    typical: list[TypicalRow]

    @model_validator(mode="after")
    def _values(self) -> Self:
        for row in self.typical:
            check_lengths(self.columns, row.values)
        return self


class HeatPart(ReportPart):
    """Clusters (k) by the columns (c) that tell most of them apart.

    `leaning` (k, c) is how often a cluster's row lies above one of the others, less how often
    below, and `median` (k, c) that of the cluster's rows: of a category the share that has it.
    """

    label: list[Label]
    columns: list[str]
    leaning: list[list[Number]]
    median: list[list[Number]]

    @model_validator(mode="after")
    def _shape(self) -> Self:
        check_lengths(self.label, self.leaning, self.median)
        for row in *self.leaning, *self.median:
            check_lengths(self.columns, row)
        return self


class ProfilesPart(ReportPart):
    """Profiles of clusters, the largest first, in so many rows of a sample."""

    rows: Size
    clusters: Annotated[list[ProfilePart], Field(min_length=1)]
    heat: Unsaid[HeatPart | None] = None


class RowsPart(ReportPart):
    """The way to the rows of a cluster: a query, and the labels of a small table as CSV.

    The columns of `csv` are the id or row, label, score and outlier flag; it is empty for a larger
    table.
    """

    query: str
    csv: Unsaid[str] = ""
