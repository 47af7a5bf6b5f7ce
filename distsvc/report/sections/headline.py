"""The words on every page.

They are the answer of a run and how far to trust it, warnings, doubts, the caption of the picture,
and indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distsvc.metrics import INDICES, Index
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.report import ClusterRow, IndexValue, Report, Sample
from distsvc.report.figures.drawing import COLOURS
from distsvc.report.formats import Caption, count, one_line, percent, things
from distsvc.report.sections.models import CLEARLY_BETTER


def n_clusters(report: Report) -> str:
    """Return the number of clusters in words: "3 clusters"."""
    return things(len(report.clusters), "cluster")


def doubt(report: Report) -> str:
    """Return the strongest doubt about the clusters, as the end of a sentence; empty if none."""
    clauses = (
        why_unclear(report), rival(report), unstable(report), *report.doubts, overlap(report),
    )  # fmt: skip
    return next(filter(None, clauses), "")


def unstable(report: Report) -> str:
    """Return a clause if another sample would rather have another answer, else nothing.

    The result is empty if the job gave the number of clusters, or if the algorithm has no trees.
    """
    chance = report.model.fitted.get("agreement")
    asked = report.model.parameters.get("n_clusters") is not None
    if report.levels is None or asked or not isinstance(chance, float) or chance >= 0.5:
        return ""
    others = "several" if len(report.clusters) == 1 else "other clusters"
    return f"another sample has {others} in about {100 * (1.0 - chance):.0f} of 100 cases"


def overlap(report: Report) -> str:
    """Return a clause on clusters that overlap; empty if most rows have a certain cluster."""
    share = report.choice.overlap if report.choice else None
    if share is None or len(report.clusters) < 2:
        return ""
    return f"they overlap: about {percent(share)} of the rows may belong to another cluster"


def rival(report: Report) -> str:
    """Return a clause on another answer that is nearly as good; empty if there is none."""
    choice = report.choice
    other = (choice.rival or choice.alternative) if choice else None
    if other is None or other.chance >= CLEARLY_BETTER or other.n_clusters == len(report.clusters):
        return ""
    if report.model.parameters.get("n_clusters") is not None:
        return ""
    verb = "describes" if other.n_clusters == 1 else "describe"
    return f"{things(other.n_clusters, 'cluster')} {verb} them nearly as well"


def brief(report: Report) -> str:
    """Return the answer in a few words: the number of clusters, or that it is not reliable."""
    if not why_unclear(report):
        return n_clusters(report)
    return "probably many small clusters" if good_numbers(report) else "no reliable clusters"


def best_guess(report: Report) -> str:
    """Return the meaning of the labels if clusters are unclear, as the end of a sentence."""
    return f"the labels are a best guess with {len(report.clusters):,} groups"


def good_numbers(report: Report) -> list[int]:
    """Return the numbers of clusters of all good divisions if each has 10 or more, else nothing.

    A division is good if its `standing`, relative to the winner's, is at least 0.8.
    """
    candidates = report.levels.candidates if report.levels else []
    good = [row.n_clusters for row in candidates if row.winner or (row.standing or 0.0) >= 0.8]
    return sorted(good) if good and min(good) >= 10 else []


def answer(report: Report) -> str:
    """Return the run's result in one or two plain sentences."""
    outside, share = report.outliers.rows, report.outliers.share
    n_rows = report.input.n_rows
    rows = things(n_rows, "row")
    unclear, reason = why_unclear(report), doubt(report)
    found = f"{n_clusters(report)} in {rows}"
    if unclear:
        head = brief(report)
        found = f"{head[0].upper()}{head[1:]} in {rows}: {best_guess(report)}, {_others(report)}"
        found += unclear
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
    """Return the range of clusters of other good divisions, as a part of a sentence."""
    numbers = good_numbers(report)
    if len(numbers) < 2:
        return "but "
    return f"other good answers have {numbers[0]:,} to {numbers[-1]:,}, and "


def is_asked(report: Report) -> bool:
    """Return True if the job gave the number of clusters, and it was found."""
    asked = report.model.parameters.get("n_clusters")
    return isinstance(asked, int) and asked == len(report.clusters) > 1


def why_unclear(report: Report) -> str:
    """Return the reason why the clusters may not be real, as the end of a sentence, or nothing.

    Clusters are doubtful if a quarter of the models or fewer agree. They are also doubtful if
    another sample would rarely give them and the weakest split may be chance (z < 2). The result is
    empty if the job gave the number of clusters, and for older runs without `agreement`.
    """
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
        return f"another sample gives it with a chance of only {percent(chance)}"
    return ""


class FoldedText(NamedTuple):
    """A warning: its first clause, and the whole text if that is longer."""

    line: str
    whole: str


def folded_texts(texts: Iterable[str]) -> list[FoldedText]:
    """Return the lines of warnings, whose text is untrusted."""
    found = []
    for text in texts:
        whole = one_line(text, 2_000)
        line = whole
        if len(whole) > PAGE_LIMITS.warning:  # its first clause
            line = one_line(
                re.split(r"; |: these |: row | \(", whole, maxsplit=1)[0], PAGE_LIMITS.warning
            )
        found.append(FoldedText(line, "" if line == whole else whole))
    return found


def warnings(report: Report) -> list[FoldedText]:
    """Return the warnings for the top of the page: all but doubts, which have their own part."""
    doubts = report.levels.doubts if report.levels else []
    return folded_texts(one for one in report.warnings if one not in doubts)


def doubts(report: Report) -> list[FoldedText]:
    """Return reasons to doubt the answer, or to try another tool."""
    found = report.levels.doubts if report.levels else []
    return folded_texts([one for one in found if one.strip()][:12])


def caption(report: Report) -> Caption:
    """Return the caption of the picture: its rows, its plane, and the rows that are left out."""
    sample, some = report.sample, report.clusters
    n_rows, drawn = report.input.n_rows, len(sample.x)
    rows = f"All {count(drawn)}" if drawn >= n_rows else f"{count(drawn)} of {count(n_rows)}"
    sentences = [f"{rows} rows, {_plane(report)}."]
    if sample.beyond:
        outside = "outside and " if report.outliers.defined else ""
        sentences.append(f"{count(sample.beyond)} more lie {outside}beyond the frame.")
    if sample.filled:
        have = (
            "row has a missing value, and is"
            if sample.filled == 1
            else "rows have missing values, and are"
        )
        sentences.append(
            f"{count(sample.filled)} {have} drawn with the column's usual value there."
        )
    more = []
    if sample.explained:
        first, second = sample.explained
        more.append(
            f"The two components hold {percent(first + second)} of the variance"
            f"{' of the rows inside' if report.outliers.defined else ''} "
            f"({percent(first)} and {percent(second)})."
        )
    if sample.kind in ("pca", "clusters") and len(some) > 1:
        more.append("Clusters that overlap here may lie apart in other directions.")
    if len(some) > PAGE_LIMITS.numbered:
        more.append(f"The {PAGE_LIMITS.numbered} largest clusters are numbered.")
    if len(some) > len(COLOURS):
        more.append(
            f"Colours repeat after {len(COLOURS)} clusters, and a number that finds no room beside "
            "its cluster is left out."
        )
    return Caption(" ".join([*sentences, *_unseen(sample, some)]), " ".join(more))


def _plane(report: Report) -> str:
    sample = report.sample
    n_features = count(report.input.n_features)
    if sample.kind == "pca":
        return f"along the first two principal components of the {n_features} columns"
    if sample.kind == "clusters":
        return (
            f"along the two directions of the {n_features} columns in which the clusters lie "
            "farthest apart for their width"
        )
    if sample.kind == "single":
        score = one_line(sample.axes[1], 80)
        return f"the column's value to the right and the {score} upwards"
    return "by the two columns"


def _unseen(sample: Sample, some: Sequence[ClusterRow]) -> list[str]:
    unseen = len({row.label for row in some} - set(sample.label))
    if not unseen:
        return []
    return [f"{count(unseen)} cluster{' has' if unseen == 1 else 's have'} no row here."]


def indices(found: Mapping[str, IndexValue]) -> list[tuple[Index, IndexValue]]:
    """Return indices with their descriptions; indices of `distsvc.metrics` come first."""
    names = [name for name in INDICES if name in found]
    names += [name for name in found if name not in INDICES]
    return [(INDICES.get(name, Index(name, "", "")), found[name]) for name in names]


def index_value(entry: IndexValue) -> str:
    """Format a validity index, with its standard error where it has one."""
    if entry.value is None:
        return "not defined"
    return f"{entry.value:,.4g}" + (f" ± {entry.error:.1g}" if entry.error else "")
