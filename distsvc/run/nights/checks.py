"""The checks of a result before it is published, as the job's ``[checks]`` ask for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from distsvc.job.config import GUARDS, ChecksConfig
from distsvc.report.content.comparison_parts import (
    CheckPart,
    ColumnDrift,
    DriftPart,
    LineagePart,
    ReferencePart,
    Side,
)
from distsvc.run.labelling.labeller import OWN
from distsvc.run.labelling.phase import Labelled
from distsvc.storage.rows.columns import truncated

USUAL_DRIFT = 0.25
"""Above which a population is said to be another (`models.drift.stability_index`)."""

MOST_PLACES = 9
"""Decimal places of a number that is beside its limit."""


@dataclass(frozen=True)
class Measured:
    """A run as checks measure it: its labelled rows, and how it compares with the run before.

    `agreement` is how likely the answer holds, or how far trees agree, where several were learned.
    `dropped` is the share of the rows that were left out since they lack a value, None where no
    rows are, or it is not known. `rows_before` are those of earlier nights, the last one first.
    `new_columns` are those that the model before lacks, None where there is no such model.
    """

    labelled: Labelled
    lineage: LineagePart | None = None
    drift: DriftPart | None = None
    agreement: float | None = None
    dropped: float | None = None
    rows_before: Sequence[int] = ()
    reference: ReferencePart | None = None
    new_columns: Sequence[str] | None = None


Value = tuple[str, float | None, str]
"""A number between the words before and after it; None where the run does not measure it."""


@dataclass(frozen=True)
class Check:
    """A check that a job may ask for by the key `name` of ``[checks]``.

    The value has to be ``at least`` or ``at most`` its limit, or between two. It is shown with so
    many decimal `places`, for a `share` those of its percentage, which is `of` something; with
    more where fewer would hide on which side of a limit it is. `tells_drift` is whether it tells
    if a model still fits its table.
    """

    name: str
    side: Side
    value: Callable[[Measured, Any], Value]
    places: int = 1
    share: bool = False
    of: str = "of the rows "
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
        unit = f"% {self.of}" if self.share else ""
        return f"{before} {scale * value:,.{places}f} {unit}{after}".strip()

    def holds(self, value: float, limits: Sequence[float]) -> bool:
        """Return whether a value lies on the right side of a limit, or between two."""
        low = -math.inf if self.side == "at most" else limits[0]
        high = math.inf if self.side == "at least" else limits[-1]
        return low <= value <= high

    def outcome(self, given: Any, run: Measured, usual: bool = False) -> CheckPart:
        """Return the outcome of the check, with the limits and level that the job gives.

        `usual` is whether the job did not ask for it.
        """
        limits, warn = (_several(one) for one in (given.limit, given.warn))
        found = self.value(run, given)
        state: Literal["passed", "warned", "failed", "not measured"] = "not measured"
        decisive = limits
        if found[1] is not None:
            state = "passed"
            if not self.holds(found[1], limits):
                state = "warned" if given.level == "warn" else "failed"
            elif warn:
                decisive = warn
                state = "passed" if self.holds(found[1], warn) else "warned"
        shown = " to ".join(dict.fromkeys(map(self.limit, decisive)))
        wanted = shown if self.side == "between" else f"{self.side} {shown}"
        wanted = "0" if wanted == "at most 0" else wanted
        words = f"{self.name}: {self.words(found, decisive)}, {wanted} expected"
        if usual and state in ("warned", "failed"):
            words += f"; this check is on by default, [checks] {self.name} = false turns it off"
        return CheckPart(
            name=self.name, level=given.level, side=self.side, limit=limits, warn=warn or None,
            found=found[1], state=state, words=words,
        )  # fmt: skip


def _several(limit: Any) -> list[float]:
    """Return a limit or a pair of limits as a list; empty for none."""
    if limit is None:
        return []
    return list(limit) if isinstance(limit, tuple) else [limit]


def _rows(run: Measured, _: Any) -> Value:
    return "", run.labelled.counts.n_rows, "rows"


def _rows_against_last(run: Measured, given: Any) -> Value:
    before = sorted(run.rows_before[: given.nights])
    if not before:
        return "", None, ""
    usual = 0.5 * (before[(len(before) - 1) // 2] + before[len(before) // 2])
    words = f"those of the run before, {usual:,.0f}"
    if len(before) > 1:
        words = f"the median of the last {len(before)} runs, {usual:,.0f}"
    return "rows are", run.labelled.counts.n_rows / max(usual, 1.0), f"times {words}"


def _nulls(run: Measured, _: Any) -> Value:
    if run.dropped is not None:
        return "left out since a value is missing:", run.dropped, ""
    counts = run.labelled.counts.columns.get(OWN)
    if counts is None or not counts.missing.size:
        return "", None, ""
    worst = int(counts.missing.argmax())
    name = run.labelled.labeller.columns[worst]
    return f"missing in column {name!r}:", float(counts.missing[worst]), ""


def _outliers(run: Measured, _: Any) -> Value:
    return "", run.labelled.outlier_share, "lie outside every cluster"


def _clusters(run: Measured, _: Any) -> Value:
    n_clusters = run.labelled.counts.n_clusters
    return "", n_clusters, "cluster" if n_clusters == 1 else "clusters"


def _cluster_rows(run: Measured, _: Any) -> Value:
    sizes = run.labelled.counts.sizes.sum(axis=1)
    return "the smallest cluster has", int(sizes[sizes > 0].min()), "rows"


def _moved(run: Measured, _: Any) -> Value:
    return "", run.lineage.moved if run.lineage else None, "have another id than before"


def _changed(run: Measured, new: bool) -> float | None:
    """Return the share of the clusters now that are new, or of those before that are gone."""
    if run.lineage is None or run.lineage.moved is None:
        return None
    stories = run.lineage.clusters
    survived = sum(one.event == "survived" for one in stories)
    changed = sum(one.is_new if new else one.has_ended for one in stories)
    return changed / max(survived + changed, 1)


def _new(run: Measured, _: Any) -> Value:
    return "", _changed(run, new=True), "have an id that is new"


def _gone(run: Measured, _: Any) -> Value:
    return "", _changed(run, new=False), "of the run before have ended"


def _ids(run: Measured, _: Any) -> Value:
    ids = run.labelled.ids
    if ids is None:
        return "", None, ""
    words = f"rows share their id with another{ids.of_part} or have none"
    return "", ids.shared + ids.missing, words


def _drift(run: Measured, _: Any) -> Value:
    return _worst(run.drift.columns) if run.drift else ("", None, "")


def _reference_drift(run: Measured, _: Any) -> Value:
    return _worst(run.reference.columns) if run.reference else ("", None, "")


def _worst(columns: Sequence[ColumnDrift]) -> Value:
    worst = columns[0]
    return f"the population stability index of column {worst.column!r} is", worst.index, ""


def _units(run: Measured, _: Any) -> Value:
    if run.drift is None:
        return "", None, ""
    found = [column for column in run.drift.columns if column.factor is not None]
    told = truncated(
        [f"{column.column!r} is {column.times} the previous run's" for column in found]
    )
    n = len(found)
    return "", n, f"column{'' if n == 1 else 's'} in another unit{': ' if n else ''}{told}"


def _columns(run: Measured, _: Any) -> Value:
    if run.new_columns is None:
        return "", None, ""
    n, names = len(run.new_columns), truncated([repr(name) for name in run.new_columns])
    return "", n, f"new column{'' if n == 1 else 's'}{': ' if names else ''}{names}"


def _agreement(run: Measured, _: Any) -> Value:
    return "the agreement is", run.agreement, ""


CHECKS = (
    Check("min_rows", "at least", _rows, places=0),
    Check("max_rows", "at most", _rows, places=0),
    Check("rows_against_last", "between", _rows_against_last, places=2),
    Check("max_null_share", "at most", _nulls, share=True),
    Check("max_outlier_share", "at most", _outliers, share=True, tells_drift=True),
    Check("clusters", "between", _clusters, places=0),
    Check("min_cluster_rows", "at least", _cluster_rows, places=0),
    Check("max_rows_moved", "at most", _moved, share=True),
    Check("max_new_share", "at most", _new, share=True, of="of the clusters "),
    Check("max_gone_share", "at most", _gone, share=True, of="of the clusters "),
    Check("max_drift", "at most", _drift, places=3, tells_drift=True),
    Check("max_reference_drift", "at most", _reference_drift, places=3),
    Check("same_units", "at most", _units, places=0),
    Check("same_columns", "at most", _columns, places=0),
    Check("min_agreement", "at least", _agreement, places=2),
    Check("unique_id", "at most", _ids, places=0),
)
"""All checks, in the order of manifest and report."""


def checked(config: ChecksConfig, run: Measured, guarded: bool = False) -> list[CheckPart]:
    """Return the outcome of every check of a job, and if it is `guarded`, of the usual ones."""
    own = config.given
    given = {**GUARDS.given, **own} if guarded else own
    wanted = [(check, given[check.name]) for check in CHECKS if check.name in given]
    return [
        check.outcome(limit, run, check.name not in own)
        for check, limit in wanted
        if limit.limit is not None
    ]


def reasons_to_refit(config: ChecksConfig, run: Measured) -> list[str]:
    """Return the limits on drift that are passed, in words; without any given, the usual one."""
    names = {check.name for check in CHECKS if check.tells_drift}
    if not names & config.given.keys():
        config = ChecksConfig.model_validate({"max_drift": USUAL_DRIFT})
    parts = [part for part in checked(config, run) if part.name in names]
    return [part.words for part in parts if part.state in ("failed", "warned")]
