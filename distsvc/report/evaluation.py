"""The evaluation's page: tables with several figures to a cell, and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distsvc.report.templates import template

TITLE = "How good, how fast: every system of the papers"


def render_evaluation(
    parts: Sequence[Mapping[str, Any]], protocols: Mapping[str, str], machine: str
) -> str:
    """Return one self-contained HTML page.

    Parameters
    ----------
    parts
        Each has ``name``, ``title``, ``text`` (paragraphs) and ``items``: drawings (``title``,
        ``svg``, ``caption``) and tables (objects with ``title``, ``caption``, ``columns``, ``rows``
        of a name and cells, ``averages``, ``digits`` and ``reasons``; a cell has ``oracle``,
        ``blind``, ``paper``, ``best_oracle``, ``best_blind``, ``why`` and ``text``).
    protocols
        Name of each protocol and what it means.
    machine
        Where it was measured.

    """
    return template("evaluation.html", fixed=fixed).render(
        title=TITLE, parts=parts, protocols=protocols, machine=machine
    )


def fixed(number: float, digits: int) -> str:
    """Return a number with so many digits after the point, fewer where it is large."""
    size = abs(number)
    fewer = 0 if size >= 1000 else min(digits, 1) if size >= 100 else digits
    return f"{round(number, fewer) + 0.0:,.{fewer}f}"  # no minus before 0
