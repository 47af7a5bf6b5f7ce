"""Level tree in the report: branches to draw, candidates, reasons and doubts."""

from __future__ import annotations

import numpy as np

from distsvc.models.support_vector.boundary.labelling import DecisionFunction, Nearest
from distsvc.models.support_vector.level_tree.consensus import REFERENCE_ROWS
from distsvc.models.support_vector.level_tree.level_sets import NEARLY, LevelSets
from distsvc.models.support_vector.level_tree.tree import LevelTree
from distsvc.report.content.model_parts import (
    Branch,
    CandidatePart,
    Granularity,
    LevelModel,
    LevelsPart,
    LevelTreePart,
)

MAX_LISTED_BRANCHES = 40
"""Maximum number of branches listed; all kept branches are listed."""

PROFILE_POINTS = 40


def levels_part(found: LevelSets, numbers: np.ndarray | None = None) -> LevelsPart:
    """Return the page's part about a vote; `numbers` (k,) are the labels of its clusters.

    The default is the vote's own numbers; -1 is a cluster without rows.
    """
    if numbers is None:
        numbers = np.arange(found.answer.n_clusters)
    return LevelsPart(
        tree=_tree(found, numbers),
        models=_models(found),
        candidates=[CandidatePart.model_validate(row) for row in found.answer.candidates],
        granularity=[
            Granularity(
                name=name,
                n_clusters=other.n_clusters,
                support=other.support,
                rows=min(REFERENCE_ROWS[name], found.n_rows),
                chosen=name == found.granularity,
            )
            for name, other in found.answers.items()
        ],
        why=_why(found),
        doubts=found.doubts(),
    )


def _models(found: LevelSets) -> list[LevelModel]:
    """Return the models that voted."""
    answer = found.answer
    members = zip(found.ensemble.members, found.trees, answer.supporters, strict=True)
    return [
        LevelModel(
            gamma=member.gamma,
            C=member.C,
            n_components=member.n_components,
            n_support_vectors=len(tree.a),
            n_splits=tree.n_branches - 1,
            supports=bool(supports),
            chosen=number == answer.member,
        )
        for number, (member, tree, supports) in enumerate(members)
    ]


def _tree(found: LevelSets, numbers: np.ndarray) -> LevelTreePart:
    """Return the branches, the root first: all kept ones, and the most significant others."""
    tree, kept = found.tree, found.answer.kept
    order = np.lexsort((-tree.z, ~kept))
    listed = order[: max(MAX_LISTED_BRANCHES, int(kept.sum()))]
    listed = listed[np.argsort(-tree.births[listed], kind="stable")]
    listed = listed[np.argsort(tree.parents[listed] >= 0, kind="stable")]
    rows = found.rows(found.pilot)
    nearest = Nearest(np.ascontiguousarray(tree.S.T))(rows)
    heights = DecisionFunction(tree.S, tree.a, tree.gamma).sums(rows).astype(np.float64)
    top = float(max(tree.heights.max(), tree.births.max()))
    shown = set(listed.tolist())
    branches = []
    for branch in listed.tolist():
        parent = int(tree.parents[branch])
        while parent >= 0 and parent not in shown:
            parent = int(tree.parents[parent])
        is_root = tree.parents[branch] < 0
        reached = np.minimum(heights, _bottlenecks(tree, int(tree.peaks[branch]))[nearest])
        inside = reached if is_root else reached[reached > tree.deaths[branch]]
        inside = np.minimum(inside, tree.births[branch])
        label = int(numbers[found.part[tree.peaks[branch]]]) if kept[branch] else -1
        branches.append(
            Branch(
                id=branch,
                parent=None if is_root else parent,
                birth=float(tree.births[branch]) / top,
                death=0.0 if is_root else float(tree.deaths[branch]) / top,
                mass=1.0 if is_root else float(tree.masses[branch]),
                z=None if is_root else float(tree.z[branch]),
                kept=label >= 0,
                label=label if label >= 0 else None,
                profile=_profile(inside / top, len(rows)),
            )
        )
    return LevelTreePart(top=1.0, branches=branches, n_hidden=tree.n_branches - len(branches))


def _bottlenecks(tree: LevelTree, start: int) -> np.ndarray:
    """Return the lowest edge (B,) on the path from a vertex to every other in the spanning tree."""
    n = len(tree.heights)
    beside: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for (a, b), height in zip(tree.edges.tolist(), tree.edge_heights.tolist(), strict=True):
        beside[a].append((b, height))
        beside[b].append((a, height))
    lowest = np.full(n, -np.inf)
    lowest[start] = np.inf
    waiting = [start]
    while waiting:
        here = waiting.pop()
        for there, height in beside[here]:
            if lowest[there] == -np.inf:
                lowest[there] = min(lowest[here], height)
                waiting.append(there)
    return lowest


def _profile(levels: np.ndarray, n_rows: int) -> list[list[float]]:
    """Return [level, share of `n_rows` at or above it], for falling levels (m,) of a branch's rows.

    Levels have six significant digits, because a figure shows their logarithms.
    """
    if not levels.size:
        return []
    falling = np.sort(levels)[::-1]
    places = np.unique(np.linspace(0, falling.size - 1, PROFILE_POINTS).astype(int))
    return [[float(f"{falling[i]:.6g}"), round((int(i) + 1) / n_rows, 6)] for i in places]


def _why(found: LevelSets) -> list[str]:
    answer, tree, members = found.answer, found.tree, found.ensemble.members
    n_models, n_agree = len(members), sum(answer.supporters)
    chosen = members[answer.member]
    spaces = sorted({member.n_components for member in members})
    low, high = min(m.gamma for m in members), max(m.gamma for m in members)
    differ = f"the width of the kernel (gamma {low:.3g} to {high:.3g})"
    if len(spaces) > 1:
        differ += f" and the number of leading components ({spaces[0]} to {spaces[-1]})"
    text = [f"{n_models} models were trained that differ in {differ}."] if n_models > 1 else []
    if answer.n_clusters == 1:
        none = "No split of any of them is clear enough to be kept: one cluster."
        return [*text, none, *_chance(found)]
    if n_models > 1:
        which = f"gamma {chosen.gamma:.3g}"
        which += f" on {chosen.n_components} components" if len(spaces) > 1 else ""
        text.append(
            f"{n_agree} of them find these clusters (adjusted Rand index above 0.8). The tree "
            f"drawn is that of the model whose proposal agrees best with all others, {which}."
        )
    scale = np.sqrt(min(1.0, REFERENCE_ROWS[found.granularity] / found.n_rows))
    rest = tree.z[~answer.kept]
    weakest = f"The weakest split is {answer.z:.1f} standard errors deep"
    if scale < 1.0:
        weakest += f", judged on {REFERENCE_ROWS[found.granularity]:,} rows"
    weakest += "; below 2 it may be chance."
    if rest.size:
        weakest += f" The clearest split that was not used is {scale * rest.max():.1f} deep."
    return [*text, weakest, *_chance(found)]


def _chance(found: LevelSets) -> list[str]:
    """Return sentences on the probability of this answer, and on the second-best answer."""
    answer, rival, text = found.answer, found.answer.rival, []
    if found.n_clusters is None:
        text.append(
            "A different sample would give the same clusters in about "
            f"{100 * answer.agreement:.0f} of 100 cases."
        )
    if rival is not None and rival.share >= NEARLY:
        plural = "" if rival.n_clusters == 1 else "s"
        text.append(_compared(f"{rival.n_clusters:,} cluster{plural}", rival.share))
    return text


def _compared(other: str, share: float) -> str:
    """Return a sentence on the best other answer, whose score is `share` of this one's."""
    if share > 1.0:
        return (
            f"Another answer, of {other}, scored {100 * (share - 1.0):.0f} % higher; last night's "
            "clusters were kept."
        )
    return f"Another answer, of {other}, scored {100 * share:.0f} % as high as this one."
