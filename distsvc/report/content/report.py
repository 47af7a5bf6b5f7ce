"""The whole of ``report.json``, as a frozen model that is written and read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, PrivateAttr, model_validator

from distsvc.errors.forms import parsed
from distsvc.report.content.comparison_parts import (
    CheckPart,
    DriftPart,
    LineagePart,
    ReferencePart,
)
from distsvc.report.content.explained_parts import (
    ColumnsPart,
    MembershipPart,
    ProfilesPart,
    ReasonsPart,
    RowsPart,
)
from distsvc.report.content.model_parts import (
    LEAF,
    SPLIT,
    ChoicePart,
    DomainPart,
    LevelsPart,
    TreePart,
)
from distsvc.report.content.parts import (
    Cost,
    Known,
    Label,
    Number,
    ReportPart,
    Size,
    Unsaid,
    check_lengths,
    relabelled,
)

MOST_BINS, MOST_POINTS, MOST_PHASES = 10_000, 200_000, 10_000
"""More than that is never written."""


Drawn = Annotated[float, Field(ge=-1e150, le=1e150)]
"""A number on an axis; of larger ones the differences would be infinite."""


class InputPart(ReportPart):
    """The table: its path or paths, rows used and read, and the columns that were clustered.

    Of a table with a log, `state` is the version or snapshot that was read. `left_out` says why
    other columns were not used. `missing` are the missing values of the columns that have some.
    """

    path: str | Annotated[list[str], Field(min_length=2)]
    format: str
    n_rows: Size
    n_rows_read: Size
    n_features: Size
    columns: list[str]
    state: Unsaid[str] = ""
    left_out: Unsaid[dict[str, str]] = Field(default={})
    missing: Unsaid[dict[str, Size]] = Field(default={})

    @property
    def shown_path(self) -> str:
        """The path; of several the first one."""
        if isinstance(self.path, str):
            return self.path
        return f"{self.path[0]} and {len(self.path) - 1} more"


class ModelPart(ReportPart):
    """The algorithm, its parameters, and the numbers that the fit arrived at."""

    algorithm: str
    parameters: dict[str, JsonValue]
    fitted: dict[str, JsonValue]


class ClusterRow(ReportPart):
    """One cluster: its rows, their share of all, and how many of them lie outside."""

    label: Label
    rows: Size
    share: Number
    outliers: Size = 0

    @model_validator(mode="after")
    def _not_more_outliers_than_rows(self) -> Self:
        if self.outliers > self.rows:
            raise ValueError(f"expected {self.rows} outliers at most, found {self.outliers}")
        return self


class OutlierPart(ReportPart):
    """The rows outside, and what that means.

    `defined` is whether rows inside are told from rows outside at all, `only` whether nothing
    else is told of rows, as there are no clusters. `meaning` is a paragraph on what the score
    is; nothing where it is the decision value f(x).
    """

    rows: Size
    share: Number
    defined: Unsaid[bool] = True
    only: Unsaid[bool] = False
    meaning: Unsaid[str] = ""


class ScoreHistogram(ReportPart):
    """A histogram of the scores: the counts of rows between each edge and the next.

    Without counts there is nothing to draw. `heading` is that of the page's section, `title`
    what stands below the axis, nothing for decision values. `boundary` is the score that
    divides rows inside from rows outside, if any does.
    """

    edges: Annotated[list[Drawn], Field(max_length=MOST_BINS + 1)]
    counts: Annotated[list[Size], Field(max_length=MOST_BINS)]
    heading: Unsaid[str] = "Inside or outside"
    title: Unsaid[str] = ""
    boundary: Unsaid[Number | None] = 0.0

    @model_validator(mode="after")
    def _bins(self) -> Self:
        if self.counts and len(self.edges) != len(self.counts) + 1:
            raise ValueError(
                f"expected {len(self.counts) + 1} edges of {len(self.counts)} counts, found "
                f"{len(self.edges)}"
            )
        if any(after < before for before, after in pairwise(self.edges)):
            raise ValueError("expected rising edges, found falling ones")
        return self


class Sample(ReportPart):
    """Rows in a plane; `label`, `outlier`, `x` and `y` have one entry each.

    Its kind is ``columns`` (two of them), ``single`` (a column, and the score upwards),
    ``clusters`` (directions in which the clusters lie apart) or ``pca``, then with the shares of
    variance that the two components have (`explained`). `axes` are the names of x and y, and
    `beyond` counts rows outside that lie too far out to be drawn.
    """

    kind: Literal["columns", "single", "pca", "clusters"]
    axes: Annotated[list[str], Field(min_length=2, max_length=2)]
    explained: Unsaid[Annotated[list[Number], Field(min_length=2, max_length=2)] | None] = None
    beyond: Unsaid[Size] = 0
    label: list[Label]
    outlier: list[bool]
    x: Annotated[list[Number], Field(max_length=MOST_POINTS)]
    y: list[Number]

    @model_validator(mode="after")
    def _rows(self) -> Self:
        check_lengths(self.label, self.outlier, self.x, self.y)
        return self


class IndexValue(ReportPart):
    """A validity index: None where it is not defined; its standard error where it is sampled."""

    value: Known
    rows: Size | None = None
    error: Unsaid[Known] = None


class PhaseCost(ReportPart):
    """The costs of a phase: seconds, rows, and peak memory in MB, each None if unknown."""

    name: str
    seconds: Cost
    rows: Size | None
    driver_peak_mb: Cost | None
    worker_peak_mb: Cost | None


class TermPart(ReportPart):
    """A term of a forecast of memory: what it is for, and MB."""

    name: str
    mb: Cost


class ForecastPart(ReportPart):
    """The memory that was forecast before anything was read, as sums of terms.

    `worker` is that of each worker; it has no terms where there were none.
    """

    driver: list[TermPart]
    worker: list[TermPart]


class Report(ReportPart):
    """The whole of ``report.json``; parts that only some models have may be None.

    `names` are those that the job gives to clusters, by their ids as text. `doubts` are reasons to
    doubt the clusters, as ends of sentences, the strongest first.
    """

    title: str
    distsvc_version: str
    command: str
    job_file: str
    finished: str
    input: InputPart
    model: ModelPart
    clusters: list[ClusterRow]
    names: Unsaid[dict[str, str]] = Field(default={})
    outliers: OutlierPart
    score_histogram: ScoreHistogram
    warnings: list[str]
    doubts: Unsaid[list[str]] = Field(default=[])
    sample: Sample
    picture: Unsaid[DomainPart | None] = None
    tree: Unsaid[TreePart | None] = None
    levels: Unsaid[LevelsPart | None] = None
    choice: Unsaid[ChoicePart | None] = None
    reasons: Unsaid[ReasonsPart | None] = None
    profiles: Unsaid[ProfilesPart | None] = None
    columns: Unsaid[ColumnsPart | None] = None
    membership: Unsaid[MembershipPart | None] = None
    rows: Unsaid[RowsPart | None] = None
    indices: Unsaid[dict[str, IndexValue] | None] = None
    forecast: Unsaid[ForecastPart | None] = None
    lineage: Unsaid[LineagePart | None] = None
    drift: Unsaid[DriftPart | None] = None
    reference: Unsaid[ReferencePart | None] = None
    checks: list[CheckPart] = Field(default_factory=list)
    held: Unsaid[bool] = False
    publish_command: Unsaid[str | None] = None
    phases: Annotated[list[PhaseCost], Field(max_length=MOST_PHASES)]
    _was_there: bool = PrivateAttr(default=False)

    def __repr__(self) -> str:
        k, n = len(self.clusters), self.input.n_rows
        clusters = "" if self.outliers.only else f"{k:,} cluster{'s' * (k != 1)} in "
        return f"<distsvc report: {clusters}{n:,} rows>"

    __str__ = __repr__

    def of_before(self) -> Self:
        """Return the report of a result that was published before, and not made now."""
        found = self.model_copy()
        found._was_there = True
        return found

    @property
    def was_there(self) -> bool:
        """Whether the result was published before the run that was asked for it."""
        return self._was_there

    def with_phases(self, phases: Sequence[PhaseCost]) -> Self:
        """Return the report with what each phase took."""
        return self.model_copy(update={"phases": list(phases)})

    def with_ids(self, ids: Sequence[int]) -> Self:
        """Return the report with the clusters' ids in place of their labels."""
        return relabelled(self, ids)

    @property
    def failed(self) -> list[CheckPart]:
        """The checks that hold the run back."""
        return [check for check in self.checks if check.state == "failed"]

    def dumped(self) -> dict[str, JsonValue]:
        """Return the content of ``report.json``."""
        return self.model_dump()

    @classmethod
    def parsed(cls, content: object, name: str) -> Self:
        """Return the report that JSON holds.

        Raises `DataError` for other content: it names the file `name` and the first field
        that is wrong.
        """
        return parsed(cls, content, name, "the report", (SPLIT, LEAF))
