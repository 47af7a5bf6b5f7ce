"""The parts of ``report.json`` that only some models have."""

from typing import Annotated

from pydantic import Field

from distsvc.report.content.parts import Finite, Known, Label, Number, OmitDefault, ReportPart, Size

Point = Annotated[list[Finite], Field(min_length=2, max_length=2)]


class DomainPart(ReportPart):
    """A decision function f of two columns, for a picture in the table's units.

    ``f[j][i]`` is the value of f at ``(grid_x[i], grid_y[j])``.
    """

    grid_x: list[Number]
    grid_y: list[Number]
    f: list[list[Number]]
    support_vectors: list[Point]
    equilibria: list[Point]


class Term(ReportPart):
    """A column's weight in the direction that splits a node."""

    column: str
    weight: Number


class Density(ReportPart):
    """A density y at places x in ascending order; both are empty if there is no density."""

    x: list[Number]
    y: list[Number]


class NodeSample(ReportPart):
    """Some rows of a node that is split: their positions and their clusters."""

    x: list[Number]  # signed distances from the hyperplane, in standard deviations
    label: list[Label]


class SplitNode(ReportPart):
    """A node of a tree whose rows a hyperplane splits in two."""

    id: int
    parent: int | None  # id of the parent; None for the root
    below: int  # id of the child with the rows below the hyperplane
    above: int  # id of the child with all other rows
    rank: Size  # 1 for the most important split
    gain: Number  # reduction of the sum of squares, as a share of the root's
    valley: Number  # density at the hyperplane, divided by the lower of the peaks at its sides
    direction: list[Term]  # columns with the largest weights, the largest first
    others: Size  # number of columns that `direction` leaves out
    split: Number  # position of the hyperplane among the positions in `density` and `sample`
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
    """The conditions on the path from the tree's root to a cluster, which its rows meet."""

    label: Label
    conditions: list[str]  # such as "0.81 age − 0.42 income + … < 1.2", of scaled columns
    whole: OmitDefault[list[str]] = Field(default=[])  # all columns, in the table's units


class TreePart(ReportPart):
    """A tree of splits, the root first."""

    nodes: Annotated[list[TreeNode], Field(min_length=1)]
    curve: Curve
    rules: list[ClusterRule]


class Branch(ReportPart):
    """A branch of a level tree. Heights are densities, divided by the tree's highest density."""

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
    """A tree of level sets, as the page draws it."""

    top: Finite = 0.0  # height of the highest peak
    branches: list[Branch] = Field(default=[])  # the root comes first
    n_hidden: Size = 0  # number of branches that are not in the report


class LevelModel(ReportPart):
    """One of the models that vote on the clusters, and its parameters."""

    gamma: Known
    C: Known
    n_components: Size
    n_support_vectors: Size
    n_splits: Size
    supports: bool  # whether the model supports the answer
    chosen: bool  # whether the model's tree is drawn


class CandidatePart(ReportPart):
    """The best of the proposals that have `n_clusters` clusters."""

    n_clusters: Size
    standing: Known = None  # score relative to the winner's
    votes: Known  # votes relative to the maximum
    separated: Known = None  # share of neighbours that are separated / of all pairs
    support: Known  # share of the models with a similar proposal
    z: Known  # z of the weakest split, in standard errors
    winner: bool


class Granularity(ReportPart):
    """Result of the vote for one value of ``model.granularity``, which is `name`."""

    name: str
    n_clusters: Size
    support: Known
    rows: Size  # table size to which the z of splits is scaled
    chosen: bool


class LevelsPart(ReportPart):
    """The vote of several models, each with a level tree, on the clusters."""

    tree: LevelTreePart = LevelTreePart()  # the tree of the model whose clusters won
    models: list[LevelModel] = Field(default=[])
    candidates: list[CandidatePart] = Field(default=[])
    granularity: list[Granularity] = Field(default=[])
    why: list[str] = Field(default=[])  # sentences that explain the answer
    doubts: list[str] = Field(default=[])  # sentences that question the answer

    def shown_candidates(self, most: int) -> list[CandidatePart]:
        """Return the winner and the next best candidates, `most` in all, by number of clusters."""
        best = sorted(self.candidates, key=lambda row: (not row.winner, -(row.standing or 0.0)))
        return sorted(best[:most], key=lambda row: row.n_clusters)


class Considered(ReportPart):
    """An algorithm that was tried, and its number of clusters."""

    algorithm: str
    n_clusters: Size
    chosen: bool


class AlternativePart(ReportPart):
    """Another possible answer, compared with the k clusters of the run."""

    view: str  # name as in `Considered.algorithm`
    n_clusters: Size
    chance: Number  # probability that another sample gives this answer, not the published one
    label: list[Label]  # (k): labels of the run's clusters
    rows: list[list[Size]]  # (k, n_clusters): sampled rows that two clusters share

    @property
    def divided(self) -> list[tuple[int, list[float]]]:
        """The run's clusters that this answer divides, such as ``(2, [0.6, 0.4])``.

        The numbers are a cluster's label, and the shares of its rows in each part. Small parts are
        left out.
        """
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
