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


class ColumnPart(ReportPart):
    """A stored column of the table, and what each cluster has in it.

    Attributes
    ----------
    column : str
    kind, scale, reason : str
        What the column is, the scale that learners see, and why; a column that is no `feature` has
        the reason why.
    feature : bool
        Whether the clusters were found by it.
    missing : int
        Missing values.
    explained : float or None
        Share of the column's spread that lies between clusters, without the share that chance
        explains: of the variance of ranks, or of the Gini impurity of levels.
    levels : list of str
    rows : list of list of int
        Rows of each cluster (k) by level.
    sampled : bool
        Whether `rows` are of a sample.
    quartiles : list of list of float
        Lower quartile, median and upper quartile of each cluster, of a sample.
    leaning : list of float
        Cliff's delta of each cluster: how often its rows lie above others, less how often below.
    absent : list of int
        Missing values of each cluster.
    filled : float or None
        The value that missing ones were replaced by.

    """

    column: str
    kind: str
    scale: Unsaid[str] = ""
    reason: Unsaid[str] = ""
    feature: Unsaid[bool] = True
    missing: Unsaid[Size] = 0
    explained: Unsaid[Known] = None
    levels: Unsaid[list[str]] = Field(default=[])
    rows: Unsaid[list[list[Size]]] = Field(default=[])
    sampled: Unsaid[bool] = False
    quartiles: Unsaid[list[Annotated[list[Known], Field(min_length=3, max_length=3)]]] = Field(
        default=[]
    )
    leaning: Unsaid[list[Number]] = Field(default=[])
    absent: Unsaid[list[Size]] = Field(default=[])
    filled: Unsaid[Known] = None

    @model_validator(mode="after")
    def _levels(self) -> Self:
        for row in self.rows:
            check_lengths(self.levels, row)
        return self


class ColumnsPart(ReportPart):
    """Columns of the table by clusters (k), the largest clusters first.

    `sample` is the number of rows that medians are of. `n_hidden` columns are not listed.
    """

    label: list[Label]
    size: list[Size]
    sample: Size
    columns: list[ColumnPart]
    n_hidden: Unsaid[Size] = 0

    @model_validator(mode="after")
    def _clusters(self) -> Self:
        check_lengths(self.label, self.size)
        for column in self.columns:
            for each in (column.rows, column.quartiles, column.leaning, column.absent):
                if each:
                    check_lengths(self.label, each)
        return self


class ProfilesPart(ReportPart):
    """Profiles of clusters, the largest first, in so many rows of a sample."""

    rows: Size
    clusters: Annotated[list[ProfilePart], Field(min_length=1)]


class RowsPart(ReportPart):
    """The way to the rows of a cluster: a query, and the labels of a small table as CSV.

    The columns of `csv` are the id or row, label, score and outlier flag; it is empty for a larger
    table.
    """

    query: str
    csv: Unsaid[str] = ""
