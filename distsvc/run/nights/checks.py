"""The checks of a result before it is published, as the job's ``[checks]`` ask for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from distsvc.job.config import ChecksConfig
from distsvc.report.content.comparison_parts import CheckPart, DriftPart, LineagePart
from distsvc.run.labelling.phase import Labelled

USUAL_DRIFT = 0.25
"""Above which a population is said to be another (`models.drift.stability_index`)."""

MOST_PLACES = 9
"""Decimal places of a number that is beside its limit."""


@dataclass(frozen=True)
class Measured:
    """A run as checks measure it: its labelled rows, and how it compares with the run before.

    `agreement` is that of the models or trees that voted for the answer, if they did.
    """

    labelled: Labelled
    lineage: LineagePart | None = None
    drift: DriftPart | None = None
    agreement: float | None = None


Value = tuple[str, float | None, str]
"""A number between the words before and after it; None where the run does not measure it."""


@dataclass(frozen=True)
class Check:
    """A check that a job may ask for by the key `name` of ``[checks]``.

    The value has to be ``at least`` or ``at most`` its limit, or between two. It is shown with so
    many decimal `places`, for a `share` of the rows those of its percentage; with more where fewer
    would hide on which side of a limit it is. `tells_drift` is whether it tells if a model still
    fits its table.
    """

    name: str
    side: Literal["at least", "at most", "between"]
    value: Callable[[Measured], Value]
    places: int = 1
    share: bool = False
    tells_drift: bool = False

    def limit(self, limit: float) -> str:
        """Write a limit."""
        return f"{100 * limit:,.10g} %" if self.share else f"{limit:,.10g}"

    def words(self, found: Value, limits: Sequence[float]) -> str:
        """Write a value that is measured, and what it is."""
        (before, value, after), places, scale = found, self.places, 100 if self.share else 1
        if value is None:
            return "not measured"
        near = {round(scale * limit, MOST_PLACES) for limit in limits if limit != value}
        while places < MOST_PLACES and round(scale * value, places) in near:
            places += 1
        unit = "% of the rows " if self.share else ""
        return f"{before} {scale * value:,.{places}f} {unit}{after}".strip()

    def of(self, given: Any, run: Measured) -> CheckPart:
        """Return the outcome of the check, with the limit and level that the job gives."""
        limits = list(given.limit) if self.side == "between" else [given.limit]
        low = -math.inf if self.side == "at most" else limits[0]
        high = math.inf if self.side == "at least" else limits[-1]
        found = self.value(run)
        state: Literal["passed", "warned", "failed", "not measured"] = "not measured"
        if found[1] is not None:
            failed: Literal["warned", "failed"] = "warned" if given.level == "warn" else "failed"
            state = "passed" if low <= found[1] <= high else failed
        shown = " to ".join(dict.fromkeys(map(self.limit, limits)))
        wanted = shown if self.side == "between" else f"{self.side} {shown}"
        words = f"{self.name}: {self.words(found, limits)}, {wanted} expected"
        return CheckPart(
            name=self.name, level=given.level, limit=limits, found=found[1], state=state,
            words=words,
        )  # fmt: skip


def _outliers(run: Measured) -> Value:
    return "", run.labelled.outlier_share, "lie outside every cluster"


def _clusters(run: Measured) -> Value:
    n_clusters = run.labelled.counts.n_clusters
    return "", n_clusters, "cluster" if n_clusters == 1 else "clusters"


def _moved(run: Measured) -> Value:
    return "", run.lineage.moved if run.lineage else None, "have another id than before"


def _ids(run: Measured) -> Value:
    ids = run.labelled.ids
    if ids is None:
        return "", None, ""
    words = f"rows share their id with another{ids.of_part} or have none"
    return "", ids.shared + ids.missing, words


def _drift(run: Measured) -> Value:
    if run.drift is None:
        return "", None, ""
    worst = run.drift.columns[0]
    return f"the population stability index of column {worst.column!r} is", worst.index, ""


CHECKS = (
    Check("min_rows", "at least", lambda run: ("", run.labelled.counts.n_rows, "rows"), places=0),
    Check("max_outlier_share", "at most", _outliers, share=True, tells_drift=True),
    Check("clusters", "between", _clusters, places=0),
    Check("max_rows_moved", "at most", _moved, share=True),
    Check("max_drift", "at most", _drift, places=3, tells_drift=True),
    Check(
        "min_agreement",
        "at least",
        lambda run: ("the agreement of the models is", run.agreement, ""),
        places=2,
    ),
    Check("unique_id", "at most", _ids, places=0),
)
"""All checks, in the order of manifest and report."""


def checked(config: ChecksConfig, run: Measured) -> list[CheckPart]:
    """Return the outcome of every check of a job."""
    given = ((check, getattr(config, check.name)) for check in CHECKS)
    return [check.of(limit, run) for check, limit in given if limit is not None]


def reasons_to_refit(config: ChecksConfig, run: Measured) -> list[str]:
    """Return the limits on drift that are passed, in words; without any given, the usual one."""
    names = {check.name for check in CHECKS if check.tells_drift}
    if all(getattr(config, name) is None for name in names):
        config = ChecksConfig.model_validate({"max_drift": USUAL_DRIFT})
    parts = [part for part in checked(config, run) if part.name in names]
    return [part.words for part in parts if part.state in ("failed", "warned")]
