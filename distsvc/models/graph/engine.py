"""The engine of graph views: a level tree of diffusion coordinates, and landmarks for other rows.

| step | where |
|---|---|
| which rows, and along which axes they are near | `GraphEngine.key_ranges`, `set_pilot` |
| coordinates of these rows | `GraphEngine.place` |
| clusters of the coordinates | `LevelTreeEngine`, as of a table of few columns |
| landmarks, which label other rows | `GraphEngine.rule` |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from distsvc.kernels.projection import project
from distsvc.models.graph.coordinates import Without, diffusion_coordinates
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint
from distsvc.models.rows.sampling import PILOT_ROWS, Ranges
from distsvc.models.rows.threads import on_threads
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.level_tree.directions import SEARCHED, principal_components
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.ensemble import Ensemble
from distsvc.models.support_vector.level_tree.level_sets import LevelSets
from distsvc.models.support_vector.level_tree.tree import LevelTree

GRAPH_ROWS = 20_000
"""Most rows of a graph."""

LEAST_STANDING = 0.15
"""Of a winner, below which the answer is one cluster: a graph finds clusters more easily."""

LANDMARKS = 2_000
"""Fewest rows that label others, where the graph has so many."""

COMPARED = 60_000
"""Values, at most, that a row is compared with, where more landmarks than the fewest are kept."""

OF_EACH = 20
"""Rows, at least, that label others, of a cluster that has so many."""


class GraphEngine:
    """Clusters rows by the level tree of their diffusion coordinates.

    Rows are near each other along `axes` (p, d): all columns, or their 100 principal components.
    Equal rows are one point: else what is repeated would be a cluster by itself. The `points` (m,
    p) float32, in the order of their `keys` (m,), have the `coordinates` (m, q) float32, which
    `tree` clusters; None where they have none, and `without` says why. Row i is ``point_of[i]``.
    """

    axes: np.ndarray
    keys: np.ndarray
    points: np.ndarray
    point_of: np.ndarray
    coordinates: np.ndarray | None
    without: Without | None
    tree: LevelTreeEngine
    placed: bool  # whether points were taken
    before: np.ndarray | None  # (m,) labels of the first rows in the answer of the run before
    n_jobs: int | None = 1  # threads, which change no answer
    least_standing = LEAST_STANDING

    def __init__(self, parameters: Parameters, seed: int):
        self.parameters, self.seed = replace(parameters, nu=None), seed
        self.before, self.placed = None, False
        self.coordinates = self.without = None

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the ranges of keys of the graph's rows, of a table of so many."""
        return sampling.key_blocks(n_rows, min(n_rows, GRAPH_ROWS))

    def set_pilot(self, pilot: np.ndarray) -> None:
        """Settle the axes from centred pilot rows (m, d) float32, in the order of their keys."""
        d = pilot.shape[1]
        if d <= SEARCHED:
            self.axes = np.eye(d, dtype=np.float32)
            return
        with threadpool_limits(1):  # several would give other last bits
            found = principal_components(pilot.astype(np.float64))
        self.axes = np.ascontiguousarray(found.T, np.float32)

    def place(self, Z: np.ndarray, keys: np.ndarray) -> None:
        """Find the coordinates of centred rows Z (m, d) float32, in the order of keys (m,)."""
        points, first, point_of = _different(project(Z, self.axes))
        coordinates = diffusion_coordinates(points, self.n_jobs)
        if not isinstance(coordinates, Without) and _two_valued(Z):
            coordinates = Without.LATTICE
        self.take(points, keys[first], point_of, coordinates)

    def take(
        self,
        points: np.ndarray,
        keys: np.ndarray,
        point_of: np.ndarray,
        coordinates: np.ndarray | Without,
    ) -> None:
        """Take points (m, p) along the axes, whose coordinates (m, q) are known, or are none."""
        self.points, self.keys, self.point_of = points, keys, point_of
        self.placed = True
        self.coordinates = self.without = None
        if isinstance(coordinates, Without):
            self.without = coordinates
        else:
            self.coordinates = coordinates
            self.tree = LevelTreeEngine(self.parameters, self.seed)
            self.tree.least_standing, self.tree.n_jobs = self.least_standing, self.n_jobs
            self.tree.set_pilot(coordinates[:PILOT_ROWS], len(points))
            if self.before is not None:
                first = np.unique(point_of, return_index=True)[1]
                self.tree.go_on_from(self.before[first[first < len(self.before)]])
                self.tree.follow = False

    @property
    def seen(self) -> np.ndarray:
        """The coordinates (m, q) float32 as the models see them."""
        assert self.coordinates is not None
        return self.tree.seen(self.coordinates)

    def learn(self) -> None:
        """Train all models on the coordinates, and choose."""
        if self.coordinates is None:
            return
        ensemble, view = self.tree.ensemble, self.seen
        members = range(len(ensemble.members))
        grown = on_threads(
            lambda number: grow(ensemble, number, view, self.keys), members, self.n_jobs
        )
        trees, sums = zip(*grown, strict=True)
        self.tree.choose(trees, sums)

    def labels(self, found: LevelSets) -> np.ndarray:
        """Return the clusters (m,) int32 of the points in a cut of the tree, 0 the largest."""
        return self._numbered(found)[0]

    def numbers(self, found: LevelSets) -> np.ndarray:
        """Return the number (k,) int32 that each cluster of a cut has in `labels`.

        The tree counts clusters on other rows, so it may number them otherwise. Those without rows
        have none, which is -1.
        """
        return self._numbered(found)[1]

    def _numbered(self, found: LevelSets) -> tuple[np.ndarray, np.ndarray]:
        labels = found.voter.labels(found.rows(self.seen))
        sizes = np.bincount(labels[self.point_of], minlength=found.answer.n_clusters)
        number = np.empty(len(sizes), np.int32)
        number[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
        number[sizes == 0] = -1
        return number[labels], number

    def rule(self, labels: np.ndarray, scored: dict[str, Any]) -> LandmarkRule:
        """Return the rule of labels (m,) of the points, with the fields of `Scored`.

        All points of a small graph are landmarks; of a larger one the first, which are in random
        order, and the first of each cluster.
        """
        most = max(LANDMARKS, COMPARED // self.points.shape[1])
        kept = _rank_in_cluster(labels) < OF_EACH
        kept[:most] = True
        points = self.points
        return LandmarkRule.of(self.axes, points[kept], labels[kept], points, labels, scored)


def grow(
    ensemble: Ensemble,
    number: int,
    view: np.ndarray,
    keys: np.ndarray,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> tuple[LevelTree, np.ndarray]:
    """Train a model on viewed coordinates (m, q) in the order of keys (m,); grow and test its tree.

    Return the tree, and the sums (4, b) int64 of its splits.
    """

    def blocks(stream: int, some: Ranges, first: int) -> Iterator[np.ndarray]:
        return sampling.memory_blocks(view, keys, some, ensemble.seed, stream, first)

    high = int(keys[-1]) + 1
    tree = ensemble.grow(number, view[:PILOT_ROWS], [(0, high)], blocks, checkpoint)
    return tree, ensemble.test(number, tree, len(view), blocks)


def _different(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different rows (k, p) of some (m, p), where each is first, and which each is.

    They are in the order of their first places (k,); the last are their numbers (m,) for the rows.
    """
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return np.ascontiguousarray(rows[first[order]]), first[order], rank[number.ravel()]


def _two_valued(rows: np.ndarray) -> bool:
    """Return whether no column of rows (m, d) has more than two values."""
    return bool(np.all((rows == rows.min(axis=0)) | (rows == rows.max(axis=0))))


def _rank_in_cluster(labels: np.ndarray) -> np.ndarray:
    """Return how many rows before each have its label, (m,) int64, from labels (m,)."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    ranks = np.empty(len(labels), np.int64)
    ranks[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks
