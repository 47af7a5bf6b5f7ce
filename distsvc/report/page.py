"""The report's page: one self-contained HTML file."""

import base64
import hashlib

from distsvc.metrics import INDICES
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.report import Report, phase_title
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing, levels, nights, tree
from distsvc.report.formats import TEMPLATES, template
from distsvc.report.sections import headline
from distsvc.report.sections import names as naming

PARTS = (
    "warnings", "sizes", "clusters", "columns", "model/rules", "nights/lineage", "nights/drift",
    "nights/reference", "nights/checks", "scores", "reasons", "membership", "rows", "doubts",
    "model/levels", "model/choice", "model/curve", "model/splits", "indices", "costs", "run",
)  # fmt: skip
"""The parts of the page from top to bottom: paths of templates below ``templates/parts``.

A template sets the variable `heading`. If a template writes nothing, the page omits the part.
"""

SCRIPT = (TEMPLATES / "page.js").read_text(encoding="utf-8")
"""Script that sorts and filters tables and compares clusters; the page also works without it."""


def render_page(report: Report) -> str:
    """Return the page of one run as HTML; the report's text is untrusted and is escaped."""
    # The page's policy allows only its own script, by digest.
    colours = drawing.cluster_colours(report.clusters)
    page = template("page.html", themed=drawing.themed, phase_title=phase_title)
    values = {
        "report": report,
        "names": naming.cluster_names(report),
        "labels": base64.b64encode(report.rows.csv.encode()).decode() if report.rows else "",
        "sizes": {row.label: row for row in report.clusters},
        "cluster_colours": colours,
        "colours": {label: drawing.variable(colour) for label, colour in colours.items()},
        "grey": drawing.variable(drawing.GREY),
        "n_colours": len(drawing.COLOURS),
        "indices": INDICES,
        "limits": PAGE_LIMITS,
        "place_in_range": figures.place_in_range,
    }
    modules = {
        "figures": figures, "headline": headline, "levels": levels, "naming": naming,
        "nights": nights, "tree": tree,
    }  # fmt: skip
    sections = []
    for name in PARTS:
        part = page.environment.get_template(f"parts/{name}.html").make_module(values | modules)
        if body := str(part).strip():
            section = {"id": name.rpartition("/")[2], "body": body}
            sections.append(section | {"heading": part.heading})  # type: ignore[attr-defined]
    return page.render(
        values | modules,
        sections=sections,
        theme=drawing.THEME,
        script=SCRIPT,
        digest=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )
