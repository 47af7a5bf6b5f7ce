"""The report's page: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from distsvc.report.content.report import Report
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing
from distsvc.report.formats import TEMPLATES, template
from distsvc.report.sections import (
    basics,
    checks,
    choice,
    columns,
    consensus,
    drift,
    headline,
    lineage,
    splits,
)

Colours = Mapping[int, str]


class PagePart(NamedTuple):
    """A part of the page: its template in ``templates/parts``, its heading, and what it shows.

    `content` returns the template's `part` from the report and the colour of each label; the
    part is left out where that is nothing. `figure` returns the template's `figure`: an SVG, or
    nothing. A heading is text, or worked out from the report.
    """

    name: str
    heading: str | Callable[[Report], str]
    content: Callable[[Report, Colours], Any]
    figure: Callable[[Report], Any] = lambda _: None


PARTS = (
    PagePart("warnings", "Warnings", lambda r, _: basics.warnings(r)),
    PagePart(
        "sizes",
        "Cluster sizes",
        lambda r, _: not r.outliers.only and basics.sizes(r),
    ),
    PagePart(
        "clusters",
        lambda r: "What each cluster is" if len(r.clusters) > 1 else "The rows",
        lambda r, _: basics.clusters(r),
        basics.picture,
    ),
    PagePart("columns", "Columns", lambda r, _: r.columns and columns.column_list(r.columns)),
    PagePart("model/rules", "Rules", lambda r, _: r.tree and splits.rules(r.tree, r.clusters)),
    PagePart(
        "nights/lineage",
        "Since the run before",
        lambda r, colours: r.lineage and lineage.section(r.lineage, colours),
    ),
    PagePart("nights/drift", "Drift", lambda r, _: r.drift and drift.section(r.drift)),
    PagePart(
        "nights/reference",
        "Drift from the reference",
        lambda r, _: r.reference and drift.of_reference(r.reference),
    ),
    PagePart("nights/checks", "Checks", lambda r, _: checks.section(r.checks)),
    PagePart(
        "scores",
        lambda r: r.score_histogram.heading,
        lambda r, _: r.score_histogram,
        lambda r: r.score_histogram.counts and figures.score_histogram(r.score_histogram),
    ),
    PagePart(
        "reasons",
        lambda r: "Outliers" if r.outliers.defined else "Rows near a border",
        lambda r, _: r.reasons and (r.outliers.only or r.reasons.farthest) and r.reasons,
    ),
    PagePart(
        "membership",
        "How sure each row's cluster is",
        lambda r, _: r.membership,
        lambda r: r.membership and figures.membership(r.membership.counts),
    ),
    PagePart("rows", "Rows of a cluster", lambda r, _: r.rows),
    PagePart("doubts", "Doubts", lambda r, _: basics.doubts(r)),
    PagePart(
        "model/levels",
        lambda r: f"Why {headline.n_clusters(r)}",
        lambda r, colours: r.levels and consensus.section(r.levels, colours),
    ),
    PagePart("model/choice", "Why this answer", lambda r, _: choice.section(r)),
    PagePart(
        "model/curve",
        lambda r: f"Why {headline.n_clusters(r)}",
        lambda r, _: r.tree and splits.curve(r.tree),
    ),
    PagePart("model/splits", "Splits", lambda r, _: r.tree and splits.section(r.tree, r.clusters)),
    PagePart("indices", "Validity indices", lambda r, _: basics.indices(r.indices or {})),
    PagePart(
        "costs",
        "Time and memory",
        lambda r, _: basics.total(r.phases),
        lambda r: r.phases and figures.phase_costs(r.phases),
    ),
    PagePart("run", "How to run it again", lambda r, _: r),
)
"""All parts of the page, from top to bottom."""


class PageSection(NamedTuple):
    """A section of the page: its anchor, template, heading, and what the template shows."""

    id: str
    name: str
    heading: str
    part: Any
    figure: Any


SCRIPT = (TEMPLATES / "page.js").read_text(encoding="utf-8")
"""Sorts and filters tables, and compares two clusters; the page needs it for nothing else."""


def render_page(report: Report) -> str:
    """Return the page of one run as HTML; the report's text is untrusted and is escaped.

    No other script than that of the page runs in it: the policy names its digest.
    """
    colours = drawing.cluster_colours(report.clusters)
    parts = ((part, part.content(report, colours)) for part in PARTS)
    return template("page.html", themed=drawing.themed).render(
        theme=drawing.THEME,
        script=SCRIPT,
        digest=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
        report=report,
        answer=headline.answer(report),
        labels=base64.b64encode(report.rows.csv.encode()).decode() if report.rows else "",
        colours={label: drawing.variable(colour) for label, colour in colours.items()},
        grey=drawing.variable(drawing.GREY),
        held=checks.section(report.failed) if report.held else [],
        compares=bool(report.checks or report.lineage or report.drift or report.held),
        sections=[
            PageSection(
                id=part.name.rpartition("/")[2],
                name=part.name,
                heading=part.heading if isinstance(part.heading, str) else part.heading(report),
                part=found,
                figure=part.figure(report),
            )
            for part, found in parts
            if found
        ],
    )
