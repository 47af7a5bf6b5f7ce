"""The parts of ``report.json`` that only some models have."""

from typing import Annotated

from pydantic import Field

from distsvc.report.content.parts import Finite, Known, Label, Number, OmitDefault, ReportPart, Size

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
    """A density y at places x in ascending order; both are empty if there is no density."""

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
    others: Size  # number of columns that `direction` leaves out
    split: Number  # place of the split, in the unit of `density` and `sample`
    density: Density
    sample: NodeSample
    rows: Size  # sampled rows in the node
    share: Number  # share of the sample in the node


class LeafNode(ReportPart):
    """A node that is a cluster, with its label; other fields are as in `SplitNode`."""

    id: int
    parent: int | None
    rows: Size
    share: Number
    label: Label


TreeNode = SplitNode | LeafNode


class Curve(ReportPart):
    """Share of the sum of squares that is within clusters, by number of clusters."""

    clusters: list[Size]
    share: list[Number]
    chosen: Size  # chosen number of clusters
    by: str  # reason for the chosen number


class ClusterRule(ReportPart):
    """The conditions that the rows of a cluster meet."""

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
    birth: Finite = 0.0  # height of the branch's peak
    death: Finite = 0.0  # height of the valley where the branch joins its parent
    mass: Finite = 0.0  # share of all rows that the branch has at `death`
    z: Known = None  # height of the peak above the valley in standard errors
    kept: bool = False  # whether the branch is a cluster
    label: Label | None = None
    profile: list[Point] = Field(default=[])  # [height, share of rows that reach it]

    @property
    def is_cluster(self) -> bool:
        """Whether the page draws the branch as a cluster; the root always counts as a cluster."""
        return self.kept or self.parent is None


class LevelTreePart(ReportPart):
    """A tree of level sets: the branches to draw, the root first, and the number of others."""

    top: Finite = 0.0
    branches: list[Branch] = Field(default=[])
    n_hidden: Size = 0


class LevelModel(ReportPart):
    """A model that voted."""

    gamma: Known
    C: Known
    n_components: Size
    n_support_vectors: Size
    n_splits: Size
    supports: bool  # whether the model supports the answer
    chosen: bool  # whether the model's tree is drawn


class CandidatePart(ReportPart):
    """The best answer among those with the same number of clusters."""

    n_clusters: Size
    standing: Known = None  # score relative to the winner's
    votes: Known  # votes relative to the maximum
    separated: Known = None  # share of separated pairs: among neighbours / among all rows
    support: Known
    z: Known
    winner: bool


class Granularity(ReportPart):
    """The answer at one granularity."""

    name: str
    n_clusters: Size
    support: Known
    rows: Size  # number of rows to which the z of splits is scaled
    chosen: bool


class LevelsPart(ReportPart):
    """A vote of level trees: the winner's tree, the models, reasons for the answer, and doubts."""

    tree: LevelTreePart = LevelTreePart()
    models: list[LevelModel] = Field(default=[])
    candidates: list[CandidatePart] = Field(default=[])
    granularity: list[Granularity] = Field(default=[])
    why: list[str] = Field(default=[])
    doubts: list[str] = Field(default=[])

    def shown_candidates(self, most: int) -> list[CandidatePart]:
        """Return the `most` best candidates, including the winner, sorted by number of clusters."""
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
    chance: Number  # probability that another sample gives this answer, not the published one
    label: list[Label]  # (k): labels of the run's clusters
    rows: list[list[Size]]  # (k, n_clusters): sampled rows in both clusters

    @property
    def divided(self) -> list[tuple[int, list[float]]]:
        """The clusters that this answer divides, each with the shares of its larger parts."""
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
    likeness: OmitDefault[Known] = None  # adjusted Rand index of the answer and `alternative`
    alternative: OmitDefault[AlternativePart | None] = None  # the most probable other answer
    overlap: OmitDefault[Known] = None  # share of rows that may belong to another cluster
