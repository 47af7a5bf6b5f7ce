"""What a result has to be before it is published, as the job's ``[checks]`` say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from distsvc.job.config import ChecksConfig
from distsvc.report.content.night_parts import CheckPart

DRIFTING = {"max_drift", "max_outlier_share"}
"""Checks that tell whether a model still fits its table."""

USUAL_DRIFT = 0.25
"""Above which a population is said to be another (`models.drift.stability_index`)."""

OF_ROWS = "% of the rows"

MOST_PLACES = 9
"""Decimal places of a number that is beside its limit."""


@dataclass(frozen=True)
class Found:
    """What the checks look at; None for what a run does not measure.

    Attributes
    ----------
    rows, clusters : int
    outlier_share, rows_moved : float or None
    drift : float or None
        The largest of any column.
    drifted : str
        That column.
    agreement : float or None
        How far the models, or trees, agree on the answer.

    """

    rows: int
    clusters: int
    outlier_share: float | None
    rows_moved: float | None
    drift: float | None
    drifted: str
    agreement: float | None


@dataclass(frozen=True)
class Measure:
    """How a number that a check looks at is written.

    Attributes
    ----------
    before, after : str
        What stands on either side of the number; that of a share begins with `OF_ROWS`.
    places : int
        Decimal places, of a share those of its percentage; more where fewer would hide on which
        side of a limit the number is.

    """

    before: str = ""
    after: str = ""
    places: int = 1

    @property
    def share(self) -> bool:
        """Whether it is a share of the rows."""
        return self.after.startswith(OF_ROWS)

    def limit(self, limit: float) -> str:
        """Write a limit."""
        return f"{100 * limit:,.10g} %" if self.share else f"{limit:,.10g}"

    def found(self, value: float, limits: Sequence[float]) -> str:
        """Write what was found, and what it is."""
        scale, places = 100 if self.share else 1, self.places
        near = {round(scale * limit, MOST_PLACES) for limit in limits if limit != value}
        while places < MOST_PLACES and round(scale * value, places) in near:
            places += 1
        return f"{self.before} {scale * value:,.{places}f} {self.after}".strip()


def checked(config: ChecksConfig, found: Found) -> list[CheckPart]:
    """Return how every check of a job turned out."""
    clusters = "cluster" if found.clusters == 1 else "clusters"
    index = f"the population stability index of column {found.drifted!r} is"
    known: dict[str, tuple[float | None, Measure]] = {
        "min_rows": (found.rows, Measure(after="rows", places=0)),
        "max_outlier_share": (
            found.outlier_share,
            Measure(after=f"{OF_ROWS} lie outside every cluster"),
        ),
        "clusters": (found.clusters, Measure(after=clusters, places=0)),
        "max_rows_moved": (
            found.rows_moved,
            Measure(after=f"{OF_ROWS} have another id than before"),
        ),
        "max_drift": (found.drift, Measure(index, places=3)),
        "min_agreement": (found.agreement, Measure("the agreement of the models is", places=2)),
    }
    parts = []
    for name, (value, measure) in known.items():
        given = getattr(config, name)
        if given is not None:
            parts.append(_checked(name, given, value, measure))
    return parts


def failures(checks: list[CheckPart]) -> list[CheckPart]:
    """Return the checks that hold a run back."""
    return [check for check in checks if check.state == "failed"]


def reasons_to_refit(config: ChecksConfig, found: Found) -> list[str]:
    """Return the limits on drift that are passed, in words; without any given, the usual one."""
    given = {name: getattr(config, name) for name in DRIFTING if getattr(config, name) is not None}
    if not given:
        config = ChecksConfig.model_validate({"max_drift": USUAL_DRIFT})
    parts = [part for part in checked(config, found) if part.name in DRIFTING]
    return [part.words for part in parts if part.state in ("failed", "warned")]


def _checked(name: str, given: Any, value: float | None, measure: Measure) -> CheckPart:
    limits = list(given.limit) if name == "clusters" else [given.limit]
    state: Literal["passed", "warned", "failed", "not measured"] = "not measured"
    if value is not None:
        passed = {
            "min": value >= limits[0],
            "max": value <= limits[0],
            "clu": limits[0] <= value <= limits[-1],
        }[name[:3]]
        state = "passed" if passed else "warned" if given.level == "warn" else "failed"
    shown = " to ".join(dict.fromkeys(map(measure.limit, limits)))
    wanted = {"min": f"at least {shown}", "max": f"at most {shown}", "clu": shown}[name[:3]]
    found = "not measured" if value is None else measure.found(value, limits)
    words = f"{name}: {found}, {wanted} expected"
    return CheckPart(
        name=name, level=given.level, limit=limits, found=value, state=state, words=words
    )
