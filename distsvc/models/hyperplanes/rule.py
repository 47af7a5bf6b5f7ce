"""The rule of a tree of hyperplanes, which can be cut into clusters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels.hyperplanes import path_shares, route
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rules.fields import ArrayField, ChildrenField, Facts, whole
from distsvc.models.rules.membership import BY_HYPERPLANES, SPLIT_SOFTNESS
from distsvc.models.rules.rule import Rule, ScoreWords


@dataclass(frozen=True)
class TreeRule(Rule):
    """Rule that labels a row by its path in a tree cut into `cut_into` clusters.

    A row x goes to a node's first child if V.x < threshold. The score is the distance to the
    nearest hyperplane on the row's path, in standard deviations of that node's rows along its
    normal. Rows are float32, relative to the centre of the fit. Nodes are ordered by level.
    """

    form: ClassVar[str] = "imdh"
    shared: ClassVar[str] = BY_HYPERPLANES
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32, >= 0: the cluster, 0 the largest on a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane on the row's path through the "
        "tree, in standard deviations of its node's rows along its normal; infinity where there is "
        "one cluster",
        "outlier": "bool: always false, for a tree of hyperplanes divides all of space",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        has_outliers=False,
        meaning="A tree of hyperplanes divides all of space among its clusters, so no row lies "
        "outside. The score is the row's distance to the nearest hyperplane on its path, in "
        "standard deviations of the node's rows along the normal.",
        heading="Distance to the nearest hyperplane",
        axis="distance to the nearest hyperplane on the row's path, in standard deviations",
        boundary=None,
    )

    numbers: Annotated[np.ndarray, ArrayField("int64", "m", least=1)]  # the paper's, 1 is the root
    V: Annotated[np.ndarray, ArrayField("float32", "m d")]  # unit normals
    thresholds: Annotated[np.ndarray, ArrayField("float64", "m")]
    spreads: Annotated[np.ndarray, ArrayField("float64", "m", above=0.0)]  # deviation of V.x
    b: Annotated[np.ndarray, ArrayField("float64", "m")]  # thresholds relative to the nodes' means
    counts: Annotated[np.ndarray, ArrayField("float64", "m", least=0.0)]  # numbers of rows
    sums_of_squares: Annotated[np.ndarray, ArrayField("float64", "m")]  # about learned means
    children: Annotated[np.ndarray, ChildrenField("int32", "m 2")]  # indices, -1 in leaves
    splits: Annotated[np.ndarray, ArrayField("int32", "s", may_be_empty=True)]  # see `split_order`
    curve: Annotated[np.ndarray, ArrayField("float64", "L")]  # see `split_order`
    cut_into: Annotated[int, whole(1, 2**31)]

    @property
    def n_clusters(self) -> int:
        return self.cut_into

    @property
    def n_leaves(self) -> int:
        return len(self.curve)

    def cut(self, n_clusters: int) -> Self:
        """Return the rule of `n_clusters` clusters, or of all leaves if these are fewer."""
        return replace(self, cut_into=min(max(n_clusters, 1), self.n_leaves))

    @cached_property
    def cut_children(self) -> np.ndarray:
        """The `children` (m, 2) int32, but -1 in clusters and below them."""
        children, inner = np.full_like(self.children, -1), self.splits[: self.cut_into - 1]
        children[inner] = self.children[inner]
        return children

    @cached_property
    def clusters(self) -> np.ndarray:
        """Cluster (m,) int32 of each node, 0 the largest; -1 in other nodes."""
        inner = self.splits[: self.cut_into - 1]
        leaves = np.setdiff1d(np.append(self.cut_children[inner], 0), inner)
        clusters = np.full(len(self.children), -1, np.int32)
        clusters[leaves] = ranks_by_size(self.counts[leaves])
        return clusters

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        ends, margins = route(Z, self.V, self.thresholds, self.spreads, self.cut_children)
        return {"label": self.clusters[ends], "score": margins, "outlier": np.zeros(len(Z), bool)}

    def shares(self, Z: np.ndarray) -> np.ndarray:
        shares = np.zeros((len(Z), self.cut_into), np.float32)
        nodes = self.V, self.thresholds, SPLIT_SOFTNESS * self.spreads
        path_shares(Z, *nodes, self.cut_children, self.clusters, shares)
        return shares

    def projections(self, X: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield each split's node, the numbers of its rows in X (n, d) float32, and positions.

        Positions are V.x - threshold, float64, below 0 for the first child. Splits come in the
        tree's order, so that parents precede children.
        """
        places = {0: np.arange(len(X))}
        for node in map(int, self.splits[: self.cut_into - 1]):
            rows = places.pop(node)
            positions = np.einsum("nd,d->n", X[rows], self.V[node], dtype=np.float64)
            positions -= self.thresholds[node]
            below = positions < 0.0
            for child, side in zip(self.children[node], (below, ~below), strict=True):
                places[int(child)] = rows[side]
            yield node, rows, positions

    def facts(self) -> Facts:
        return {"n_clusters": self.cut_into}

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], d: int | None = None
    ) -> Self:
        return super().restored({**facts, "cut_into": facts.get("n_clusters")}, arrays, d)

    def check(self) -> None:
        """Raise DataError unless the splits are all inner nodes, parents first, and sizes agree."""
        inner = np.flatnonzero(self.children[:, 0] >= 0)
        if not np.array_equal(np.sort(self.splits), inner):
            raise DataError("array splits: expected every node with children once, found others")
        place = np.full(len(self.children), len(inner))
        place[self.splits] = np.arange(len(inner))
        if (place[self.children[inner]] < place[inner, None]).any():
            raise DataError("array splits: expected parents before children, found a child first")
        if len(self.curve) != len(inner) + 1:
            raise DataError(f"array curve: expected {len(inner) + 1}, found {len(self.curve)}")
        if self.cut_into > len(self.curve):
            raise DataError(
                f"fact n_clusters: expected {len(self.curve)} at most, found {self.cut_into}"
            )
