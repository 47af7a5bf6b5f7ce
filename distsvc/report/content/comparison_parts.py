"""The parts of a report that compare a run with the one before."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

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

State = Literal["passed", "warned", "failed", "not measured"]


Side = Literal["at least", "at most", "between"]
Limits = Annotated[list[float], Field(min_length=1, max_length=2)]


class CheckPart(ReportPart):
    """The outcome of a check: the value found, the limit, and both in words.

    The value is to lie on a `side` of the limit, or between two; beyond `warn`, if there is such a
    limit, is a warning.
    """

    name: str
    level: Literal["error", "warn"]
    side: Side | None = None
    limit: Limits
    warn: Limits | None = None
    found: Known
    state: State
    words: str

    def told(self) -> dict[str, object]:
        """Return what an event tells of it."""
        told = {"check": self.name, "state": self.state, "level": self.level}
        return told | {"found": self.found, "limit": self.limit}


class StoryPart(ReportPart):
    """The end of a cluster, or its origin (`distsvc.models.nights.continuity.ClusterEvent`).

    `rows_before` are its rows in the table of the previous run, `rows_after` those in this table.
    """

    id: Label
    event: Literal["survived", "split", "absorbed", "appeared", "disappeared", "returned"]
    jaccard: Number
    rows_before: Size
    rows_after: Size
    others: list[Label]

    @property
    def is_new(self) -> bool:
        """Whether its id was given now, for the first time."""
        return self.event == "appeared" or (self.event == "split" and self.rows_after > 0)

    @property
    def has_ended(self) -> bool:
        """Whether its id was that of a cluster before, and is no more."""
        return self.event not in ("survived", "returned") and not self.is_new


class Moves(ReportPart):
    """Rows by their ids before and now: an entry for every two clusters that share some."""

    before: list[Label]
    after: list[Label]
    rows: list[Size]

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        check_lengths(self.before, self.after, self.rows)
        return self


class LineagePart(ReportPart):
    """The clusters beside those of the run before.

    `path` and `run_id` are of the run before, None where none was published; `not_published` is
    the run that should have been it. By mode ``assign`` its model labelled the rows, by
    ``refit`` a new one was learned, although the old one might have done: `because` says why.
    `followed` is whether its clusters are those of the run before, since no others were clearly
    better; None where that was not asked. Of the `rows` that both models labelled, `moved` is the
    share whose id is another now; None where there is one model. `next_id` is above every id that
    was ever given.
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
    """A column: population stability index, and share of missing values before and now.

    `factor` is the one by which all values grew, as in another unit; None for other columns.
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
    """The distance of the table from that of a run that stays the same, the reference.

    The column that drifted most comes first. `run_date` is the day of that run.
    """

    path: str
    run_id: str
    run_date: str
    columns: list[ColumnDrift]


class DriftPart(ReportPart):
    """The distance of the table from the one that the model before was learned from.

    The column that drifted most comes first. `score` is the population stability index of the
    scores that the model before gives to `score_rows` rows.
    """

    columns: list[ColumnDrift]
    score: Known
    score_rows: Size
    outlier_share_before: Known
    outlier_share_after: Known
