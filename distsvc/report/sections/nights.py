"""The page's words on clusters and columns since the previous run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ColumnDrift, DriftPart, LineagePart, StoryPart
from distsvc.report.figures import nights as figures
from distsvc.report.formats import (
    Caption,
    FoldedTable,
    count,
    folded,
    listed,
    percent,
    things,
)

STABLE_INDEX, CHANGED_INDEX = 0.1, 0.25
"""Population stability indices up to which a column is stable, and above which it changed much."""


def drift_summary(columns: Sequence[ColumnDrift]) -> str:
    """Return a sentence on the number of columns that have changed."""
    much = sum(column.index > CHANGED_INDEX for column in columns)
    some = sum(column.index > STABLE_INDEX for column in columns) - much
    columns_in_all = things(len(columns), "column")
    parts = [
        f"{count(n)} {'has' if n == 1 else 'have'} changed {how}"
        for n, how in ((much, "much"), (some, "some"))
        if n
    ]
    if not parts:
        return f"None of {columns_in_all} has drifted."
    return f"Of {columns_in_all}, {listed(parts)}."


def index_text(index: float) -> str:
    """Format a population stability index."""
    return f"{index:.3f}" if index < 9.9995 else f"{index:,.4g}"


def scores_and_outliers(found: DriftPart) -> Iterator[str]:
    """Yield sentences that compare scores and outliers with the previous run."""
    if found.score is not None and found.score_rows:
        yield (
            f"The index of the earlier model's scores of {things(found.score_rows, 'row')} is "
            f"{index_text(found.score)}."
        )
    before, after = found.outlier_share_before, found.outlier_share_after
    if before is not None and after is not None:
        was = f"{percent(before)} of the rows lay outside every cluster before"
        yield f"{was}, {percent(after)} do now."
    elif after is not None:
        yield f"{percent(after)} of the rows lie outside every cluster now."


ENDED = {"split": "split", "absorbed": "absorbed", "disappeared": "gone"}
ORDER = ("split", "absorbed", "disappeared", "split off", "returned", "appeared", "survived")


def moved_rows(found: LineagePart) -> figures.Flow | None:
    """Return the rows that moved, for the drawing; None if there are fewer than two clusters."""
    if found.moves is None or found.mode == "assign" or not found.rows:
        return None
    flow = figures.flow(found.moves)
    several = max(len(flow.before), len(flow.after)) > 1
    return flow if several and flow.rows.sum() > 0 else None


def draw_moves(found: LineagePart, colours: Mapping[int, str]) -> str | None:
    """Draw the rows that moved, in the colours of this run's clusters by id."""
    flow = moved_rows(found)
    if flow is None:
        return None
    before = {s.id: ENDED[s.event] for s in found.clusters if s.event in ENDED and not s.is_new}
    after = {s.id: "new" for s in found.clusters if s.is_new}
    return figures.alluvial(flow, (before, after), colours)


def moves_caption(found: LineagePart) -> Caption:
    """Return a caption: how to read the drawing, and which clusters it joins."""
    flow = moved_rows(found)
    text = "A band is as wide as the number of rows that two clusters share."
    sides = zip(flow.others if flow else (), ("the run before", "this run"), strict=False)
    joined = [f"{count(n)} of {side}" for n, side in sides if n]
    if joined:
        text += f" {' and '.join(joined)} with few changes are joined, in grey."
    more = "Bands have the colour of the later cluster. Percentages are shares of the common rows."
    return Caption(text, more)


def lineage_summary(found: LineagePart) -> str:
    """Return sentences on the numbers of continued clusters and of moved rows."""
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
    if kinds.count("survived") != n_old:
        text = f"Of {things(n_old, 'cluster')}, {listed(old)}"
    elif n_old == 1:
        text = "The earlier cluster continues"
    else:
        text = f"All {count(n_old)} earlier clusters continue"
    came = f"; cluster{'s' * (len(back) > 1)} {listed(back)} came back" if back else ""
    text = f"{text}; {_new(new)}{came}"
    if found.followed is not None:
        text += ". " + (
            "A new model was learned; no answer is clearly better than the earlier one"
            if found.followed
            else "The earlier answer was given up because nearly all models of this table vote for "
            "another"
        )
    if found.moved is None or not found.rows:
        return f"{text}."
    share = "None" if found.moved == 0 else percent(found.moved)
    return (
        f"{text}. {share} of the {things(found.rows, 'row')} that both models "
        "labelled have another id now."
    )


def _new(ids: Sequence[str]) -> str:
    if len(ids) > PAGE_LIMITS.names:
        return f"{count(len(ids))} are new"
    if len(ids) > 1:
        return f"clusters {listed(ids)} are new"
    return f"cluster {ids[0]} is new" if ids else "none is new"


def stories(found: Sequence[StoryPart]) -> FoldedTable[StoryPart]:
    """Return the table of clusters: changes first, and survivors where there is room."""
    ordered = sorted(found, key=lambda s: (_order(s), -max(s.rows_before, s.rows_after), s.id))
    survived = [s for s in ordered if s.event == "survived"]
    n_changed = len(ordered) - len(survived)
    n_first = min(n_changed, PAGE_LIMITS.rows)
    if n_changed <= PAGE_LIMITS.rows and len(survived) <= 10:
        n_first = len(ordered)
    more = max(0, n_changed - n_first)
    words = [f"{count(more)} more that changed"] * bool(more)
    words += [f"{count(len(survived))} that {'continues' if len(survived) == 1 else 'continue'}"]
    return FoldedTable(ordered[:n_first], ordered[n_first:], " and ".join(words))


def _order(story: StoryPart) -> int:
    return ORDER.index("split off" if story.event == "split" and story.is_new else story.event)


def event(story: StoryPart) -> str:
    """Return the change of a cluster in words."""
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
    names = [str(one) for one in ids[: PAGE_LIMITS.names]]
    if len(ids) > PAGE_LIMITS.names:
        names.append(f"{count(len(ids) - PAGE_LIMITS.names)} more")
    return listed(names) if names else "others"


def by_size(found: Sequence[StoryPart]) -> FoldedTable[StoryPart]:
    """Return the table of clusters by their rows now."""
    return folded(sorted(found, key=lambda s: (-s.rows_after, s.id)), "more clusters")
