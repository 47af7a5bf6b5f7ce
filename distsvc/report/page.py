"""The report's page: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from distsvc.report.content.report import Report
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing
from distsvc.report.formats import percent, template, things
from distsvc.report.sections import basics, checks, consensus, drift, lineage, profiles, splits

Colours = Mapping[int, str]


class PagePart(NamedTuple):
    """A part of the page: the name of its template in ``templates/parts``, and what that shows.

    `content` returns the template's `part` from the report and the colour of each label; the
    part is left out where that is nothing. `figure` returns the template's `figure`: an SVG, or
    nothing.
    """

    name: str
    content: Callable[[Report, Colours], Any]
    figure: Callable[[Report], Any] = lambda _: None


PARTS = (
    PagePart("warnings", lambda r, _: basics.warnings(r)),
    PagePart("model/doubts", lambda r, _: r.levels and consensus.doubts(r.levels)),
    PagePart("picture", lambda r, _: basics.caption(r), basics.picture),
    PagePart(
        "nights/lineage", lambda r, colours: r.lineage and lineage.section(r.lineage, colours)
    ),
    PagePart("nights/drift", lambda r, _: r.drift and drift.section(r.drift)),
    PagePart("nights/reference", lambda r, _: r.reference and drift.of_reference(r.reference)),
    PagePart("nights/checks", lambda r, _: checks.section(r.checks)),
    PagePart("model/choice", lambda r, _: r.choice),
    PagePart(
        "model/levels",
        lambda r, colours: r.levels and consensus.section(r.levels, len(r.clusters), colours),
    ),
    PagePart("reasons", lambda r, _: r.outliers.only and r.reasons),
    PagePart(
        "sizes",
        lambda r, _: not r.outliers.only and basics.sizes(r.clusters),
        lambda r: r.clusters and figures.cluster_sizes(r.clusters, r.outliers.defined),
    ),
    PagePart(
        "membership",
        lambda r, _: r.membership,
        lambda r: r.membership and figures.membership(r.membership.counts),
    ),
    PagePart("profiles", lambda r, _: r.profiles and profiles.section(r.profiles, r.clusters)),
    PagePart("model/splits", lambda r, _: r.tree and splits.section(r.tree, r.clusters)),
    PagePart(
        "scores",
        lambda r, _: r.score_histogram,
        lambda r: r.score_histogram.counts and figures.score_histogram(r.score_histogram),
    ),
    PagePart(
        "reasons",
        lambda r, _: not r.outliers.only and r.reasons and r.reasons.farthest and r.reasons,
    ),
    PagePart("indices", lambda r, _: basics.indices(r.indices or {})),
    PagePart(
        "costs",
        lambda r, _: basics.total(r.phases),
        lambda r: r.phases and figures.phase_costs(r.phases),
    ),
    PagePart("run", lambda r, _: r),
)
"""All parts of the page, from top to bottom."""


def render_page(report: Report) -> str:
    """Return the page of one run as HTML; the report's text is untrusted and is escaped."""
    colours = drawing.cluster_colours(report.clusters)
    parts = ((part, part.content(report, colours)) for part in PARTS)
    return template("page.html", themed=drawing.themed).render(
        theme=drawing.THEME,
        report=report,
        answer=answer(report),
        colours={label: drawing.variable(colour) for label, colour in colours.items()},
        grey=drawing.variable(drawing.GREY),
        held=checks.section(report.failed) if report.held else [],
        compares=bool(report.checks or report.lineage or report.drift or report.held),
        parts=[(part.name, found, part.figure(report)) for part, found in parts if found],
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
