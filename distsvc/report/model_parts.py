"""The parts of ``report.json`` that only some models have.

They are a domain of novelty, a tree of splits, a vote of level trees, and reasons of outliers.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from distsvc.report.part import Finite, Known, Part

SPLIT, LEAF = "a split", "a cluster"
"""How errors tell the two kinds of nodes apart; not part of a field's name."""

Point = Annotated[list[Finite], Field(min_length=2, max_length=2)]


class DomainPart(Part):
    """A decision function f on a grid (y, x), its support vectors and equilibria, in raw units."""

    grid_x: list[float]
    grid_y: list[float]
    f: list[list[float]]
    support_vectors: list[list[float]]
    equilibria: list[list[float]]


class Term(Part):
    """One column's weight in a direction."""

    column: str
    weight: float


class Density(Part):
    """A density at rising places; empty where there is none."""

    x: list[float]
    y: list[float]


class NodeSample(Part):
    """Projections of some of a node's rows, and the rows' clusters."""

    x: list[float]
    label: list[int]


class SplitNode(Part):
    """A node that is split: the ids of its two sides, and the split.

    Attributes
    ----------
    id, parent, below, above : int
        Of the node, its parent (None for the root), and its two sides.
    rank : int
        1 for the split that matters most.
    gain : float
        The share of the sample's sum of squares that the split removes.
    valley : float
        The density at the split over the lower of the peaks of its sides.
    direction, others : list of Term, int
        The heaviest columns, heaviest first, and how many more have a weight.
    split : float
        Where it is, in the unit of `density` and `sample`.
    rows, share : int, float
        Of the sample, and their share of it.

    """

    id: int
    parent: int | None
    below: int
    above: int
    rank: int
    gain: float
    valley: float
    direction: list[Term]
    others: int
    split: float
    density: Density
    sample: NodeSample
    rows: int
    share: float


class LeafNode(Part):
    """A node that is a cluster; as `SplitNode`, with the cluster's label."""

    id: int
    parent: int | None
    rows: int
    share: float
    label: int


def _kind_of_node(node: object) -> str:
    is_leaf = isinstance(node, LeafNode) or (isinstance(node, dict) and "label" in node)
    return LEAF if is_leaf else SPLIT


TreeNode = Annotated[
    Annotated[SplitNode, Tag(SPLIT)] | Annotated[LeafNode, Tag(LEAF)], Discriminator(_kind_of_node)
]


class Curve(Part):
    """The share of the sum of squares left within so many clusters; the number chosen, and why."""

    clusters: list[int]
    share: list[float]
    chosen: int
    by: str


class Rule(Part):
    """The conditions that rows of a cluster meet, all of them."""

    label: int
    conditions: list[str]


class TreePart(Part):
    """A tree of splits, the root first."""

    nodes: Annotated[list[TreeNode], Field(min_length=1)]
    curve: Curve
    rules: list[Rule]


class Branch(Part):
    """One branch of a level tree, its heights as shares of the tree's top.

    Attributes
    ----------
    id, parent : int
        The parent is None for the root.
    birth, death : float
        The heights of its peak and of the valley where it joins its parent.
    mass : float
        The share of all rows that it has there.
    z : float or None
        How many standard errors the peak lies above the valley; None for the root.
    kept : bool
        Whether it is a cluster, then with a `label`.
    profile : list of [height, share]
        The share of rows that reach each height, which fall.

    """

    id: int
    parent: int | None = None
    birth: Finite = 0.0
    death: Finite = 0.0
    mass: Finite = 0.0
    z: Known = None
    kept: bool = False
    label: int | None = None
    profile: list[Point] = Field(default_factory=list)


class LevelTreePart(Part):
    """A tree of level sets: the branches to draw, the root first, and how many more there are."""

    top: Finite = 0.0
    branches: list[Branch] = Field(default_factory=list)
    n_hidden: int = 0


class LevelModel(Part):
    """One of the models that voted: whether it supports the answer, whether its tree is drawn."""

    gamma: Known
    C: Known
    n_components: int
    n_support_vectors: int
    n_splits: int
    supports: bool
    chosen: bool


class Candidate(Part):
    """The best answer of so many clusters: votes as a share of the winner's, supporting models."""

    n_clusters: int
    votes: Known
    support: Known
    z: Known
    winner: bool


class Granularity(Part):
    """The answer at one granularity, which says how many rows to judge valleys by."""

    name: str
    n_clusters: int
    support: Known
    rows: int
    chosen: bool


class LevelsPart(Part):
    """A vote of level trees: the tree of the winner, who voted, why this answer, and doubts."""

    tree: LevelTreePart = LevelTreePart()
    models: list[LevelModel] = Field(default_factory=list)
    candidates: list[Candidate] = Field(default_factory=list)
    granularity: list[Granularity] = Field(default_factory=list)
    why: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)


class LeadingColumn(Part):
    """A column, and the outliers that it pulls out hardest."""

    column: str
    rows: int


class Reason(Part):
    """A column's share of all that pulls a row out, and the row's value there."""

    column: str
    share: float
    value: Known


class FarRow(Part):
    """An outlier by its number in the table, with its score and the heaviest reasons."""

    row: int
    score: float
    reasons: list[Reason]


class ReasonsPart(Part):
    """Why rows are outliers: the columns that do most, and the farthest rows."""

    leading: list[LeadingColumn]
    farthest: list[FarRow]
