"""The page's section on clusters beside those of the run before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distsvc.report.content.comparison_parts import LineagePart, StoryPart
from distsvc.report.figures import moves
from distsvc.report.formats import (
    MAX_ROWS,
    Caption,
    FoldedTable,
    count,
    folded,
    listed,
    one_line,
    percent,
    things,
)

MAX_SURVIVORS, MAX_OTHERS = 10, 8
LONGEST_SENTENCE, LONGEST_NAME = 600, 300
ENDED = {"split": "split", "absorbed": "absorbed", "disappeared": "gone"}
ORDER = {"split": 0, "absorbed": 1, "disappeared": 2, "returned": 4, "appeared": 5, "survived": 6}
SPLIT_OFF = 3

FOLLOWED = "A new model was learned; no answer is clearly better than the earlier one"
LEFT = "The earlier answer was given up because nearly all models of this table vote for another"


class StoryRow(NamedTuple):
    """A line of the table of clusters; `share` is that of this run's rows, of an assigned one."""

    id: int
    event: str
    jaccard: str
    before: int
    after: int


class SizeRow(NamedTuple):
    """A cluster among the rows that a model was learned from, and among those it labelled."""

    id: int
    before: int
    share_before: float
    after: int
    share_after: float


class LineageSection(NamedTuple):
    """Clusters beside those of the run before, which is at `path`.

    `lacking` is where a run was expected and none is published. The drawing is an SVG of the rows
    that moved. A new model has stories, an assigned one sizes.
    """

    path: str | None
    run_id: str | None
    lacking: str | None
    assigned: bool
    because: list[str]
    summary: str
    drawing: str | None
    caption: Caption
    stories: FoldedTable | None
    sizes: FoldedTable | None


def section(found: LineagePart, colours: Mapping[int, str]) -> LineageSection:
    """Return the section; colours are those of ids, and the text of `found` is untrusted."""
    assigned, begins = found.mode == "assign", found.path is None
    drawing = caption = None
    if found.moves is not None and not assigned and found.rows:
        drawing, caption = _moves(found, colours)
    return LineageSection(
        path=_shown(found.path),
        run_id=_shown(found.run_id),
        lacking=_shown(found.not_published),
        assigned=assigned,
        because=[one_line(text, LONGEST_SENTENCE) for text in found.because[:MAX_ROWS]],
        summary="" if begins else _assigned(found) if assigned else _summary(found),
        drawing=drawing,
        caption=caption or Caption(),
        stories=None if begins or assigned else _stories(found.clusters),
        sizes=_sizes(found.clusters) if assigned else None,
    )


def _shown(text: str | None) -> str | None:
    return None if text is None else one_line(text, LONGEST_NAME)


def _moves(found: LineagePart, colours: Mapping[int, str]) -> tuple[str | None, Caption]:
    """Return the drawing of the rows that moved, and its caption; None for one cluster."""
    assert found.moves is not None
    flow = moves.flow(found.moves)
    if flow.rows.sum() <= 0 or max(map(len, (flow.before, flow.after))) < 2:
        return None, Caption()
    before = {s.id: ENDED[s.event] for s in found.clusters if s.event in ENDED and not s.is_new}
    after = {s.id: "new" for s in found.clusters if s.is_new}
    text = "A band is as wide as the number of rows that two clusters share."
    if any(flow.others):
        text += f" {_others(flow.others)} with few changes are joined, in grey."
    more = "Bands have the colour of the later cluster. Percentages are shares of the common rows."
    return moves.alluvial(flow, (before, after), colours), Caption(text, more)


def _others(joined: tuple[int, int]) -> str:
    before, after = joined
    parts = [f"{count(before)} of the run before"] * bool(before)
    parts += [f"{count(after)} of this run"] * bool(after)
    return " and ".join(parts)


def _summary(found: LineagePart) -> str:
    """Say how many clusters went on, and how many rows moved."""
    kinds = ["new" if story.is_new else story.event for story in found.clusters]
    old = [
        f"{count(kinds.count(kind))} {word}"
        for kind, word in (
            ("survived", "continue" if kinds.count("survived") != 1 else "continues"),
            ("split", "split"),
            ("absorbed", "became part of another"),
            ("disappeared", "disappeared"),
        )
        if kinds.count(kind)
    ]
    new = [count(story.id) for story in found.clusters if story.is_new]
    back = [count(story.id) for story in found.clusters if story.event == "returned"]
    n_old = len(kinds) - len(new) - len(back)
    every = kinds.count("survived") == n_old
    text = f"Of {things(n_old, 'cluster')}, {listed(old)}"
    if every:
        text = "The earlier cluster continues"
        if n_old != 1:
            text = f"All {count(n_old)} earlier clusters continue"
    came = f"; cluster{'s' * (len(back) > 1)} {listed(back)} came back" if back else ""
    text = f"{text}; {_new(new)}{came}"
    if found.followed is not None:
        text += f". {FOLLOWED if found.followed else LEFT}"
    if found.moved is None or not found.rows:
        return f"{text}."
    share = "None" if found.moved == 0 else percent(found.moved)
    return (
        f"{text}. {share} of the {things(found.rows, 'row')} that both models "
        "labelled have another id now."
    )


def _new(ids: Sequence[str]) -> str:
    if len(ids) > MAX_OTHERS:
        return f"{count(len(ids))} are new"
    if len(ids) > 1:
        return f"clusters {listed(ids)} are new"
    return f"cluster {ids[0]} is new" if ids else "none is new"


def _assigned(found: LineagePart) -> str:
    return (
        f"No new model was learned, so every id stays. The next new cluster would be "
        f"{count(found.next_id)}."
    )


def _stories(found: Sequence[StoryPart]) -> FoldedTable:
    """Return the table of clusters: changes first, and survivors where there is room."""
    ordered = sorted(found, key=lambda s: (_order(s), -max(s.rows_before, s.rows_after), s.id))
    changed = [s for s in ordered if s.event != "survived"]
    survived = [s for s in ordered if s.event == "survived"]
    first = changed[:MAX_ROWS]
    if len(changed) <= MAX_ROWS and len(survived) <= MAX_SURVIVORS:
        first = ordered
    rest = ordered[len(first) :]
    n_changed = len(changed) - min(len(first), len(changed))
    words = [f"{count(n_changed)} more that changed"] * bool(n_changed)
    words += [f"{count(len(survived))} that {'continues' if len(survived) == 1 else 'continue'}"]
    return FoldedTable([_story(s) for s in first], [_story(s) for s in rest], " and ".join(words))


def _order(story: StoryPart) -> int:
    return SPLIT_OFF if story.event == "split" and story.is_new else ORDER[story.event]


def _story(story: StoryPart) -> StoryRow:
    return StoryRow(
        id=story.id,
        event=_event(story),
        jaccard=f"{story.jaccard:.2f}" if abs(story.jaccard) <= 1 else "–",
        before=story.rows_before,
        after=story.rows_after,
    )


def _event(story: StoryPart) -> str:
    others = _ids(story.others)
    if story.event == "split":
        return f"new, out of {others}" if story.is_new else f"split into {others}"
    return {
        "survived": "continues",
        "absorbed": f"absorbed into {others}",
        "appeared": "new",
        "returned": "came back",
        "disappeared": "disappeared",
    }[story.event]


def _ids(ids: Sequence[int]) -> str:
    names = [str(one) for one in ids[:MAX_OTHERS]]
    if len(ids) > MAX_OTHERS:
        names.append(f"{count(len(ids) - MAX_OTHERS)} more")
    return listed(names) if names else "others"


def _sizes(found: Sequence[StoryPart]) -> FoldedTable:
    """Return the table of sizes among a model's own rows and those that it labelled."""
    before, after = (
        max(1, sum(getattr(story, name) for story in found))
        for name in ("rows_before", "rows_after")
    )
    rows = [
        SizeRow(s.id, s.rows_before, s.rows_before / before, s.rows_after, s.rows_after / after)
        for s in sorted(found, key=lambda s: (-s.rows_after, s.id))
    ]
    return folded(rows, "more clusters")
