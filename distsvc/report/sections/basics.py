"""Sections that the page of every run has: the picture, sizes, indices, time and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distsvc.metrics import INDICES, Index
from distsvc.report.content.report import ClusterRow, IndexValue, PhaseCost, Report, Sample
from distsvc.report.figures import clusters as figures
from distsvc.report.formats import count, one_line, percent


def warnings(report: Report) -> list[str]:
    """Return the warnings for the top of the page: all but doubts, which have their own part."""
    doubts = report.levels.doubts if report.levels else []
    return [warning for warning in report.warnings if warning not in doubts]


def picture(report: Report) -> str | None:
    """Draw the rows of the sample in their plane, if there are any."""
    boundary = report.score_histogram.boundary
    if not report.sample.x:
        return None
    return figures.plane(report.sample, report.clusters, report.picture, boundary)


def caption(report: Report) -> str:
    """Say which rows the picture shows, in which plane, and what it leaves out."""
    sample, clusters = report.sample, report.clusters
    n_rows, drawn = report.input.n_rows, len(sample.x)
    rows = f"All {count(drawn)}" if drawn >= n_rows else f"{count(drawn)} of {count(n_rows)}"
    sentences = [f"{rows} rows, {_plane(report)}."]
    if sample.explained:
        first, second = sample.explained
        apart = "; clusters that overlap here may be apart in the others"
        sentences.append(
            f"The two hold {percent(first + second)} of the variance"
            f"{' of the rows inside' if report.outliers.defined else ''} "
            f"({percent(first)} and {percent(second)})"
            f"{apart if len(clusters) > 1 else ''}."
        )
    if sample.beyond:
        outside = "outside and " if report.outliers.defined else ""
        sentences.append(f"{count(sample.beyond)} more lie {outside}beyond the frame.")
    if len(clusters) > figures.MAX_SHOWN:
        sentences.append(
            f"The {figures.MAX_SHOWN} largest clusters are numbered; the colours repeat after them."
        )
    elif len(clusters) > 1:
        sentences.append("Numbers are labels; the colours are those of the sizes below.")
    return " ".join([*sentences, *_unseen(sample, clusters)])


def _plane(report: Report) -> str:
    sample = report.sample
    if sample.kind == "pca":
        n_features = count(report.input.n_features)
        return f"on the first two principal components of the {n_features} columns"
    if sample.kind == "clusters":
        n_features = count(report.input.n_features)
        return (
            f"along the two directions of the {n_features} columns in which the clusters lie "
            "farthest apart for their width; clusters that overlap here may be apart in others"
        )
    if sample.kind == "single":
        score = one_line(sample.axes[1], 80)
        return f"with the column's value to the right and the {score} upwards"
    return "in the plane of the two columns"


def _unseen(sample: Sample, clusters: Sequence[ClusterRow]) -> list[str]:
    unseen = len({row.label for row in clusters} - set(sample.label))
    if not unseen:
        return []
    return [f"{count(unseen)} cluster{' has' if unseen == 1 else 's have'} no row here."]


class More(NamedTuple):
    """The last line of the table of clusters: how many are not listed, and their sums."""

    clusters: int
    rows: int
    share: float
    outliers: int


class SizesSection(NamedTuple):
    """The clusters that are listed, and the sums of all others, if there are any."""

    clusters: Sequence[ClusterRow]
    more: More | None


def sizes(clusters: Sequence[ClusterRow]) -> SizesSection:
    """Return the table of clusters, the largest first."""
    shown, rest = clusters[: figures.MAX_SHOWN], clusters[figures.MAX_SHOWN :]
    if not rest:
        return SizesSection(shown, None)
    rows, outliers = sum(row.rows for row in rest), sum(row.outliers for row in rest)
    return SizesSection(shown, More(len(rest), rows, sum(row.share for row in rest), outliers))


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
