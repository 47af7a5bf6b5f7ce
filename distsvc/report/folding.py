"""Long tables of the page: what is seen at once, and what is folded away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distsvc.report.formats import count

MAX_ROWS = 20
"""Lines of a table that are seen at once; one more is, too, rather than folded alone."""


class Listed(NamedTuple):
    """Lines of a table that are seen at once, and those that are folded away."""

    first: Sequence[NamedTuple]
    rest: Sequence[NamedTuple]
    summary: str


def folded(rows: Sequence[NamedTuple], more: str, most: int = MAX_ROWS) -> Listed:
    """Fold the lines beyond `most` away, unless there is only one."""
    n_first = len(rows) if len(rows) <= most + 1 else most
    first, rest = rows[:n_first], rows[n_first:]
    return Listed(first, rest, f"{count(len(rest))} {more}")
