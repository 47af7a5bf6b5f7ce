"""The parts of ``report.json`` that only some models have.

They are a domain of novelty, a tree of splits, a vote of level trees, and the choice between
algorithms.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, model_validator

from distsvc.report.content.parts import (
    Finite,
    Known,
    Label,
    Number,
    ReportPart,
    Size,
    Unsaid,
    check_lengths,
)

MOST_BRANCHES = 5000
"""More than that are never written: there are fewer support vectors."""

SPLIT, LEAF = "a split", "a cluster"
"""Tags of the two kinds of nodes; errors leave them out of a field's name."""

Grid = Annotated[list[Number], Field(min_length=2, max_length=2000)]
Point = Annotated[list[Finite], Field(min_length=2, max_length=2)]


class DomainPart(ReportPart):
    """A decision function f on a grid (y, x), its support vectors and equilibria, in raw units."""

    grid_x: Grid
    grid_y: Grid
    f: list[list[Number]]
    support_vectors: list[Point]
    equilibria: list[Point]

    @model_validator(mode="after")
    def _on_the_grid(self) -> Self:
        check_lengths(self.grid_y, self.f)
        for row in self.f:
            check_lengths(self.grid_x, row)
        return self


class Term(ReportPart):
    """One column's weight in a direction."""

    column: str
    weight: Number


class Density(ReportPart):
    """A density at rising places; empty where there is none."""

    x: list[Number]
    y: list[Number]

    @model_validator(mode="after")
    def _places(self) -> Self:
        check_lengths(self.x, self.y)
        return self


class NodeSample(ReportPart):
    """Projections of some of a node's rows, and the rows' clusters."""

    x: list[Number]
    label: list[Label]

    @model_validator(mode="after")
    def _rows(self) -> Self:
        check_lengths(self.x, self.label)
        return self


class SplitNode(ReportPart):
    """A node that is split: its id, those of its parent and its two sides, and the split.

    The split of rank 1 matters most. `gain` is the share of the sample's sum of squares that it
    removes, `valley` the density there over the lower of the peaks of its sides. `direction`
    holds the heaviest columns, heaviest first, and `others` is how many more have a weight. The
    place of the split is in the unit of `density` and `sample`. Rows and share are of the
    sample.
    """

    id: int
    parent: int | None
    below: int
    above: int
    rank: Size
    gain: Number
    valley: Number
    direction: list[Term]
    others: Size
    split: Number
    density: Density
    sample: NodeSample
    rows: Size
    share: Number


class LeafNode(ReportPart):
    """A node that is a cluster; as `SplitNode`, with the cluster's label."""

    id: int
    parent: int | None
    rows: Size
    share: Number
    label: Label


def _kind_of_node(node: object) -> str:
    is_leaf = isinstance(node, LeafNode) or (isinstance(node, dict) and "label" in node)
    return LEAF if is_leaf else SPLIT


TreeNode = Annotated[
    Annotated[SplitNode, Tag(SPLIT)] | Annotated[LeafNode, Tag(LEAF)], Discriminator(_kind_of_node)
]


class Curve(ReportPart):
    """The share of the sum of squares left within so many clusters; the number chosen, and why."""

    clusters: list[Size]
    share: list[Number]
    chosen: Size
    by: str

    @model_validator(mode="after")
    def _one_cluster_first(self) -> Self:
        check_lengths(self.clusters, self.share)
        if self.clusters != list(range(1, len(self.clusters) + 1)):
            raise ValueError("expected clusters from 1 on, found others")
        return self


class ClusterRule(ReportPart):
    """The conditions that rows of a cluster meet, all of them.

    `conditions` name the heaviest columns, scaled as the job says; `whole` are the same with all
    columns, or very many, in the units of the table.
    """

    label: Label
    conditions: list[str]
    whole: Unsaid[list[str]] = Field(default=[])


class TreePart(ReportPart):
    """A tree of splits, the root first."""

    nodes: Annotated[list[TreeNode], Field(min_length=1)]
    curve: Curve
    rules: list[ClusterRule]

    @model_validator(mode="after")
    def _a_tree(self) -> Self:
        """Check that nodes have ids of their own, and that all hang from the root."""
        by_id = {node.id: node for node in self.nodes}
        reached, waiting = {self.nodes[0].id}, [self.nodes[0]]
        while waiting:
            node = waiting.pop()
            for side in (node.below, node.above) if isinstance(node, SplitNode) else ():
                if side not in by_id or side in reached:
                    raise ValueError(f"expected one node of the id {side} below {node.id}")
                reached.add(side)
                waiting.append(by_id[side])
        if len(reached) < len(self.nodes):
            raise ValueError("expected all nodes below the first, found others")
        return self


class Branch(ReportPart):
    """One branch of a level tree, its heights as shares of the tree's top.

    `birth` and `death` are the heights of its peak and of the valley where it joins its parent,
    `mass` is the share of all rows that it has there, and `z` how many standard errors the peak
    lies above the valley; the root has no parent and no z. One that is `kept` is a cluster,
    then with a label. `profile` holds pairs [height, share]: the share of rows that reach each
    height, which fall.
    """

    id: Label
    parent: Label | None = None
    birth: Finite = 0.0
    death: Finite = 0.0
    mass: Finite = 0.0
    z: Known = None
    kept: bool = False
    label: Label | None = None
    profile: list[Point] = Field(default_factory=list)


class LevelTreePart(ReportPart):
    """A tree of level sets: the branches to draw, the root first, and how many more there are."""

    top: Finite = 0.0
    branches: Annotated[list[Branch], Field(max_length=MOST_BRANCHES)] = Field(default_factory=list)
    n_hidden: Size = 0

    @model_validator(mode="after")
    def _a_tree(self) -> Self:
        """Check that branches have ids of their own, and that none is above itself."""
        parents = {branch.id: branch.parent for branch in self.branches}
        if len(parents) < len(self.branches):
            raise ValueError("expected branches of different ids")
        checked: set[int | None] = {branch.id for branch in self.branches[:1]}
        for start in parents:
            way: set[int | None] = set()
            here: int | None = start
            while here in parents and here not in checked:
                if here in way:
                    raise ValueError(f"expected no branch above itself, found {here}")
                way.add(here)
                here = parents[here]
            checked |= way
        return self


class LevelModel(ReportPart):
    """One of the models that voted: whether it supports the answer, whether its tree is drawn."""

    gamma: Known
    C: Known
    n_components: Size
    n_support_vectors: Size
    n_splits: Size
    supports: bool
    chosen: bool


class CandidatePart(ReportPart):
    """The best answer of so many clusters, and what speaks for it.

    Its standing is a share of the winner's, its votes are one of the most that any has. What it
    separates of the near pairs of rows is a share of what it separates of all pairs.
    """

    n_clusters: Size
    standing: Known = None
    votes: Known
    separated: Known = None
    support: Known
    z: Known
    winner: bool


class Granularity(ReportPart):
    """The answer at one granularity, which says how many rows to judge valleys by."""

    name: str
    n_clusters: Size
    support: Known
    rows: Size
    chosen: bool


class LevelsPart(ReportPart):
    """A vote of level trees: the tree of the winner, who voted, why this answer, and doubts."""

    tree: LevelTreePart = LevelTreePart()
    models: list[LevelModel] = Field(default_factory=list)
    candidates: list[CandidatePart] = Field(default_factory=list)
    granularity: list[Granularity] = Field(default_factory=list)
    why: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)


class Considered(ReportPart):
    """An algorithm that was asked, and the clusters that it found."""

    algorithm: str
    n_clusters: Size
    chosen: bool


class AlternativePart(ReportPart):
    """The best of the other answers, beside the clusters (k) of the run.

    Attributes
    ----------
    view : str
        The view that proposed it, as in `Considered.algorithm`.
    n_clusters : int
    chance : float
        Probability that the run's answer describes another sample better.
    label : list of int
        The run's clusters.
    rows : list of list of int
        Rows of each cluster by the alternative's clusters, of a sample.

    """

    view: str
    n_clusters: Size
    chance: Number
    label: list[Label]
    rows: list[list[Size]]

    @model_validator(mode="after")
    def _clusters(self) -> Self:
        check_lengths(self.label, self.rows)
        for row in self.rows:
            if len(row) != self.n_clusters:
                raise ValueError(f"expected rows of {self.n_clusters} clusters, found {len(row)}")
        return self


class ChoicePart(ReportPart):
    """The chosen algorithm, the reason, and the likeness of the answers (adjusted Rand index)."""

    why: str
    considered: list[Considered]
    likeness: Unsaid[Known] = None
    alternative: Unsaid[AlternativePart | None] = None
