"""Engine that clusters rows by their neighbour graph, and labels all other rows by landmarks.

| step | where |
|---|---|
| choose rows and axes | `GraphEngine.key_ranges`, `set_pilot` |
| compute coordinates of these rows | `GraphEngine.place` |
| cluster the coordinates | `LevelTreeEngine` |
| label other rows by landmarks | `GraphEngine.rule` |
"""

from functools import partial
from typing import Any

import numpy as np

from distsvc.job.parameters import completed
from distsvc.kernels.rows import project
from distsvc.models.graph.coordinates import NoGraphReason, diffusion_coordinates
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.rows import sampling
from distsvc.models.rows.principal_components import SEARCHED, principal_components
from distsvc.models.rows.sampling import PILOT_ROWS, Ranges
from distsvc.models.rows.threads import map_threads, one_thread
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.boundary.labelling import Nearest
from distsvc.models.support_vector.level_tree.engine import Grown, LevelTreeEngine
from distsvc.models.support_vector.level_tree.ensemble import Ensemble
from distsvc.models.support_vector.level_tree.level_sets import LevelSets

GRAPH_ROWS = 10_000
"""Maximum number of rows in a graph."""

LANDMARKS = 2_000
"""Minimum number of landmarks, if the graph has enough points."""

COMPARED = 60_000
"""Number of coordinates of all landmarks together, if few axes allow more than `LANDMARKS`."""

LANDMARKS_OF_EACH = 20
"""Minimum number of landmarks of each cluster, if it has enough points."""


class GraphEngine:
    """Clusters rows by the level tree of their diffusion coordinates.

    Equal rows are one point of the graph; otherwise repeated rows would be a cluster of their own.
    """

    axes: np.ndarray  # (p, d) float32: dimensions of the graph: all columns or principal components
    keys: np.ndarray  # (m,) uint64: keys of the points, in ascending order
    points: np.ndarray  # (m, p) float32: distinct rows, projected onto the axes, sorted by key
    point_of: np.ndarray  # (n,) int64: index of the point of each row
    coordinates: np.ndarray | None  # (m, q) float32: diffusion coordinates of the points
    without: NoGraphReason | None  # reason if there are no coordinates
    tree: LevelTreeEngine  # clusters the coordinates
    placed: bool  # whether the points are set
    previous_labels: np.ndarray | None  # labels that the previous run's rule gives the first rows
    # (l, p) float32: pilot rows along the axes, with medians of their cells in place of draws
    medians: np.ndarray | None = None
    n_jobs: int | None = 1  # threads; the number changes no answer

    def __init__(self, parameters: Parameters, seed: int):
        self.parameters, self.seed = Parameters(**vars(parameters) | {"nu": None}), seed
        self.previous_labels, self.placed = None, False
        self.coordinates = self.without = None

    def key_ranges(self, n_rows: int) -> Ranges:
        return sampling.key_blocks(n_rows, min(n_rows, GRAPH_ROWS))

    def set_pilot(self, pilot: np.ndarray) -> None:
        """Set the axes from centred pilot rows (m, d) float32, in the order of their keys."""
        d = pilot.shape[1]
        if d <= SEARCHED:
            self.axes = np.eye(d, dtype=np.float32)
            return
        with one_thread():  # the last bits depend on the number of threads
            found = principal_components(pilot.astype(np.float64))
        self.axes = np.ascontiguousarray(found.T, np.float32)

    def place(self, Z: np.ndarray, keys: np.ndarray) -> None:
        """Set points and coordinates from centred rows Z (m, d) float32, sorted by keys (m,)."""
        placed = project(Z, self.axes)
        _, first, number = np.unique(placed, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # points in the order of their first rows
        rank, first = np.argsort(order), first[order]
        points = np.ascontiguousarray(placed[first])
        coordinates = diffusion_coordinates(points, self.n_jobs)
        is_lattice = np.all((Z.min(axis=0) == Z) | (Z.max(axis=0) == Z))  # columns have two values
        if not isinstance(coordinates, NoGraphReason) and is_lattice:
            coordinates = NoGraphReason.LATTICE
        self.take(points, keys[first], rank[number.ravel()], coordinates)

    def take(
        self,
        points: np.ndarray,
        keys: np.ndarray,
        point_of: np.ndarray,
        coordinates: np.ndarray | NoGraphReason,
    ) -> None:
        """Set the points (m, p) along the axes, with their keys (m,), and their coordinates (m, q).

        Row i is equal to point ``point_of[i]``. `coordinates` may be the reason why there are none.
        """
        self.points, self.keys, self.point_of = points, keys, point_of
        self.placed = True
        self.coordinates = self.without = None
        if isinstance(coordinates, NoGraphReason):
            self.without = coordinates
        else:
            self.coordinates = coordinates
            self.tree = LevelTreeEngine(self.parameters, self.seed)
            self.tree.n_jobs = self.n_jobs
            self.tree.set_pilot(coordinates[:PILOT_ROWS], len(points))
            if self.previous_labels is not None:
                first = np.unique(point_of, return_index=True)[1]
                self.tree.previous_labels = self.previous_labels[
                    first[first < len(self.previous_labels)]
                ]

    @property
    def seen(self) -> np.ndarray:
        """Coordinates (m, q) float32 of the points, in the directions that the tree uses."""
        assert self.coordinates is not None
        return self.tree.seen(self.coordinates)

    def learn(self) -> None:
        """Train models on the coordinates, and choose the answer."""
        if self.coordinates is None:
            return
        ensemble, view = self.tree.ensemble, self.seen

        def train(part: int) -> list[Grown]:
            grown = partial(grow, ensemble, view=view, keys=self.keys)
            return map_threads(grown, ensemble.rounds[part], self.n_jobs)

        self.tree.choose_early(train)

    def labels(self, found: LevelSets) -> np.ndarray:
        """Return labels (m,) int32 of the points in a cut of the tree; 0 is the largest cluster."""
        return self._numbered(found)[0]

    def numbers(self, found: LevelSets) -> np.ndarray:
        """Return the number (k,) int32 that `labels` gives to each cluster of a cut.

        The cut numbers clusters by size on the tree's pilot, `labels` by size on the graph's rows.
        A cluster without rows of the graph has the number -1.
        """
        return self._numbered(found)[1]

    def _numbered(self, found: LevelSets) -> tuple[np.ndarray, np.ndarray]:
        labels, k = found.labels(self.seen), found.answer.n_clusters
        own = sizes = np.bincount(labels[self.point_of], minlength=k)
        if self.medians is not None:
            landmarks = np.flatnonzero(self._are_landmarks(labels))
            nearest = landmarks[Nearest(self.points[landmarks])(self.medians)]
            sizes = np.bincount(labels[nearest], minlength=k)
        number = np.empty(k, np.int32)
        number[np.lexsort((-own, -sizes, own == 0))] = np.arange(k)
        number[own == 0] = -1
        return number[labels], number

    def _are_landmarks(self, labels: np.ndarray) -> np.ndarray:
        """Return a mask (l,) bool that chooses landmarks from the first l points, by label."""
        order = np.argsort(labels, kind="stable")
        rank_in_cluster = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])
        mask = np.zeros(len(labels), bool)
        mask[order] = rank_in_cluster < LANDMARKS_OF_EACH
        mask[: max(LANDMARKS, COMPARED // self.points.shape[1])] = True
        return mask

    def rule(self, labels: np.ndarray, scored: dict[str, Any]) -> LandmarkRule:
        """Return the rule that labels rows by landmarks, from labels (l,) of the first l points.

        Landmarks are the first points, at least `LANDMARKS`, and the first `LANDMARKS_OF_EACH`
        points of every cluster. Points are in random order. `scored` has the values of the rule's
        fields that it inherits from `Scored`.
        """
        kept, points = self._are_landmarks(labels), self.points[: len(labels)]
        return LandmarkRule.of(self.axes, points[kept], labels[kept], points, labels, scored)


def grow(ensemble: Ensemble, number: int, view: np.ndarray, keys: np.ndarray) -> Grown:
    """Train model `number` of the ensemble; return its tree, and sums that test the tree's splits.

    `view` (m, q) are the points' coordinates, sorted by keys (m,). `LevelTree.tested` explains the
    sums (4, b).
    """
    blocks = partial(sampling.memory_blocks, view, keys, ensemble.seed)
    tree = ensemble.grow(number, view[:PILOT_ROWS], [(0, int(keys[-1]) + 1)], blocks)
    return tree, ensemble.test(number, tree, len(view), blocks)


def clarity(rows: np.ndarray, seed: int) -> float:
    """Return the standing of the graph's clusters in scaled `rows` (m, d) float64.

    A job uses the standing to choose between two scalings of the columns. The first 3,000 rows
    decide, so `rows` are in random order. The standing is 0 without a graph, or with one cluster.
    """
    engine = GraphEngine(Parameters(**completed("support-vector", {})), seed)
    some = rows[:3_000]
    some = (some - some.mean(axis=0)).astype(np.float32)
    engine.set_pilot(some)
    engine.place(some, np.arange(len(some), dtype=np.uint64))
    engine.learn()
    if engine.coordinates is None:
        return 0.0
    answer = engine.tree.levels.answer
    return answer.standing if answer.n_clusters > 1 else 0.0
