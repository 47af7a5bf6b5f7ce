"""Checks of a result before it is published, configured in the job's ``[checks]``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from distsvc.job.config import GUARDS, CheckConfig, ChecksConfig
from distsvc.report.content.parts import CheckPart, DriftPart, LineagePart, ReferencePart, Side
from distsvc.run.labelling.labeller import OWN
from distsvc.run.labelling.phase import Labelled
from distsvc.storage.rows.columns import truncated

Value = tuple[str, float | None, str]
"""A measured number (None if not measured), with the words printed before and after it."""

NOT_MEASURED: Value = ("", None, "")


@dataclass(frozen=True)
class RunMetrics:
    """The values of a run that checks compare with their limits."""

    labelled: Labelled
    lineage: LineagePart | None = None
    drift: DriftPart | None = None
    agreement: float | None = None  # probability that another sample gives this answer
    dropped: float | None = None  # share of the rows dropped for missing values, if known
    rows_before: Sequence[int] = ()  # numbers of rows of earlier nights, the latest first
    reference: ReferencePart | None = None
    new_columns: Sequence[str] | None = None  # columns that the previous model lacks
    has_ids: bool = False  # the job names a column of ids


@dataclass(frozen=True)
class Check:
    """A check with the key `name` in ``[checks]``."""

    name: str
    side: Side
    value: Callable[[RunMetrics], Value]
    places: int = 1  # decimals; more are shown if the value would round to its limit
    share: bool = False  # the value is a share, shown in percent
    of: str = "of the rows "  # words behind the percentage
    tells_drift: bool = False  # beyond the limit, the previous model no longer fits
    needs_ids: bool = False  # as a default check, it is left out of jobs without ids
    advice: str = ""  # cause and advice, added to the words of a failed check

    def words(self, found: Value, limits: Sequence[float]) -> str:
        """Return a measured value in words, with enough decimals to differ from the `limits`."""
        (before, value, after), places, scale = found, self.places, 100 if self.share else 1
        if value is None:
            return "not measured"
        near = {round(scale * limit, 9) for limit in limits if limit != value}
        while places < 9 and round(scale * value, places) in near:
            places += 1
        unit = f"% {self.of}" if self.share else ""
        return f"{before} {scale * value:,.{places}f} {unit}{after}".strip()

    def holds(self, value: float, limits: Sequence[float]) -> bool:
        low = -math.inf if self.side == "at most" else limits[0]
        high = math.inf if self.side == "at least" else limits[-1]
        return low <= value <= high

    def outcome(self, given: CheckConfig[Any], run: RunMetrics, is_default: bool) -> CheckPart:
        """Compare the value of a run with the limits in `given`, and return the outcome.

        `is_default` is True if these are default limits, which the job does not set.
        """
        limits, warn = (_limits(one) for one in (given.limit, given.warn))
        found = self.value(run)
        state: Literal["passed", "warned", "failed", "not measured"] = "not measured"
        decisive = limits
        if found[1] is not None:
            state = "passed"
            if not self.holds(found[1], limits):
                state = "warned" if given.level == "warn" else "failed"
            elif warn:
                decisive = warn
                state = "passed" if self.holds(found[1], warn) else "warned"
        percent = [f"{100 * x:,.10g} %" if self.share else f"{x:,.10g}" for x in decisive]
        shown = " to ".join(dict.fromkeys(percent))
        wanted = shown if self.side == "between" else f"{self.side} {shown}"
        wanted = "none" if wanted == "at most 0" else wanted
        words = f"{self.name}: {self.words(found, decisive)}, {wanted} expected"
        if state in ("warned", "failed"):
            words += self.advice
            if is_default:
                off = f"[checks] {self.name} = false turns it off"
                words += f"; this check is on by default, {off}"
        return CheckPart(
            name=self.name, level=given.level, side=self.side, limit=limits, warn=warn or None,
            found=found[1], state=state, words=words,
        )  # fmt: skip


def _limits(limit: float | tuple[float, ...] | None) -> list[float]:
    if limit is None:
        return []
    return list(limit) if isinstance(limit, tuple) else [limit]


def _rows_against_last(run: RunMetrics) -> Value:
    before = run.rows_before
    if not before:
        return NOT_MEASURED
    usual = median(before)
    words = f"the number in the previous run ({usual:,.0f})"
    if len(before) > 1:
        words = f"the median number in the last {len(before)} runs ({usual:,.0f})"
    return "the number of rows is", run.labelled.counts.n_rows / max(usual, 1.0), f"times {words}"


def _nulls(run: RunMetrics) -> Value:
    if run.dropped is not None:
        return "left out since a value is missing:", run.dropped, ""
    counts = run.labelled.counts.columns.get(OWN)
    if counts is None or not counts.missing.size:
        return NOT_MEASURED
    worst = int(counts.missing.argmax())
    name = run.labelled.labeller.columns[worst]
    return f"missing in column {name!r}:", float(counts.missing[worst]), ""


def _clusters(run: RunMetrics) -> Value:
    n_clusters = run.labelled.counts.n_clusters
    return "", n_clusters, "cluster" if n_clusters == 1 else "clusters"


def _cluster_rows(run: RunMetrics) -> Value:
    sizes = run.labelled.counts.sizes.sum(axis=1)
    least = int(sizes[sizes > 0].min())
    return "the smallest cluster has", least, "row" if least == 1 else "rows"


def _changed(run: RunMetrics, new: bool) -> float | None:
    """Return the share of the clusters that are new, or that have ended since the previous run.

    `new` selects the first of these shares. Return None if there is no previous run.
    """
    if run.lineage is None or run.lineage.moved is None:
        return None
    stories = run.lineage.clusters
    survived = sum(one.event == "survived" for one in stories)
    changed = sum(one.is_new if new else one.has_ended for one in stories)
    return changed / max(survived + changed, 1)


def _ids(run: RunMetrics) -> Value:
    ids = run.labelled.ids
    if ids is None:
        return NOT_MEASURED
    n = ids.shared + ids.missing
    words = ("row shares its", "has") if n == 1 else ("rows share their", "have")
    return "", n, f"{words[0]} id with another{ids.of_part} or {words[1]} none"


def _worst(part: DriftPart | ReferencePart | None) -> Value:
    if part is None:
        return NOT_MEASURED
    worst = part.columns[0]
    change = f"({worst.change})" if worst.change else ""
    return (
        f"the drift (population stability index) of column {worst.column!r} is",
        worst.index,
        change,
    )


def _units(run: RunMetrics) -> Value:
    if run.drift is None:
        return NOT_MEASURED
    found = [column for column in run.drift.columns if column.factor is not None]
    names = truncated([f"{column.column!r} is {column.times}" for column in found])
    n = len(found)
    return "", n, f"column{'' if n == 1 else 's'} in another unit{f' ({names})' if n else ''}"


def _new_columns(run: RunMetrics) -> Value:
    if run.new_columns is None:
        return NOT_MEASURED
    n, names = len(run.new_columns), truncated([repr(name) for name in run.new_columns])
    return "", n, f"new column{'' if n == 1 else 's'}{': ' if names else ''}{names}"


def _plain(
    before: str, value: Callable[[RunMetrics], float | None], after: str = ""
) -> Callable[[RunMetrics], Value]:
    """Return a function that measures a value of a run, and adds fixed words to it."""
    return lambda run: (before, value(run), after)


_ROWS = _plain("", lambda run: run.labelled.counts.n_rows, "rows")
_OUTSIDE = _plain("", lambda run: run.labelled.outlier_share, "lie outside every cluster")
_MOVED = _plain(
    "",
    lambda run: run.lineage.moved if run.lineage else None,
    "are in another cluster than the previous model gives them",
)
_IDS_MOVED = _plain(
    "",
    lambda run: run.lineage.ids_moved if run.lineage else None,
    "are in another cluster than in the previous run",
)
_NEW = _plain("", lambda run: _changed(run, new=True), "have an id that is new")
_GONE = _plain("", lambda run: _changed(run, new=False), "of the previous run have ended")

_ROWS_ADVICE = ": the clusters have changed; look first for rows in another unit"
_IDS_ADVICE = ": look first for ids that were joined to other rows, and for rows in another unit"

CHECKS = (
    Check("same_units", "at most", _units, places=0),  # first, since it explains other failures
    Check("min_rows", "at least", _ROWS, places=0),
    Check("max_rows", "at most", _ROWS, places=0),
    Check("rows_against_last", "between", _rows_against_last, places=2),
    Check("max_null_share", "at most", _nulls, share=True),
    Check("max_outlier_share", "at most", _OUTSIDE, share=True, tells_drift=True),
    Check("clusters", "between", _clusters, places=0),
    Check("min_cluster_rows", "at least", _cluster_rows, places=0),
    Check("max_rows_moved", "at most", _MOVED, share=True, advice=_ROWS_ADVICE),
    Check(
        "max_ids_moved",
        "at most",
        _IDS_MOVED,
        share=True,
        of="of the ids ",
        needs_ids=True,
        advice=_IDS_ADVICE,
    ),
    Check("max_new_share", "at most", _NEW, share=True, of="of the clusters "),
    Check("max_gone_share", "at most", _GONE, share=True, of="of the clusters "),
    Check("max_drift", "at most", lambda run: _worst(run.drift), places=3, tells_drift=True),
    Check("max_reference_drift", "at most", lambda run: _worst(run.reference), places=3),
    Check("same_columns", "at most", _new_columns, places=0),
    Check("min_agreement", "at least", _plain("the agreement is", lambda run: run.agreement), 2),
    Check("unique_id", "at most", _ids, places=0),
)
"""All checks, in the order of manifest and report."""


def run_checks(config: ChecksConfig, run: RunMetrics, guarded: bool = False) -> list[CheckPart]:
    """Return the outcome of every check that the job sets.

    If `guarded` is True, as for jobs that continue a previous run, add the default checks.
    """
    given, parts = {**(GUARDS.given if guarded else {}), **config.given}, []
    for check in CHECKS:
        limits, is_default = given.get(check.name), check.name not in config.given
        if limits is not None and limits.limit is not None:  # not turned off
            part = check.outcome(limits, run, is_default)
            if part.found is not None or run.has_ids or not (is_default and check.needs_ids):
                parts.append(part)
    return parts


def reasons_to_refit(config: ChecksConfig, run: RunMetrics) -> list[str]:
    """Return the exceeded limits on drift, in words."""
    # By convention, a population stability index above 0.25 means another population.
    names = {check.name for check in CHECKS if check.tells_drift}
    if not names & config.given.keys():
        config = ChecksConfig.model_validate({"max_drift": 0.25})
    parts = [part for part in run_checks(config, run) if part.name in names]
    return [part.words for part in parts if part.state in ("failed", "warned")]
