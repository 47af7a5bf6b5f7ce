"""The page of a history: one self-contained HTML file on the nights of one or more jobs."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from distsvc import __version__
from distsvc.report.content.night import Night, some_ids
from distsvc.report.figures import drawing
from distsvc.report.figures import nights as figures
from distsvc.report.formats import FoldedTable, one_line, template, things

UNFOLDED_NIGHTS = 31
"""Number of latest nights that the table shows unfolded."""


class JobSection(NamedTuple):
    """The nights of a job: a sentence, the drawings, and the table of nights and links."""

    job: str
    summary: str
    trends: str
    river: str
    n_joined: int
    table: FoldedTable[tuple[Night, str]]


def render_history(nights: Sequence[Night], links: Sequence[str]) -> str:
    """Return the page on nights, by job and date, with the links of their pages, empty for none.

    The nights' text is untrusted, and escaped.
    """
    linked = zip(nights, links, strict=True)
    sections = [
        _section(job, list(group)) for job, group in groupby(linked, key=lambda pair: pair[0].job)
    ]
    alone = one_line(nights[0].job, 300) if len(sections) == 1 else ""
    return template("history.html", themed=drawing.themed, some_ids=some_ids).render(
        title=f"History of {alone}" if alone else "History", sections=sections, version=__version__,
        theme=drawing.THEME,
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _section(job: str, linked: Sequence[tuple[Night, str]]) -> JobSection:
    nights = [night for night, _ in linked]
    dated = [night for night in nights if _is_day(night.date)]
    with_sizes = [night for night in dated if night.sizes]
    ids = {one for night in with_sizes for one in night.sizes}
    rows = linked[::-1]
    return JobSection(
        job=one_line(job, 300) or "Nights without a name",
        summary=_summary(nights),
        trends=figures.trends(dated) if dated else "",
        river=figures.river(with_sizes) if with_sizes else "",
        n_joined=len(ids) - len(figures.bands(with_sizes)),
        table=FoldedTable(
            rows[:UNFOLDED_NIGHTS],
            rows[UNFOLDED_NIGHTS:],
            things(len(rows) - UNFOLDED_NIGHTS, "earlier night"),
        ),
    )


def _summary(nights: Sequence[Night]) -> str:
    published = [night for night in nights if night.run_id]
    held = sum(bool(night.held) for night in nights)
    text = f"{things(len(published), 'night')} published"
    if published:
        first, last = published[0].date, published[-1].date
        text += f", {first}" if first == last else f", from {first} to {last}"
    if held:
        text += f"; {things(held, 'night')} with candidates that checks hold back"
    new, gone = sum(len(n.new) for n in published), sum(len(n.gone) for n in published)
    if new or gone:
        text += f". {things(new, 'cluster')} came, {things(gone, 'cluster')} went"
    return f"{text}."


def _is_day(date: str) -> bool:
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        return False
    return True
