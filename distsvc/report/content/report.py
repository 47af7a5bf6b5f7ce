"""The whole of ``report.json``, as a frozen model."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue

from distsvc.errors import things
from distsvc.errors.forms import parsed
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import ChoicePart, DomainPart, LevelsPart, TreePart
from distsvc.report.content.parts import (
    CheckPart,
    ColumnsPart,
    Cost,
    DriftPart,
    Known,
    Label,
    LineagePart,
    MembershipPart,
    NamedColumn,
    Number,
    OmitDefault,
    ProfilePart,
    ProfilesPart,
    ReasonsPart,
    ReferencePart,
    ReportPart,
    RowsPart,
    Size,
)

PHASES = {
    "open": "Open the table",
    "cluster": "Connect to workers",
    "survey": "Read the table",
    "survey-again": "Read the table without extreme rows",
    "sample": "Draw the sample",
    "gather": "Gather the sample",
    "prepare": "Prepare rows",
    "scale": "Measure the columns of the sample",
    "learn": "Train models",
    "learn-graph": "Train models of the graph",
    "learn-graph-others": "Train more models of the graph",
    "views": "Project the table for the models",
    "gather-views": "Gather the projected table",
    "vote": "Vote on the clusters",
    "graph": "Find near rows of the sample",
    "choose": "Choose the answer",
    "train": "Train the model",
    "descend": "Solve the linear model",
    "prune": "Prune the tree",
    "boundary": "Find the boundary",
    "climb": "Climb to equilibria",
    "equilibria": "Gather equilibria",
    "segments": "Test segments",
    "clusters": "Join equilibria",
    "label": "Label the rows",
    "assign": "Label the rows with the earlier model",
    "fill": "Write the arrays of labels",
    "match-ids": "Read the ids of some rows",
    "match": "Match clusters with the earlier run",
    "moves": "List the ids that moved",
    "report": "Draw the page",
    "publish": "Publish",
}
"""Titles of phases; other phases, such as ``pass-03``, are shown by their names."""


def phase_title(name: str) -> str:
    """Return the title of a phase, or the phase's name if it has no title."""
    return PHASES.get(name, name)


class InputPart(ReportPart):
    """The table: its path or paths, and its rows and columns."""

    path: str | Annotated[list[str], Field(min_length=2)]
    format: str
    n_rows: Size  # rows that were used
    n_rows_read: Size  # rows of the table
    n_features: Size
    columns: list[str]
    state: OmitDefault[str] = ""  # version or snapshot of a table of a lake
    id: OmitDefault[str | None] = None  # column of ids
    left_out: OmitDefault[dict[str, str]] = Field(default={})  # reason by column
    missing: OmitDefault[dict[str, Size]] = Field(default={})  # missing values by column

    @property
    def shown_path(self) -> str:
        """Text for the path, or for several paths, such as "day-01.csv and 6 more"."""
        if isinstance(self.path, str):
            return self.path
        return f"{self.path[0]} and {len(self.path) - 1} more"


class ModelPart(ReportPart):
    """The algorithm of the run, its parameters, and facts about the fit, such as `n_clusters`."""

    algorithm: str
    parameters: dict[str, JsonValue]
    fitted: dict[str, JsonValue]


class ClusterRow(ReportPart):
    """A cluster: its number of rows, their share of all rows, and its number of outliers."""

    label: Label
    rows: Size
    share: Number
    outliers: Size = 0

    @property
    def is_outside(self) -> bool:
        """Whether most rows of the cluster are outliers."""
        return 2 * self.outliers > self.rows


class OutlierPart(ReportPart):
    """The number of outliers, their share of all rows, and the meaning of scores."""

    rows: Size
    share: Number
    defined: OmitDefault[bool] = True  # whether the model detects outliers
    only: OmitDefault[bool] = False  # whether the model has no clusters
    meaning: OmitDefault[str] = ""  # meaning of the score; empty for f(x)


class ScoreHistogram(ReportPart):
    """A histogram of the rows' scores; the page omits it if `counts` is empty."""

    # Differences of larger numbers could overflow.
    edges: list[Annotated[float, Field(ge=-1e150, le=1e150)]]
    counts: list[Size]
    heading: OmitDefault[str] = "Inside or outside"  # heading of the page's section
    title: OmitDefault[str] = ""  # title of the axis; empty for f(x)
    boundary: OmitDefault[Number | None] = 0.0  # rows with lower scores are outliers


class Sample(ReportPart):
    """The rows that the page draws as points in two dimensions."""

    kind: Literal["columns", "single", "pca", "clusters"]  # see `explaining.plane`
    axes: Annotated[list[str], Field(min_length=2, max_length=2)]
    explained: OmitDefault[Annotated[list[Number], Field(min_length=2, max_length=2)] | None] = None
    beyond: OmitDefault[Size] = 0  # outliers too far out to be drawn
    filled: OmitDefault[Size] = 0  # drawn rows with a missing value
    label: list[Label]
    outlier: list[bool]
    x: list[Number]
    y: list[Number]


class IndexValue(ReportPart):
    """A validity index."""

    value: Known  # None if the index is not defined
    rows: Size | None = None  # rows from which the index was computed


class PhaseCost(ReportPart):
    """The costs of a phase: its duration, its rows, and peak memory in MB; None if unknown."""

    name: str
    seconds: Cost
    compile_seconds: OmitDefault[Cost] = 0.0  # part of `seconds`
    rows: Size | None
    driver_peak_mb: Cost | None
    worker_peak_mb: Cost | None


class TermPart(ReportPart):
    """A term of a forecast of memory, in MB."""

    name: str
    mb: Cost


class ForecastPart(ReportPart):
    """The memory forecast of the driver and of each worker, as sums of terms."""

    driver: list[TermPart]
    worker: list[TermPart]


class Report(ReportPart):
    """The whole of ``report.json``; parts that only some models have may be None."""

    title: str
    distsvc_version: str
    command: str
    job_file: str
    finished: str
    input: InputPart
    model: ModelPart
    clusters: list[ClusterRow]
    names: OmitDefault[dict[str, str]] = Field(default={})  # names in the job, by cluster id
    # Columns in the names of the previous run's clusters, by id.
    earlier_names: OmitDefault[dict[str, list[NamedColumn]]] = Field(default={})
    outliers: OutlierPart
    score_histogram: ScoreHistogram
    warnings: list[str]
    doubts: OmitDefault[list[str]] = Field(default=[])  # ends of sentences, the strongest first
    sample: Sample
    picture: OmitDefault[DomainPart | None] = None
    tree: OmitDefault[TreePart | None] = None
    levels: OmitDefault[LevelsPart | None] = None
    choice: OmitDefault[ChoicePart | None] = None
    reasons: OmitDefault[ReasonsPart | None] = None
    profiles: OmitDefault[ProfilesPart | None] = None
    columns: OmitDefault[ColumnsPart | None] = None
    membership: OmitDefault[MembershipPart | None] = None
    rows: OmitDefault[RowsPart | None] = None
    indices: OmitDefault[dict[str, IndexValue] | None] = None
    forecast: OmitDefault[ForecastPart | None] = None
    lineage: OmitDefault[LineagePart | None] = None
    drift: OmitDefault[DriftPart | None] = None
    reference: OmitDefault[ReferencePart | None] = None
    checks: list[CheckPart] = Field(default=[])
    held: OmitDefault[bool] = False
    publish_command: OmitDefault[str | None] = None
    phases: list[PhaseCost]
    was_there: bool = Field(default=False, exclude=True)  # an earlier run published the result
    was_renamed: bool = Field(default=False, exclude=True)  # this run changed the result's names

    def __repr__(self) -> str:
        clusters = "" if self.outliers.only else f"{things(len(self.clusters), 'cluster')} in "
        return f"<distsvc report: {clusters}{self.input.n_rows:,} rows>"

    __str__ = __repr__

    def with_phases(self, phases: Sequence[PhaseCost]) -> Self:
        """Return the report with the costs of phases."""
        return self.model_copy(update={"phases": list(phases)})

    @property
    def cards(self) -> list[ProfilePart]:
        """The profiles of clusters that the page shows as cards, the largest cluster first."""
        place = {row.label: i for i, row in enumerate(self.clusters)}
        found = self.profiles.clusters if self.profiles else []
        ordered = sorted(found, key=lambda one: place.get(one.label, len(place)))
        return ordered[: PAGE_LIMITS.clusters]

    @property
    def failed(self) -> list[CheckPart]:
        """The checks that hold the run back."""
        return [check for check in self.checks if check.state == "failed"]

    @classmethod
    def parsed(cls, content: object, name: str) -> Self:
        """Return the report from the decoded JSON of a file; `DataError` if it is not a report."""
        return parsed(cls, content, name, "the report", ("SplitNode", "LeafNode"))
