"""The parts of a report that compare a run with the previous one."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from distsvc.report.content.parts import (
    Known,
    Label,
    Number,
    ReportPart,
    Size,
    Unsaid,
)

State = Literal["passed", "warned", "failed", "not measured"]
Side = Literal["at least", "at most", "between"]
Limits = Annotated[list[float], Field(min_length=1, max_length=2)]


class CheckPart(ReportPart):
    """The outcome of a check: the value found, the limit, and both in words.

    A value beyond `warn` is a warning.
    """

    name: str
    level: Literal["error", "warn"]
    side: Side | None = None
    limit: Limits
    warn: Limits | None = None
    found: Known
    state: State
    words: str

    @property
    def sentence(self) -> str:
        """The words without the name of the check."""
        return self.words.removeprefix(f"{self.name}: ")

    def told(self) -> dict[str, object]:
        """Return the fields of an event."""
        fields = {"check": self.name, "state": self.state, "level": self.level}
        return fields | {"found": self.found, "limit": self.limit}


class StoryPart(ReportPart):
    """The end of a cluster, or its origin (`distsvc.models.nights.continuity.ClusterEvent`).

    `rows_before` and `rows_after` are its numbers of rows in the previous table and in this table.
    """

    id: Label
    event: Literal["survived", "split", "absorbed", "appeared", "disappeared", "returned"]
    jaccard: Number
    rows_before: Size
    rows_after: Size
    others: list[Label]

    @property
    def is_new(self) -> bool:
        """Whether its id is used for the first time."""
        return self.event == "appeared" or (self.event == "split" and self.rows_after > 0)

    @property
    def has_ended(self) -> bool:
        """Whether no cluster of this run has this id."""
        return self.event not in ("survived", "returned") and not self.is_new


class Moves(ReportPart):
    """Counts of rows by earlier and present id, for all pairs of clusters that share rows."""

    _equally_long = ("before", "after", "rows")
    before: list[Label]
    after: list[Label]
    rows: list[Size]


class LineagePart(ReportPart):
    """Comparison of this run's clusters with the previous run.

    Attributes
    ----------
    path, run_id : str or None
        The previous run, if any.
    mode : {"refit", "assign"}
        Whether a new model was learned, or the previous one labelled the rows.
    because : list of str
        Reasons for a new model where the previous one was tried first.
    not_published : str or None
        The output that should have been the previous run.
    rows : int
        Rows that both models labelled.
    moved : float or None
        Share of `rows` with another id now; None if there is one model.
    followed : bool or None
        Whether the previous clusters were kept because no answer was clearly better.
    next_id : int
        Lower bound of all ids that are still free.
    clusters : list of StoryPart
    moves : Moves or None

    """

    path: str | None
    run_id: str | None
    mode: Literal["refit", "assign"]
    because: list[str] = Field(default_factory=list)
    not_published: str | None = None
    rows: Size
    moved: Known
    followed: bool | None = None
    next_id: Size
    clusters: list[StoryPart]
    moves: Moves | None = None


class ColumnDrift(ReportPart):
    """Drift of a column: population stability index, and shares of missing values.

    `factor` is the ratio of the values to the previous ones if their unit changed.
    """

    column: str
    index: Number
    missing_before: Number
    missing_after: Number
    factor: Unsaid[Known] = None

    @property
    def times(self) -> str:
        """The factor in words, such as ``about 100 times`` or ``about 1/1,000 of``."""
        factor = self.factor or 1.0
        inverse = factor < 1.0
        size = 1.0 / factor if inverse else factor
        power = 10.0 ** round(math.log10(size))
        rounded = power if 0.9 <= size / power <= 1.1 else float(f"{size:.2g}")
        return f"about 1/{rounded:,.10g} of" if inverse else f"about {rounded:,.10g} times"


class ReferencePart(ReportPart):
    """Drift from the table of a fixed reference run; the column that drifted most comes first."""

    path: str
    run_id: str
    run_date: str
    columns: list[ColumnDrift]


class DriftPart(ReportPart):
    """Drift from the table of the previous model; the column that drifted most comes first.

    `score` is the population stability index of the previous model's scores of `score_rows` rows.
    """

    columns: list[ColumnDrift]
    score: Known
    score_rows: Size
    outlier_share_before: Known
    outlier_share_after: Known
