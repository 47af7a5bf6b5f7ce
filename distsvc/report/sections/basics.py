"""Sections that the page of every run has: sizes, the picture, indices, time and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distsvc.metrics import INDICES, Index
from distsvc.report.content.report import ClusterRow, IndexValue, PhaseCost, Report, Sample
from distsvc.report.figures import clusters as figures
from distsvc.report.figures.drawing import COLOURS
from distsvc.report.formats import Caption, FoldedTable, count, folded, one_line, percent
from distsvc.report.sections import advice, columns, profiles
from distsvc.report.sections.names import cluster_names

SEEN = 8
"""Clusters whose sizes are seen at once."""

MOST_DOUBTS = 12

MOST_LISTED = 500
"""Clusters that are listed at all."""


def warnings(report: Report) -> list[advice.AdviceRow]:
    """Return the warnings for the top of the page: all but doubts, which have their own part."""
    doubts = report.levels.doubts if report.levels else []
    return advice.rows([one for one in report.warnings if one not in doubts], report)


def doubts(report: Report) -> list[advice.AdviceRow]:
    """Return reasons to doubt the answer, or to try another tool."""
    found = report.levels.doubts if report.levels else []
    return advice.rows([one for one in found if one.strip()][:MOST_DOUBTS], report)


def picture(report: Report) -> str | None:
    """Draw the rows of the sample in their plane, if there are any."""
    boundary = report.score_histogram.boundary
    if not report.sample.x:
        return None
    return figures.plane(report.sample, report.clusters, report.picture, boundary)


class ClustersSection(NamedTuple):
    """The caption of the picture, and what sets clusters apart, where that is known."""

    caption: Caption
    comparison: columns.ColumnComparison | None
    profiles: profiles.ProfilesSection | None


def clusters(report: Report) -> ClustersSection:
    """Return the section on what each cluster is."""
    found = report.profiles
    named = cluster_names(report)
    told = None if found is None else profiles.section(found, report.clusters, named)
    compared = columns.comparison(report.columns) if report.columns else None
    return ClustersSection(caption(report), compared, told)


def caption(report: Report) -> Caption:
    """Say which rows the picture shows, in which plane, and what it leaves out."""
    sample, some = report.sample, report.clusters
    n_rows, drawn = report.input.n_rows, len(sample.x)
    rows = f"All {count(drawn)}" if drawn >= n_rows else f"{count(drawn)} of {count(n_rows)}"
    sentences = [f"{rows} rows, {_plane(report)}."]
    if sample.beyond:
        outside = "outside and " if report.outliers.defined else ""
        sentences.append(f"{count(sample.beyond)} more lie {outside}beyond the frame.")
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
    if len(some) > figures.MAX_SHOWN:
        more.append(f"The {figures.MAX_SHOWN} largest clusters are numbered.")
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


class ClusterLine(NamedTuple):
    """A line of the table of clusters; bars are percents of the room, inside and outside."""

    label: int
    name: str
    has_profile: bool
    rows: int
    share: float
    outliers: int
    inside: float
    outside: float


class More(NamedTuple):
    """The last line of the table of clusters: how many are not listed, and their sums."""

    clusters: int
    rows: int
    share: float
    outliers: int


class SizesSection(NamedTuple):
    """The clusters that are listed, and the sums of all others, if there are any."""

    clusters: FoldedTable
    more: More | None


def sizes(report: Report) -> SizesSection:
    """Return the table of clusters, the largest first."""
    found = report.clusters
    named = cluster_names(report)
    profiled = {one.label for one in report.profiles.clusters} if report.profiles else set()
    listed, rest = found[:MOST_LISTED], found[MOST_LISTED:]
    most = max([row.rows for row in found], default=1) or 1
    lines = [
        ClusterLine(
            row.label,
            named.get(row.label, ""),
            row.label in profiled and i < profiles.MOST_TOLD,
            row.rows,
            row.share,
            row.outliers,
            100.0 * (row.rows - row.outliers) / most,
            100.0 * row.outliers / most,
        )
        for i, row in enumerate(listed)
    ]
    table = folded(lines, "more clusters", SEEN)
    if not rest:
        return SizesSection(table, None)
    rows, outliers = sum(row.rows for row in rest), sum(row.outliers for row in rest)
    more = More(len(rest), rows, sum(row.share for row in rest), outliers)
    return SizesSection(table, more)


class IndexRow(NamedTuple):
    """A line of the table of indices."""

    title: str
    direction: str
    definition: str
    value: str
    rows: int | None


def indices(found: Mapping[str, IndexValue]) -> list[IndexRow]:
    """Join the computed indices with their descriptions, known ones first and in their order."""
    names = [name for name in INDICES if name in found]
    names += [name for name in found if name not in INDICES]
    table = []
    for name in names:
        index, entry = INDICES.get(name, Index(name, "", "")), found[name]
        shown = "not defined" if entry.value is None else f"{entry.value:,.4g}"
        if entry.error and entry.value is not None:
            shown += f" ± {entry.error:.1g}"
        table.append(IndexRow(*index, shown, entry.rows))
    return table


class Total(NamedTuple):
    """The last line of the table of phases: all seconds, and the largest sizes in MB."""

    seconds: float
    driver_peak_mb: float | None
    worker_peak_mb: float | None


def total(phases: Sequence[PhaseCost]) -> Total:
    """Return the last line of the table of phases."""
    return Total(
        sum(phase.seconds for phase in phases),
        _peak(phase.driver_peak_mb for phase in phases),
        _peak(phase.worker_peak_mb for phase in phases),
    )


def _peak(sizes: Iterable[float | None]) -> float | None:
    return max((size for size in sizes if size is not None), default=None)
