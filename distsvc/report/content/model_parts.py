"""The parts of ``report.json`` that only some models have."""

from typing import Annotated

from pydantic import Field

from distsvc.report.content.parts import (
    Finite,
    Known,
    Label,
    Number,
    OmitDefault,
    ReportPart,
    Size,
)

Point = Annotated[list[Finite], Field(min_length=2, max_length=2)]


class DomainPart(ReportPart):
    """A decision function f on a grid (y, x), its support vectors and equilibria, in raw units."""

    grid_x: list[Number]
    grid_y: list[Number]
    f: list[list[Number]]
    support_vectors: list[Point]
    equilibria: list[Point]


class Term(ReportPart):
    """One column's weight in a direction."""

    column: str
    weight: Number


class Density(ReportPart):
    """A density y at ascending places x; empty if there is none."""

    x: list[Number]
    y: list[Number]


class NodeSample(ReportPart):
    """Projections of sampled rows of a node, and the rows' clusters."""

    x: list[Number]
    label: list[Label]


class SplitNode(ReportPart):
    """A node that is split."""

    id: int
    parent: int | None  # id of a node, like `below` and `above`, the two sides
    below: int
    above: int
    rank: Size  # 1 for the most important split
    gain: Number  # share of the sample's sum of squares that the split removes
    valley: Number  # density at the split, divided by the lower peak beside it
    direction: list[Term]  # the heaviest columns, heaviest first
    others: Size  # number of further columns
    split: Number  # place of the split, in the unit of `density` and `sample`
    density: Density
    sample: NodeSample
    rows: Size  # sampled rows in the node
    share: Number  # their share of the sample


class LeafNode(ReportPart):
    """A node that is a cluster, with its label; other fields are as in `SplitNode`."""

    id: int
    parent: int | None
    rows: Size
    share: Number
    label: Label


TreeNode = SplitNode | LeafNode


class Curve(ReportPart):
    """Share of the sum of squares within clusters, by number of clusters."""

    clusters: list[Size]
    share: list[Number]
    chosen: Size  # number of clusters
    by: str  # reason for this number


class ClusterRule(ReportPart):
    """The conditions that rows of a cluster meet."""

    label: Label
    conditions: list[str]  # by the heaviest columns, as scaled by the job
    whole: OmitDefault[list[str]] = Field(default=[])  # by all columns, in the table's units


class TreePart(ReportPart):
    """A tree of splits, the root first."""

    nodes: Annotated[list[TreeNode], Field(min_length=1)]
    curve: Curve
    rules: list[ClusterRule]


class Branch(ReportPart):
    """A branch of a level tree; heights are shares of the tree's top."""

    id: Label
    parent: Label | None = None
    birth: Finite = 0.0  # height of its peak
    death: Finite = 0.0  # height of the valley where it joins its parent
    mass: Finite = 0.0  # share of all rows at `death`
    z: Known = None  # height of the peak above the valley in standard errors
    kept: bool = False  # whether the branch is a cluster
    label: Label | None = None
    profile: list[Point] = Field(default_factory=list)  # [height, share of rows that reach it]

    @property
    def is_cluster(self) -> bool:
        """Whether the page draws the branch as a cluster; the root always counts as one."""
        return self.kept or self.parent is None


class LevelTreePart(ReportPart):
    """A tree of level sets: the branches to draw, the root first; `n_hidden` more exist."""

    top: Finite = 0.0
    branches: list[Branch] = Field(default_factory=list)
    n_hidden: Size = 0


class LevelModel(ReportPart):
    """A model that voted. `supports`: it supports the answer; `chosen`: its tree is drawn."""

    gamma: Known
    C: Known
    n_components: Size
    n_support_vectors: Size
    n_splits: Size
    supports: bool
    chosen: bool


class CandidatePart(ReportPart):
    """The best answer with `n_clusters`."""

    n_clusters: Size
    standing: Known = None  # score relative to the winner's
    votes: Known  # votes relative to the maximum
    separated: Known = None  # separated share of neighbouring pairs / separated share of all pairs
    support: Known
    z: Known
    winner: bool


class Granularity(ReportPart):
    """The answer at one granularity; z of splits is scaled to `rows` rows."""

    name: str
    n_clusters: Size
    support: Known
    rows: Size
    chosen: bool


class LevelsPart(ReportPart):
    """A vote of level trees: the winner's tree, the models, reasons for the answer, and doubts."""

    tree: LevelTreePart = LevelTreePart()
    models: list[LevelModel] = Field(default_factory=list)
    candidates: list[CandidatePart] = Field(default_factory=list)
    granularity: list[Granularity] = Field(default_factory=list)
    why: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)

    def shown_candidates(self, most: int) -> list[CandidatePart]:
        """Return the best candidates, the winner among them, by number of clusters."""
        best = sorted(self.candidates, key=lambda row: (not row.winner, -(row.standing or 0.0)))
        return sorted(best[:most], key=lambda row: row.n_clusters)


class Considered(ReportPart):
    """An algorithm that was tried, and its number of clusters."""

    algorithm: str
    n_clusters: Size
    chosen: bool


class AlternativePart(ReportPart):
    """Another answer, compared with the clusters (k) of the run."""

    view: str  # name as in `Considered.algorithm`
    n_clusters: Size
    chance: Number  # probability that another sample gives it, and not the published answer
    label: list[Label]  # the run's clusters
    rows: list[list[Size]]  # sampled rows by the other answer's clusters

    @property
    def divided(self) -> list[tuple[int, list[float]]]:
        """The clusters that this answer divides, with the shares of larger parts, largest first."""
        shares = [[n / (sum(row) or 1) for n in row] for row in self.rows]
        parts = [sorted((one for one in own if one >= 0.15), reverse=True) for own in shares]
        pairs = zip(self.label, parts, strict=True)
        return [(label, own) for label, own in pairs if len(own) > 1]

    @property
    def joined(self) -> list[list[int]]:
        """The groups of clusters that this answer joins."""
        homes: dict[int, list[int]] = {}
        for label, row in zip(self.label, self.rows, strict=True):
            homes.setdefault(row.index(max(row)), []).append(label)
        return [group for _, group in sorted(homes.items()) if len(group) > 1]


class ChoicePart(ReportPart):
    """The choice of an algorithm."""

    why: str
    considered: list[Considered]
    likeness: OmitDefault[Known] = None  # adjusted Rand index with `alternative`
    alternative: OmitDefault[AlternativePart | None] = None  # the most probable one
    overlap: OmitDefault[Known] = None  # share of rows that may belong to another cluster
