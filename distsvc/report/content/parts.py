"""The base of all parts of ``report.json``, and the types of their fields.

Unknown numbers are None, and NaN reads as None. Fields with a default may be missing from a file.
Files are compared with the manifest's checksums before they are parsed. So only the types of fields
are checked here, not the lengths of lists or the shapes of trees.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from distsvc.errors import times_in_words
from distsvc.errors.forms import Form


def _known(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _finite(number: object) -> object:
    odd = number is None or (isinstance(number, float) and not math.isfinite(number))
    return 0.0 if odd else number


Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""A count."""

Label = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""A cluster's label, or the number of a branch."""

Number = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number."""

Cost = Annotated[float, Field(ge=0, le=1e15)]
"""Seconds, or MB."""

Known = Annotated[float | None, AfterValidator(_known)]
"""A number, or None where it is not known."""

Finite = Annotated[float, BeforeValidator(_finite)]
"""A finite number; None, NaN and infinity read as 0."""


Quartiles = Annotated[list[Known], Field(min_length=3, max_length=3)]
"""Lower quartile, median and upper quartile."""

_OMITTED = "omitted"
Value = TypeVar("Value")
OmitDefault = Annotated[Value, _OMITTED]
"""A field that is omitted from the JSON if it has its default value."""


class ReportPart(Form):
    """A part of the report."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields = type(self).model_fields.items()
        defaults = {name: field.default for name, field in fields if _OMITTED in field.metadata}
        omitted = {name for name, default in defaults.items() if getattr(self, name) == default}
        return {name: value for name, value in dump(self).items() if name not in omitted}


Some = TypeVar("Some", bound=ReportPart)


def relabel(part: Some, ids: Sequence[int]) -> Some:
    """Return a copy of a part in which every field ``label`` has the id in place of the label.

    Label k becomes ``ids[k]``, also in parts inside the part.
    """
    known = {name: _relabelled(name, value, ids) for name, value in part}
    return part.model_copy(update={k: v for k, v in known.items() if v is not None})


def _relabelled(name: str, value: Any, ids: Sequence[int]) -> Any:
    """Return the new value of a field; None if the field does not change."""
    if isinstance(value, ReportPart):
        return relabel(value, ids)
    if name == "label" and value is not None:
        return [ids[one] for one in value] if isinstance(value, list) else ids[value]
    if isinstance(value, list) and value and isinstance(value[0], ReportPart):
        return [relabel(one, ids) for one in value]
    return None


State = Literal["passed", "warned", "failed", "not measured"]
Side = Literal["at least", "at most", "between"]
Limits = Annotated[list[float], Field(min_length=1, max_length=2)]


class CheckPart(ReportPart):
    """The outcome of a check."""

    name: str
    level: Literal["error", "warn"]
    side: Side | None = None
    limit: Limits
    warn: Limits | None = None  # a value beyond this limit is a warning
    found: Known
    state: State
    words: str  # the value found and the limit, as a sentence

    @property
    def sentence(self) -> str:
        """The text `words` without the name of the check, with which it starts."""
        return self.words.removeprefix(f"{self.name}: ")


EVENT_ORDER = (
    "split", "absorbed", "disappeared", "split off", "returned", "appeared", "survived",
)  # fmt: skip
"""Kinds of changes of clusters, in the order of the page's table."""


class StoryPart(ReportPart):
    """The change of one cluster since the previous run: it survived or split, for example."""

    id: Label
    event: Literal["survived", "split", "absorbed", "appeared", "disappeared", "returned"]
    jaccard: Number  # overlap with the cluster that it continues, or overlaps most
    rows_before: Size  # rows in the previous table
    rows_after: Size  # rows in this table
    others: list[Label]  # ids of its pieces, of the cluster that absorbed it, or of its origin

    @property
    def is_new(self) -> bool:
        """Whether the cluster's id is used for the first time."""
        return self.event == "appeared" or (self.event == "split" and self.rows_after > 0)

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key: by kind of change as in `EVENT_ORDER`, then from the largest cluster down."""
        kind = "split off" if self.event == "split" and self.is_new else self.event
        return EVENT_ORDER.index(kind), -max(self.rows_before, self.rows_after), self.id

    @property
    def has_ended(self) -> bool:
        """Whether no cluster of this run has this id."""
        return self.event not in ("survived", "returned") and not self.is_new


class Moves(ReportPart):
    """Numbers of rows by their cluster in the previous model and in this run.

    ``rows[i]`` rows have the earlier id ``before[i]`` and the present id ``after[i]``. Pairs of ids
    without rows are left out.
    """

    before: list[Label]
    after: list[Label]
    rows: list[Size]

    @property
    def changed(self) -> list[tuple[int, int, int]]:
        """Triples (earlier id, present id, rows) of rows that moved, the most rows first."""
        pairs = zip(self.before, self.after, self.rows, strict=True)
        return sorted((one for one in pairs if one[0] != one[1]), key=lambda one: -one[2])


class LineagePart(ReportPart):
    """Comparison of this run's clusters with the previous run."""

    path: str | None  # the previous run, if any
    run_id: str | None
    mode: Literal["refit", "assign"]  # a new model, or the previous one
    because: list[str] = Field(default=[])  # reasons why the previous model was not used again
    not_published: str | None = None  # expected output, if nothing is published there
    rows: Size  # rows that both models labelled
    moved: Known  # share of `rows` that the previous model puts into another cluster
    ids_moved: OmitDefault[Known] = None  # share of the common row ids whose cluster changed
    followed: bool | None = None  # whether the previous clusters were kept; None if not tried
    next_id: Size  # this id and all larger ids are free
    clusters: list[StoryPart]
    moves: Moves | None = None


class ColumnDrift(ReportPart):
    """Drift of a column: its population stability index, and its shares of missing values."""

    column: str
    index: Number
    missing_before: Number
    missing_after: Number
    factor: OmitDefault[Known] = None  # factor of a change of unit, such as 1000 from kg to g
    offset: OmitDefault[Number] = 0.0  # added after the factor, as between Celsius and Fahrenheit
    part: OmitDefault[str] = ""  # rows with the new unit, such as "line=B"; empty for all rows
    change: OmitDefault[str] = ""  # the values whose share changed most

    @property
    def times(self) -> str:
        """The change of unit in words: ``about 100 times the values of the previous run``."""
        words = f"{times_in_words(self.factor or 1.0)} the values of the previous run"
        if self.offset:
            now, then = ("Fahrenheit", "Celsius")[:: 1 if self.offset > 0.0 else -1]
            words = f"in {now} (previous run: {then})"
        return f"{words} where {self.part}" if self.part else words


class ReferencePart(ReportPart):
    """Drift from the table of a fixed reference run; the column that drifted most comes first."""

    path: str
    run_id: str
    run_date: str
    columns: list[ColumnDrift]


class DriftPart(ReportPart):
    """Drift from the previous model's table; the column that drifted most comes first."""

    columns: list[ColumnDrift]
    score: Known  # population stability index of the previous model's scores
    score_rows: Size  # rows with these scores
    outlier_share_before: Known
    outlier_share_after: Known


class LeadingColumn(ReportPart):
    """A column, and the number of rows whose first reason is this column."""

    column: str
    rows: Size


class Reason(ReportPart):
    """A column that explains a row's low score, with the row's value and a typical value."""

    column: str  # such as "age"; "country=Chile" for a category
    share: Number  # the column's part of the explanation; the shares of all columns sum to 1
    value: Known = None
    typical: OmitDefault[Known] = None  # median in the row's cluster
    unit: OmitDefault[str] = ""  # unit as in `ColumnPart`
    width: OmitDefault[Size | None] = None  # length of a vector
    held: OmitDefault[Known] = None  # share of the cluster's rows with the same category


class FarRow(ReportPart):
    """A row with a low score, and the columns that explain the score best."""

    row: Size
    id: OmitDefault[str | None] = None
    score: Number
    label: OmitDefault[Label | None] = None
    reasons: list[Reason]


class ReasonsPart(ReportPart):
    """The columns that explain the scores of outliers.

    If the model has no outliers, the rows with the lowest scores are explained.
    """

    leading: list[LeadingColumn]  # the columns that are most often a row's first reason
    farthest: list[FarRow]  # the rows with the lowest scores
    counted: OmitDefault[Size | None] = None  # rows for `leading` if they are only a sample


class MembershipPart(ReportPart):
    """Memberships of rows in their own clusters, and the `meaning` of a membership in words."""

    meaning: str
    counts: Annotated[list[Size], Field(min_length=2)]  # histogram from 0 to 1

    def above(self, share: float) -> float:
        """Return the share of rows with a membership of at least `share`.

        `share` must be a limit between two bins of the histogram, such as 0.5.
        """
        first = round(share * len(self.counts))
        return sum(self.counts[first:]) / max(sum(self.counts), 1)


class Spread(ReportPart):
    """The quartiles of a column in a cluster's rows, or in all other rows."""

    lower: Number
    median: Number
    upper: Number
    share: Number  # share of these rows in the range of `ProfileColumn`


class ProfileColumn(ReportPart):
    """A column and the range of its values that sets a cluster apart from all other rows."""

    column: str
    apart: Number  # share of the cluster's sample in the range, minus the share of other rows
    low: Known  # None if the range is open
    high: Known
    inside: Spread  # quartiles of the cluster's rows
    outside: Spread  # quartiles of all other rows
    present: OmitDefault[bool | None] = None  # whether a category is more frequent in the cluster
    unit: OmitDefault[str] = ""  # "date", "time", "clock", "seconds" or ""

    @property
    def width(self) -> float:
        """Distance between the quartiles of the cluster's rows."""
        return self.inside.upper - self.inside.lower

    @property
    def level(self) -> str:
        """The name of the column, with "not" before it if `present` is False."""
        return f"not {self.column}" if self.present is False else self.column


class TypicalRow(ReportPart):
    """A typical row of a cluster, with its values in the columns of the profile."""

    row: Size
    id: OmitDefault[str | None] = None
    values: list[Known]


class ProfilePart(ReportPart):
    """A cluster's profile."""

    label: Label
    rows: Size  # sampled rows of the cluster
    columns: list[ProfileColumn]  # the column that sets the cluster apart best comes first
    typical: list[TypicalRow]


class ColumnPart(ReportPart):
    """A stored column of the table, with its values by cluster."""

    column: str
    kind: str
    scale: OmitDefault[str] = ""  # scale of the values for learners, such as "logarithm, robust"
    reason: OmitDefault[str] = ""  # reason for kind and scale, or for leaving the column out
    feature: OmitDefault[bool] = True
    missing: OmitDefault[Size] = 0  # number of missing values
    explained: OmitDefault[Known] = None  # share of variation that clusters explain, less chance
    levels: OmitDefault[list[str]] = Field(default=[])  # values of a category
    rows: OmitDefault[list[list[Size]]] = Field(default=[])  # rows by cluster (k) and level
    sampled: OmitDefault[bool] = False  # whether `rows` counts only a sample
    quartiles: OmitDefault[list[Quartiles]] = Field(default=[])  # by cluster
    leaning: OmitDefault[list[Number]] = Field(default=[])  # Cliff's delta of each cluster
    absent: OmitDefault[list[Size]] = Field(default=[])  # missing values by cluster
    filled: OmitDefault[Known] = None  # the value that replaces missing values
    gap: OmitDefault[str] = ""  # "missing unless status=left" if a level explains missing values
    unit: OmitDefault[str] = ""  # unit as in `ProfileColumn`

    @property
    def explained_share(self) -> float:
        """The explained share; 0 if it is unknown."""
        return self.explained or 0.0

    @property
    def level_shares(self) -> list[tuple[str, list[tuple[float, float]]]]:
        """The levels to show, each with two numbers for every cluster.

        The first is the level's share of the cluster's rows. The second is this share minus the
        level's share of all other rows. Of two levels, such as yes and no, only one is shown.
        """
        counts = np.array(self.rows, np.float64)
        n_rows = counts.sum(axis=1, keepdims=True)
        shares = counts / np.maximum(n_rows, 1.0)
        others = (counts.sum(axis=0) - counts) / np.maximum(counts.sum() - n_rows, 1.0)
        words = [level.lower() for level in self.levels]
        affirmative = (k for k, word in enumerate(words) if word in ("yes", "true", "y", "1", "t"))
        two = len(words) == 2  # of two levels, one is shown
        pairs = np.stack([shares, shares - others], axis=2).tolist()
        shown = [next(affirmative, 1)] if two else range(len(words))
        return [(self.levels[k], [row[k] for row in pairs]) for k in shown]

    @property
    def median_unit(self) -> float:
        """Unit for differences between clusters' medians: the mean interquartile range.

        If this is 0, the unit is the range of the medians, or else 1.
        """
        quartiles = np.array(self.quartiles, np.float64)
        known = quartiles[~np.isnan(quartiles).any(axis=1)]
        if not len(known):
            return 1.0
        return float(np.mean(known[:, 2] - known[:, 0])) or float(np.ptp(known[:, 1])) or 1.0


class ColumnsPart(ReportPart):
    """Columns of the table, with values for each of k clusters, the largest cluster first."""

    label: list[Label]  # (k)
    size: list[Size]  # (k): number of rows
    sample: Size  # rows from which medians are computed
    columns: list[ColumnPart]
    n_hidden: OmitDefault[Size] = 0  # columns that are not listed

    @property
    def comparable(self) -> list[ColumnPart]:
        """The columns with values by cluster, the most informative first."""
        by_cluster = (one for one in self.columns if one.rows or one.quartiles)
        several = len(self.label) > 1
        return sorted(by_cluster, key=lambda one: -one.explained_share) if several else []


class NamedColumn(ReportPart):
    """A column in a cluster's name, as "high bytes" or "bytes 12 to 40"."""

    column: str
    text: str
    low: OmitDefault[Known] = None  # end of the range in `text`, if there is a range
    high: OmitDefault[Known] = None

    @property
    def has_range(self) -> bool:
        """Whether the name has a range of the column's values."""
        return self.low is not None or self.high is not None


class ProfilesPart(ReportPart):
    """Profiles of clusters in a sample of `rows` rows, the largest cluster first."""

    rows: Size
    clusters: Annotated[list[ProfilePart], Field(min_length=1)]


class RowsPart(ReportPart):
    """Code that selects the rows of a cluster, and the labels of a small table as CSV."""

    query: str  # DuckDB query, or a call of `distsvc.load` if the labels are in Zarr
    held_query: OmitDefault[str] = ""  # query for the files of a candidate
    csv: OmitDefault[str] = ""  # columns id or row, label, score, outlier
