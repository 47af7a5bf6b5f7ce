"""What ``report.json`` holds, as a frozen model that is written and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue

from distsvc.forms import parsed
from distsvc.report.model_parts import (
    LEAF,
    SPLIT,
    DomainPart,
    LevelsPart,
    ReasonsPart,
    TreePart,
)
from distsvc.report.part import Known, Part


class InputPart(Part):
    """The table: rows used and read, and the columns that were clustered."""

    path: str
    format: str
    n_rows: int
    n_rows_read: int
    n_features: int
    columns: list[str]


class ModelPart(Part):
    """The algorithm, its parameters, and the numbers that the fit arrived at."""

    algorithm: str
    parameters: dict[str, JsonValue]
    fitted: dict[str, JsonValue]


class ClusterRow(Part):
    """One cluster: its rows, their share of all, and how many of them lie outside."""

    label: int
    rows: int
    share: float
    outliers: int = 0


class OutlierPart(Part):
    """The rows outside, and what that means.

    Attributes
    ----------
    rows, share : int, float
    defined : bool
        Whether rows inside are told from rows outside at all.
    meaning : str
        A paragraph; nothing for what the page says of decision values.

    """

    unsaid = ("defined", "meaning")
    rows: int
    share: float
    defined: bool = True
    meaning: str = ""


class ScoreHistogram(Part):
    """How the scores are spread.

    Attributes
    ----------
    edges, counts : list
        The rows between each edge and the next; no counts where there is nothing to draw.
    heading : str
        Of the page's section.
    title : str
        What stands below the axis; nothing for what it says of decision values.
    boundary : float or None
        The score that divides rows inside from rows outside, if any does.

    """

    unsaid = ("heading", "title", "boundary")
    edges: list[float]
    counts: list[int]
    heading: str = "Inside or outside"
    title: str = ""
    boundary: float | None = 0.0


class Sample(Part):
    """Rows in a plane; `label`, `outlier`, `x` and `y` have one entry each.

    Attributes
    ----------
    kind : str
        ``columns`` (two of them), ``single`` (a column, and the score upwards) or ``pca``.
    axes : list of str
        The names of x and y.
    explained : list of float or None
        The shares of variance that the two components have.
    beyond : int
        Rows outside that lie too far out to be drawn.

    """

    unsaid = ("explained", "beyond")
    kind: Literal["columns", "single", "pca"]
    axes: Annotated[list[str], Field(min_length=2, max_length=2)]
    explained: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    beyond: int = 0
    label: list[int]
    outlier: list[bool]
    x: list[float]
    y: list[float]


class IndexValue(Part):
    """A validity index: None where it is not defined; its standard error where it is sampled."""

    unsaid = ("error",)
    value: Known
    rows: int | None = None
    error: Known = None


class PhaseCost(Part):
    """What a phase took: seconds, rows, and peak memory in MB, each None where it is not known."""

    name: str
    seconds: float
    rows: int | None
    driver_peak_mb: Known
    worker_peak_mb: Known


class Report(Part):
    """The whole of ``report.json``; the parts that may be None say what only some models have."""

    unsaid = ("picture", "tree", "levels", "reasons", "indices")
    title: str
    distsvc_version: str
    command: str
    job_file: str
    finished: str
    input: InputPart
    model: ModelPart
    clusters: list[ClusterRow]
    outliers: OutlierPart
    score_histogram: ScoreHistogram
    warnings: list[str]
    sample: Sample
    picture: DomainPart | None = None
    tree: TreePart | None = None
    levels: LevelsPart | None = None
    reasons: ReasonsPart | None = None
    indices: dict[str, IndexValue] | None = None
    phases: list[PhaseCost]

    def with_phases(self, phases: Sequence[PhaseCost]) -> Self:
        """Return the report with what each phase took."""
        return self.model_copy(update={"phases": list(phases)})

    def dumped(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return self.model_dump()

    @classmethod
    def parsed(cls, content: object, name: str) -> Self:
        """Return the report that JSON holds.

        Raises
        ------
        DataError
            The content is not that of a report: says so of the file `name`, and names the first
            field that is wrong.

        """
        return parsed(cls, content, name, "the report", (SPLIT, LEAF))
