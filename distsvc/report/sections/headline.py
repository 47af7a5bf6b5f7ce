"""The page's first sentences: the answer of a run in plain words, and how far to trust it."""

from __future__ import annotations

from distsvc.report.content.report import Report
from distsvc.report.formats import percent, things

UNLIKELY = 0.1
"""Chance that another sample gives the answer, below which it is unclear if a split is faint."""

FAINT = 2.0
"""z of the least clear split, in standard errors, below which it may be an accident."""

FEW = 0.25
"""Share of the models that find the answer, up to which it is unclear."""

CLOSE = 0.9
"""Chance that the answer is better than the next, below which that is nearly as good."""

MANY = 10
"""Clusters of every good division, from which on it is their number that is unclear."""

GOOD = 0.8
"""Standing of a good division, as a share of the winner's."""


def n_clusters(report: Report) -> str:
    """Return the number of clusters in words: "3 clusters"."""
    return things(len(report.clusters), "cluster")


def doubt(report: Report) -> str:
    """Return the strongest doubt about the clusters, as the end of a sentence; empty if none."""
    return why_unclear(report) or rival(report) or next(iter(report.doubts), "")


def rival(report: Report) -> str:
    """Return that another answer is nearly as good, as the end of a sentence; empty if none is."""
    other = report.choice.alternative if report.choice else None
    if other is None or other.chance >= CLOSE or other.n_clusters == len(report.clusters):
        return ""
    if report.model.parameters.get("n_clusters") is not None:
        return ""
    verb = "describes" if other.n_clusters == 1 else "describe"
    return f"{things(other.n_clusters, 'cluster')} {verb} them nearly as well"


def brief(report: Report) -> str:
    """Return the answer in a few words: how many clusters, or that there are no clear ones."""
    if not why_unclear(report):
        return n_clusters(report)
    return "many clusters of unsure number" if good_numbers(report) else "no clear clusters"


def good_numbers(report: Report) -> list[int]:
    """Return the numbers of clusters of all good divisions where each has many; else nothing.

    Without structure few clusters are as good as many.
    """
    candidates = report.levels.candidates if report.levels else []
    good = [row.n_clusters for row in candidates if row.winner or (row.standing or 0.0) >= GOOD]
    return sorted(good) if good and min(good) >= MANY else []


def answer(report: Report) -> str:
    """Return the run's result in one or two plain sentences."""
    outside, share = report.outliers.rows, report.outliers.share
    n_rows = report.input.n_rows
    rows = things(n_rows, "row")
    unclear, reason = why_unclear(report), doubt(report)
    found = f"{n_clusters(report)} in {rows}"
    if unclear:
        head = brief(report)
        found = f"{head[0].upper()}{head[1:]} in {rows}: the best division has "
        found += f"{len(report.clusters):,}, {_others(report)}{unclear}"
    elif is_asked(report):
        found = f"{n_clusters(report)}, as asked for, in {rows}"
    if reason and not unclear:
        found += f", but {reason}"
    if not report.outliers.defined:
        return f"{found}."
    if report.outliers.only:
        return f"{things(outside, 'outlier')} ({percent(share)}) in {rows}."
    where = "the cluster" if len(report.clusters) == 1 else "every cluster"
    if outside == 0:
        return f"{found}; no row lies outside {where}."
    if outside == n_rows:
        return f"{found}; all of the rows lie outside {where}."
    return f"{found}; {percent(share)} of the rows lie outside {where}."


def _others(report: Report) -> str:
    """Return how many clusters other good divisions have, up to the doubt about the best one."""
    numbers = good_numbers(report)
    if len(numbers) < 2:
        return "but "
    return f"others that are nearly as good {numbers[0]:,} to {numbers[-1]:,}, and "


def is_asked(report: Report) -> bool:
    """Whether the job gave the number of clusters, and it was found."""
    asked = report.model.parameters.get("n_clusters")
    return isinstance(asked, int) and asked == len(report.clusters) > 1


def why_unclear(report: Report) -> str:
    """Return why the clusters may not be real, as the end of a sentence; nothing where they may.

    A number of clusters that was asked for is not in doubt, nor an answer whose reliability is not
    known, as that of older runs.
    """
    levels, facts = report.levels, report.model.fitted
    chance, support = facts.get("agreement"), facts.get("support")
    known = isinstance(chance, float) and isinstance(support, float)
    asked = report.model.parameters.get("n_clusters") is not None
    if levels is None or not known or asked or len(report.clusters) < 2:
        return ""
    assert isinstance(chance, float)
    assert isinstance(support, float)
    if support <= FEW:
        return f"only {percent(support)} of the models agree"
    z = next((row.z for row in levels.candidates if row.winner), None)
    if chance < UNLIKELY and z is not None and z < FAINT:
        return f"another sample gives it with a chance of only {percent(chance)}"
    return ""
