"""The page of a history: one self-contained HTML file on the nights of one or more jobs."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from distsvc import __version__
from distsvc.report.content.night import Night, some_ids
from distsvc.report.figures import drawing
from distsvc.report.figures import nights as figures
from distsvc.report.formats import Caption, FoldedTable, count, one_line, percent, template, things

SHOWN = 31
"""Nights that the table lists at once, the last ones."""

TRENDS = (
    "A ring is a night with a check that failed (red) or warned (orange). A gap is a night without "
    "a published run."
)


class NightRow(NamedTuple):
    """A line of the table of nights; `state` is that of the checks, `link` the page's address."""

    date: str
    link: str
    rows: str
    clusters: str
    outside: str
    moved: str
    new: str
    gone: str
    drift: str
    seconds: str
    checks: str
    state: str


class JobSection(NamedTuple):
    """The nights of a job: a sentence, the drawings, and the table."""

    job: str
    summary: str
    trends: str
    trends_caption: Caption
    river: str
    river_caption: Caption
    table: FoldedTable


def render_history(nights: Sequence[Night], links: Sequence[str]) -> str:
    """Return the page on nights, by job and date; `links` are of their pages, empty for none.

    The nights' text is untrusted, and escaped.
    """
    linked = list(zip(nights, links, strict=True))
    sections = [
        _section(job, [one for one, _ in several], [link for _, link in several])
        for job, group in groupby(linked, key=lambda pair: pair[0].job)
        if (several := list(group))
    ]
    alone = one_line(nights[0].job, 300) if len(sections) == 1 else ""
    return template("history.html", themed=drawing.themed).render(
        title=f"History of {alone}" if alone else "History", sections=sections, version=__version__,
        theme=drawing.THEME,
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _section(job: str, nights: Sequence[Night], links: Sequence[str]) -> JobSection:
    dated = [night for night in nights if _is_day(night.date)]
    told = [night for night in dated if night.sizes]
    rows = [_row(one, link) for one, link in zip(nights, links, strict=True)][::-1]
    shown = figures.bands(told)
    ids = {one for night in told for one in night.sizes}
    river = "The share of the rows of each cluster, by its id."
    if len(ids) > len(shown):
        river += f" {things(len(ids) - len(shown), 'smaller cluster')} are joined, in grey."
    earlier = things(len(rows) - SHOWN, "earlier night")
    return JobSection(
        job=one_line(job, 300) or "Nights without a name",
        summary=_summary(nights),
        trends=figures.trends(dated) if dated else "",
        trends_caption=Caption(TRENDS),
        river=figures.river(told) if told else "",
        river_caption=Caption(river),
        table=FoldedTable(rows[:SHOWN], rows[SHOWN:], earlier),
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
    new, gone = (sum(len(getattr(n, kind)) for n in published) for kind in ("new", "gone"))
    if new or gone:
        text += f". {things(new, 'cluster')} came, {things(gone, 'cluster')} went"
    return f"{text}."


def _row(night: Night, link: str) -> NightRow:
    said = [said for said in (night.odd, night.checked) if said]
    state = "failed" if night.failed or night.held else "warned" if night.warned else "passed"
    if night.held:
        said.append(f"held: {', '.join(night.held)}")
    return NightRow(
        date=night.date or "–",
        link=link,
        rows=_known(night.rows, count),
        clusters=_known(night.clusters, count),
        outside=_known(night.outside, percent),
        moved=_known(night.moved, percent),
        new=night.came,
        gone=some_ids(night.gone),
        drift=one_line(night.drift_and_column, 40),
        seconds=_known(night.seconds, lambda value: f"{value:.1f}"),
        checks=one_line(", ".join(said), 300),
        state=state,
    )


def _known(value: float | None, shown: Callable[[float], str]) -> str:
    return "" if value is None else shown(value)


def _is_day(date: str) -> bool:
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        return False
    return True
