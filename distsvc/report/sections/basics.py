"""The words on every page: warnings, doubts, the caption of the picture, indices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distsvc.metrics import INDICES, Index
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.report import ClusterRow, IndexValue, Report, Sample
from distsvc.report.figures.drawing import COLOURS
from distsvc.report.formats import Caption, count, one_line, percent


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
