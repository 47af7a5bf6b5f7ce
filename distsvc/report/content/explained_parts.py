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


class LeadingColumn(ReportPart):
    """A column, and the number of outliers of which it is the first reason."""

    column: str
    rows: Size


class Reason(ReportPart):
    """A column's share of a row's outlier score, the row's value there, and a typical value.

    A vector has its length, `width`, in place of a value. For a category, `column` names the row's
    category, and `held` is the share of rows of its cluster in this category.
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
    """Reasons of outliers, or of rows near a border: the leading columns, the farthest rows.

    `counted` is the number of sampled rows that `leading` counts, None if it counts all rows.
    """

    leading: list[LeadingColumn]
    farthest: list[FarRow]
    counted: Unsaid[Size | None] = None


class MembershipPart(ReportPart):
    """Memberships of rows in their own clusters, and the `meaning` of a membership in words.

    `counts` is a histogram from 0 to 1 with bins of equal width.
    """

    meaning: str
    counts: Annotated[list[Size], Field(min_length=2)]

    def above(self, share: float) -> float:
        """Return the share of rows with a membership of at least `share`, the edge of a bin."""
        first = round(share * len(self.counts))
        return sum(self.counts[first:]) / max(sum(self.counts), 1)


class Spread(ReportPart):
    """The quartiles of rows in a column, and their share in a range."""

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

    Attributes
    ----------
    column : str
    apart : float
        Share of the cluster's rows in the range, less that of all other rows.
    low, high : float or None
        The range; None if it is open.
    inside, outside : Spread
        Quartiles of the cluster's rows, and of all others.
    present : bool or None
        For a category, whether the range is of the rows that have it, or of all others.

    """

    column: str
    apart: Number
    low: Known
    high: Known
    inside: Spread
    outside: Spread
    present: Unsaid[bool | None] = None

    @property
    def level(self) -> str:
        """The name of the column, negated if the range describes rows without the category."""
        return f"not {self.column}" if self.present is False else self.column


class TypicalRow(ReportPart):
    """A row by its number in the table, with its values in the columns of a profile."""

    row: Size
    values: list[Known]


class ProfilePart(ReportPart):
    """A cluster's profile: its rows in the sample, its best columns first, typical rows."""

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
    """A stored column of the table, with its values by cluster.

    Attributes
    ----------
    column : str
    kind, scale, reason : str
        Kind of the column, scale for learners, and why; or why it is no feature.
    feature : bool
    missing : int
        Number of missing values.
    explained : float or None
        Share of the column's spread explained by clusters, adjusted for chance. The spread is the
        variance of ranks for numbers, and the Gini impurity for categories.
    levels : list of str
    rows : list of list of int
        Rows of each cluster (k) by level.
    sampled : bool
        Whether `rows` counts the rows of a sample only.
    quartiles : list of list of float
        Lower quartile, median and upper quartile of each cluster, of a sample.
    leaning : list of float
        Cliff's delta of each cluster.
    absent : list of int
        Missing values of each cluster.
    filled : float or None
        The value in place of missing ones.

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

    @property
    def explained_share(self) -> float:
        """The explained share, 0 if it is unknown."""
        return self.explained or 0.0

    @model_validator(mode="after")
    def _levels(self) -> Self:
        for row in self.rows:
            check_lengths(self.levels, row)
        return self


class ColumnsPart(ReportPart):
    """Columns of the table by clusters (k), the largest clusters first.

    Medians are of `sample` rows. `n_hidden` columns are not listed.
    """

    _equally_long = ("label", "size")

    label: list[Label]
    size: list[Size]
    sample: Size
    columns: list[ColumnPart]
    n_hidden: Unsaid[Size] = 0

    @model_validator(mode="after")
    def _clusters(self) -> Self:
        for column in self.columns:
            for each in (column.rows, column.quartiles, column.leaning, column.absent):
                if each:
                    check_lengths(self.label, each)
        return self


class ProfilesPart(ReportPart):
    """Profiles of clusters, the largest first, in a sample of `rows`."""

    rows: Size
    clusters: Annotated[list[ProfilePart], Field(min_length=1)]

    @property
    def has_categories(self) -> bool:
        """Whether any profile has a category."""
        return any(one.present is not None for part in self.clusters for one in part.columns)


class RowsPart(ReportPart):
    """The query for the rows of a cluster, and the labels of a small table as CSV.

    The columns of `csv` are the id or row, label, score and outlier flag; large tables have none.
    """

    query: str
    csv: Unsaid[str] = ""
