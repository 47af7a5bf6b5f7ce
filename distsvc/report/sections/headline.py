"""The answer of a run in words, and how far to trust it."""

from collections.abc import Iterator

from distsvc.errors import things
from distsvc.report.content.night import words_of_night
from distsvc.report.content.report import Report
from distsvc.report.formats import percent

ALL_DIFFER_ONLY_IN = "they differ only in"
"""First words of a doubt in `Report.doubts`: all clusters differ only in one column."""


def doubt(report: Report) -> str:
    """Return the strongest doubt about the clusters, as the end of a sentence; empty if none."""
    return next(filter(None, _doubts(report)), "")


def _doubts(report: Report) -> Iterator[str]:
    """Yield doubts about the clusters, the strongest first, as ends of sentences; some are ""."""
    yield why_unclear(report)
    yield from (each for each in report.doubts if each.startswith(ALL_DIFFER_ONLY_IN))
    k, choice = len(report.clusters), report.choice
    asked = report.model.parameters.get("n_clusters") is not None
    other = choice.alternative if choice else None
    if other and not asked and other.chance >= 0.25 and other.n_clusters != k:
        verb = "describes" if other.n_clusters == 1 else "describe"
        yield f"{things(other.n_clusters, 'cluster')} {verb} the rows nearly as well"
    chance = report.model.fitted.get("agreement")
    if not asked and isinstance(chance, float) and chance < 0.5:
        others = "several clusters" if k == 1 else "other clusters"
        yield f"another sample has {others} in about {100 * (1.0 - chance):.0f} of 100 cases"
    yield from report.doubts
    if choice and choice.overlap is not None and k > 1:
        share = percent(choice.overlap)
        yield f"the clusters overlap: about {share} of the rows may belong to another cluster"


def brief(report: Report) -> str:
    """Return the answer in a few words: the number of clusters, or that it is not reliable."""
    if not why_unclear(report):
        return things(len(report.clusters), "cluster")
    return "probably many small clusters" if good_numbers(report) else "no reliable clusters"


def best_guess(report: Report) -> str:
    """Return words for unclear clusters: "the labels are a best guess with 16 groups"."""
    return f"the labels are a best guess with {len(report.clusters):,} groups"


def good_numbers(report: Report) -> list[int]:
    """Return the numbers of clusters of the answer and of candidates that scored nearly as high.

    The list is empty if one of the numbers is below 10.
    """
    candidates = report.levels.candidates if report.levels else []
    good = [row.n_clusters for row in candidates if row.winner or (row.standing or 0.0) >= 0.8]
    return sorted(good) if good and min(good) >= 10 else []


def outcome(report: Report) -> list[str]:
    """Return the parts of a line on a run: clusters, outliers, changes since the last night."""
    outliers, rows = report.outliers, f"{report.input.n_rows:,} rows"
    end = words_of_night(report)
    if report.was_renamed:
        end.append("names changed: report.html, report.json and clusters.parquet are written anew")
    where = f"{outliers.share:.1%} outside" if outliers.defined else "no outside"
    if outliers.only:
        return [rows, where, *end]
    reason = doubt(report).replace("\u00a0", "")  # as in "2.1%"
    if why_unclear(report):
        reason = f" ({best_guess(report)}; {reason})"
    elif reason:
        reason = f", but {reason}"
    every = " every cluster" if outliers.defined else ""
    return [f"{brief(report)} in {rows}{reason}", f"{where}{every}", *end]


def why_unclear(report: Report) -> str:
    """Return the reason why clusters may not be real, as the end of a sentence; else empty."""
    # Clusters are doubtful if a quarter of the models or fewer agree, or if another sample would
    # rarely give them and the weakest split may be chance.
    levels, facts = report.levels, report.model.fitted
    chance, support = facts.get("agreement"), facts.get("support")
    asked = report.model.parameters.get("n_clusters") is not None
    if levels is None or asked or len(report.clusters) < 2:
        return ""
    if not (isinstance(chance, float) and isinstance(support, float)):
        return ""
    if support <= 0.25:
        return f"only {percent(support)} of the models agree"
    z = next((row.z for row in levels.candidates if row.winner), None)
    if chance < 0.1 and z is not None and z < 2.0:
        return f"another sample gives the same groups with a chance of only {percent(chance)}"
    return ""
