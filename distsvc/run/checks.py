"""What a result has to be before it is published, as the job's ``[checks]`` say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from distsvc.config import ChecksConfig
from distsvc.report.night_parts import CheckPart

DRIFTING = {"max_drift", "max_outlier_share"}
"""Checks that tell whether a model still fits its table."""

USUAL_DRIFT = 0.25
"""Above which a population is said to be another (`models.drift.stability_index`)."""


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


def checked(config: ChecksConfig, found: Found) -> list[CheckPart]:
    """Return how every check of a job turned out."""
    known: dict[str, tuple[float | None, str]] = {
        "min_rows": (found.rows, "rows"),
        "max_outlier_share": (found.outlier_share, "of the rows outside every cluster"),
        "clusters": (found.clusters, "clusters"),
        "max_rows_moved": (found.rows_moved, "of the rows in another cluster than before"),
        "max_drift": (found.drift, f"drift of column {found.drifted!r}"),
        "min_agreement": (found.agreement, "agreement of the models"),
    }
    parts = []
    for name, (value, what) in known.items():
        given = getattr(config, name)
        if given is not None:
            parts.append(_checked(name, given, value, what))
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


def _checked(name: str, given: Any, value: float | None, what: str) -> CheckPart:
    limits = list(given.limit) if name == "clusters" else [given.limit]
    state: Literal["passed", "warned", "failed", "not measured"] = "not measured"
    if value is not None:
        passed = {
            "min": value >= limits[0],
            "max": value <= limits[0],
            "clu": limits[0] <= value <= limits[-1],
        }[name[:3]]
        state = "passed" if passed else "warned" if given.level == "warn" else "failed"
    shown = " to ".join(f"{one:,g}" for one in limits)
    wanted = {"min": f"at least {shown}", "max": f"at most {shown}", "clu": shown}[name[:3]]
    found = "not measured" if value is None else f"{value:,.4g} {what}"
    words = f"{name}: {found}, expected {wanted}"
    return CheckPart(
        name=name, level=given.level, limit=limits, found=value, state=state, words=words
    )
