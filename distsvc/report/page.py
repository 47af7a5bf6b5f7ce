"""The report's page: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distsvc.metrics import INDICES, Index
from distsvc.report import formats
from distsvc.report.content.report import ClusterRow, IndexValue, PhaseCost, Report, Sample
from distsvc.report.figures import clusters as figures
from distsvc.report.formats import count, one_line, percent, things
from distsvc.report.sections import consensus, nights, profiles, splits
from distsvc.report.template import template

FIGURES = ("plane", "sizes", "membership", "scores", "phases")
LISTED_COLUMNS = 12  # more column names than this are folded away


def render_page(report: Report) -> str:
    """Return the page of one run as HTML; the report's text is untrusted and is escaped."""
    clusters, colours = report.clusters, figures.cluster_colours(report.clusters)
    found, tree = report.levels, report.tree
    return template(
        "page.html",
        count=count,
        percent=percent,
        value=formats.value,
        seconds=formats.seconds,
        megabytes=formats.megabytes,
        moment=formats.moment,
        number=formats.number,
    ).render(
        report=report,
        answer=answer(report),
        caption=_caption(report),
        clusters=clusters[: figures.MAX_SHOWN],
        more=_more(clusters[figures.MAX_SHOWN :]),
        colours=colours,
        grey=figures.GREY,
        levels=consensus.section(found, len(clusters), colours) if found else None,
        night=nights.section(report, colours),
        splits=splits.section(tree, clusters) if tree else None,
        profiles=profiles.section(report.profiles, clusters) if report.profiles else None,
        indices=_indices(report.indices or {}),
        total=_total(report.phases),
        listed_columns=LISTED_COLUMNS,
        figures=_figures(report),
    )


def answer(report: Report) -> str:
    """Return the run's result as one plain sentence."""
    n_clusters, n_rows = len(report.clusters), report.input.n_rows
    outside, share = report.outliers.rows, report.outliers.share
    found, rows = things(n_clusters, "cluster"), things(n_rows, "row")
    if not report.outliers.defined:
        return f"{found} in {rows}."
    if report.outliers.only:
        return f"{things(outside, 'outlier')} ({percent(share)}) in {rows}."
    where = "the cluster" if n_clusters == 1 else "every cluster"
    if outside == 0:
        return f"{found} in {rows}; no row lies outside {where}."
    if outside == n_rows:
        return f"{found} in {rows}; all of the rows lie outside {where}."
    return f"{found} in {rows}; {percent(share)} of the rows lie outside {where}."


def _figures(report: Report) -> dict[str, str | None]:
    """Draw every figure that has something to show."""
    clusters, scores = report.clusters, report.score_histogram
    drawn: dict[str, str | None] = dict.fromkeys(FIGURES)
    if report.sample.x:
        drawn["plane"] = figures.plane(report.sample, clusters, report.picture, scores.boundary)
    if clusters:
        drawn["sizes"] = figures.cluster_sizes(clusters, report.outliers.defined)
    if report.membership:
        drawn["membership"] = figures.membership(report.membership.counts)
    if scores.counts:
        drawn["scores"] = figures.score_histogram(scores)
    if report.phases:
        drawn["phases"] = figures.phase_costs(report.phases)
    return drawn


def _caption(report: Report) -> str:
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


def _more(rest: Sequence[ClusterRow]) -> More | None:
    if not rest:
        return None
    rows, outliers = sum(row.rows for row in rest), sum(row.outliers for row in rest)
    return More(len(rest), rows, sum(row.share for row in rest), outliers)


class IndexRow(NamedTuple):
    """A line of the table of indices."""

    title: str
    direction: str
    definition: str
    value: str
    rows: int | None


def _indices(found: Mapping[str, IndexValue]) -> list[IndexRow]:
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


def _total(phases: Sequence[PhaseCost]) -> Total:
    return Total(
        sum(phase.seconds for phase in phases),
        _peak(phase.driver_peak_mb for phase in phases),
        _peak(phase.worker_peak_mb for phase in phases),
    )


def _peak(sizes: Iterable[float | None]) -> float | None:
    return max((size for size in sizes if size is not None), default=None)
