"""The report's page: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import NamedTuple

from distsvc.metrics import INDICES
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.report import Report
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing, levels, nights, tree
from distsvc.report.figures.profiles import place_in_range
from distsvc.report.formats import TEMPLATES, template
from distsvc.report.sections import clusters, headline
from distsvc.report.sections import names as naming


class PagePart(NamedTuple):
    """A part of the page.

    Attributes
    ----------
    name : str
        Path of the template below ``templates/parts``; the last part of the path is the anchor.
    heading : str or callable
        The heading, or its function of the report.
    content : callable
        Function of the report that returns the template's variable `part`. If this is empty, the
        page does not have the part.

    """

    name: str
    heading: str | Callable[[Report], str]
    content: Callable[[Report], object]


def _doubts(report: Report) -> list[str]:
    """Return reasons to doubt the answer, or to try another tool."""
    return report.levels.doubts if report.levels else []


PARTS = (
    PagePart(
        "warnings", "Warnings", lambda r: [one for one in r.warnings if one not in _doubts(r)]
    ),
    PagePart("sizes", "Cluster sizes", lambda r: not r.outliers.only and r),
    PagePart(
        "clusters",
        lambda r: "What each cluster is" if len(r.clusters) > 1 else "The rows",
        lambda r: r,
    ),
    PagePart("columns", "Columns", lambda r: r.columns),
    PagePart("model/rules", "Rules", lambda r: r.tree and r.tree.rules),
    PagePart("nights/lineage", "Since the run before", lambda r: r.lineage),
    PagePart("nights/drift", "Drift", lambda r: r.drift),
    PagePart("nights/reference", "Drift from the reference", lambda r: r.reference),
    PagePart("nights/checks", "Checks", lambda r: r.checks),
    PagePart(
        "scores",
        lambda r: r.score_histogram.heading,
        lambda r: r.score_histogram,
    ),
    PagePart(
        "reasons",
        lambda r: "Outliers" if r.outliers.defined else "Rows near a border",
        lambda r: r.reasons and (r.outliers.only or r.reasons.farthest) and r.reasons,
    ),
    PagePart(
        "membership",
        "How sure each row's cluster is",
        lambda r: r.membership,
    ),
    PagePart("rows", "Rows of a cluster", lambda r: r.rows),
    PagePart("doubts", "Doubts", lambda r: [one for one in _doubts(r) if one.strip()][:12]),
    PagePart(
        "model/levels",
        lambda r: f"Why {headline.n_clusters(r)}",
        lambda r: r.levels and r.levels.has_content and r.levels,
    ),
    PagePart("model/choice", "Why this answer", lambda r: r.choice),
    PagePart(
        "model/curve",
        lambda r: f"Why {headline.n_clusters(r)}",
        lambda r: r.tree and r.tree.curve.clusters and r.tree.curve,
    ),
    PagePart("model/splits", "Splits", lambda r: r.tree),
    PagePart("indices", "Validity indices", lambda r: r.indices),
    PagePart("costs", "Time and memory", lambda r: r),
    PagePart("run", "How to run it again", lambda r: r),
)
"""All parts of the page, from top to bottom."""


SCRIPT = (TEMPLATES / "page.js").read_text(encoding="utf-8")
"""Script that sorts and filters tables and compares two clusters; the page also works without."""


def render_page(report: Report) -> str:
    """Return the page of one run as HTML; the report's text is untrusted and is escaped.

    The page's policy allows no other script than its own, by digest.
    """
    colours = drawing.cluster_colours(report.clusters)
    contents = ((part, part.content(report)) for part in PARTS)
    return template("page.html", themed=drawing.themed).render(
        theme=drawing.THEME,
        script=SCRIPT,
        digest=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
        report=report,
        labels=base64.b64encode(report.rows.csv.encode()).decode() if report.rows else "",
        names=naming.cluster_names(report),
        sizes={row.label: row for row in report.clusters},
        colours={label: drawing.variable(colour) for label, colour in colours.items()},
        grey=drawing.variable(drawing.GREY),
        sections=[
            {
                "id": part.name.rpartition("/")[2],
                "name": part.name,
                "heading": part.heading if isinstance(part.heading, str) else part.heading(report),
                "part": content,
            }
            for part, content in contents
            if content
        ],
        cluster_colours=colours,
        clusters=clusters,
        figures=figures,
        headline=headline,
        indices=INDICES,
        levels=levels,
        limits=PAGE_LIMITS,
        n_colours=len(drawing.COLOURS),
        naming=naming,
        nights=nights,
        place_in_range=place_in_range,
        tree=tree,
    )
