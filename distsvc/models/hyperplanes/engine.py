"""The phases of iMDH: grow trees of hyperplanes, prune them, keep the one that agrees most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.models.hyperplanes.rule import TreeRule
from distsvc.models.hyperplanes.tree import ClusterTree, Cut, GrowingTree, elbow, valley
from distsvc.models.rows import sampling
from distsvc.models.rows.agreement import rand_indices
from distsvc.models.rows.checkpoints import (
    MAX_STATE_COUNT,
    NO_CHECKPOINT,
    Checkpoint,
    Position,
    State,
)
from distsvc.models.rows.sampling import PILOT_ROWS, Ranges, Reservoir
from distsvc.models.rows.threads import on_threads
from distsvc.models.rules.fields import Facts, check_fields, forms_of, whole

ROWS_WANTED = 250_000
MOST_PASSES = 5
FEWEST_RESTARTS, MOST_RESTARTS = 5, 60
SMALLEST_SPREAD = 1e-15
"""Smallest standard deviation, and one over the largest, of a column that is scaled."""

LARGE_SAMPLE = 1_000_000
"""Largest `max_samples` that wide rows reduce; above it, all rows that are asked for are used."""

RESTART_ROWS = 4_000_000
"""Rows that all restarts learn from, where there are more than `FEWEST_RESTARTS` of them."""

VALLEY_RESTARTS = 20
"""Maximum number of restarts in which a valley is sought: the largest z of more grows by chance."""

LEAST_AGREEMENT = 0.5
"""Mean adjusted Rand index between restarts below which the number of clusters is lowered."""


@dataclass
class Stream:
    """A restart's position in its stream of rows, the number of rows taken, and its tree."""

    position: Position
    n_rows: int = 0
    tree: GrowingTree | None = None

    def state(self) -> State:
        """Return facts and arrays."""
        return {"place": self.position.facts(), "n_rows": self.n_rows}, dict(vars(self.tree))


class TreeEngine:
    """Grows a tree for every restart and chooses one, for `fit` and for a job.

    `key_ranges` says which rows are learned from, `set_pilot` settles the centre, `grow` learns one
    tree, on any machine, and `choose` ends with an answer.

    `parameters` are all those of `IncrementalMDH`, in range; `seed` is that of the row keys and of
    the orders of rows.
    """

    n_rows: int
    centre: np.ndarray  # (d,) float64, the origin of the rows
    scale: np.ndarray | None = None  # (d,) float32, what centred rows are divided by to learn
    pilot: np.ndarray  # (m, d) float32, rows as trees see them that the choice is made on
    # Set by `choose`; the last five are as the attributes of `IncrementalMDH`:
    cut: Cut  # the answer
    restart: int  # number of the chosen tree among those grown
    n_clusters: int
    agreement: float  # NaN for one tree
    valleys: np.ndarray
    clearest_valley: float
    n_samples: int
    lowered: bool = False  # whether there are fewer clusters than at the elbow

    n_jobs: int | None = 1  # threads, which change no answer

    def __init__(self, parameters: Mapping[str, Any], seed: int):
        self.parameters = dict(parameters)
        self.seed = seed
        self.n_features = 1
        self.notes: list[str] = []

    def set_width(self, n_features: int) -> None:
        """Say how many columns the table has: of wide rows the sample has fewer."""
        self.n_features = n_features

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the blocks of a pass over at most `max_samples` of the rows.

        Up to `LARGE_SAMPLE`, wide rows are fewer: they take `sampling.SAMPLE_BYTES` at most.
        """
        return sampling.key_blocks(n_rows, self._sample_rows(n_rows))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle the centre from pilot rows (m, d) of n_rows, in the order of their keys."""
        self.n_rows = n_rows
        self.centre = pilot.mean(axis=0, dtype=np.float64)
        rows = self.centred(pilot)
        if self.parameters["scale"] == "standard":
            spread = rows.std(axis=0, dtype=np.float64)
            usual = (spread > SMALLEST_SPREAD) & (spread < 1.0 / SMALLEST_SPREAD)
            self.scale = np.where(usual, spread, 1.0).astype(np.float32)
        self.pilot = self.scaled(rows)

    def scaled(self, Z: np.ndarray) -> np.ndarray:
        """Return centred rows (n, d) float32 as trees see them."""
        return Z if self.scale is None else np.ascontiguousarray(Z / self.scale)

    def centred(self, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the rows (n, d) as the kernels want them: centred, float32, C order."""
        out = np.empty(X.shape, np.float32) if out is None else out
        return np.subtract(X, self.centre, out=out, dtype=np.float64, casting="unsafe")

    def n_passes(self, n_rows: int) -> int:
        """Return the number of passes over the sample of a table of so many rows."""
        n = self._sample_rows(n_rows)
        return int(self.parameters["passes"] or min(max(-(-ROWS_WANTED // n), 1), MOST_PASSES))

    def n_restarts(self, n_rows: int) -> int:
        """Return the number of trees that are learned from a table of so many rows."""
        wanted = RESTART_ROWS // (self._sample_rows(n_rows) * self.n_passes(n_rows))
        most = min(max(wanted, FEWEST_RESTARTS), MOST_RESTARTS)
        return int(self.parameters["n_init"] or most)

    def grow(
        self,
        restart: int,
        n_rows: int,
        blocks: Callable[[int, Ranges, int], Iterable[np.ndarray]],
        checkpoint: Checkpoint = NO_CHECKPOINT,
    ) -> GrowingTree:
        """Learn a tree and count its rows, in a last pass that is in the order of keys.

        ``blocks(epoch, ranges, first)`` are centred rows of a pass, from range number `first` on.
        Every pass of every restart takes the ranges in another order, and the rows of a range too.
        """
        ranges, passes = self.key_ranges(n_rows), self.n_passes(n_rows)
        stream = checkpoint.last(self._restored) or Stream(Position(restart * passes))
        position = stream.position
        while position.epoch < (restart + 1) * passes:
            order = sampling.epoch_order(self.seed, position.epoch, len(ranges), len(ranges))
            shuffled = [ranges[i] for i in order]
            for block in position.pieces(blocks(position.epoch, shuffled, position.block)):
                stream.tree = stream.tree or self.seedling(block.shape[1])
                self.learn(stream.tree, self.scaled(block))
                stream.n_rows += len(block)
                checkpoint.keep(stream.n_rows, stream.state)
        assert stream.tree is not None
        for block in position.pieces(blocks(0, ranges, position.block)):
            stream.tree.count(self.scaled(block))
            stream.n_rows += len(block)
            checkpoint.keep(stream.n_rows, stream.state)
        return stream.tree

    def grow_all(self, rows: np.ndarray, keys: np.ndarray, n_rows: int) -> list[GrowingTree]:
        """Learn the trees of all restarts from centred rows (n, d) in the order of keys (n,)."""

        def blocks(epoch: int, ranges: Ranges, first: int) -> Iterable[np.ndarray]:
            return sampling.memory_blocks(rows, keys, ranges, self.seed, epoch, first)

        restarts = range(self.n_restarts(n_rows))
        return on_threads(lambda number: self.grow(number, n_rows, blocks), restarts, self.n_jobs)

    def seedling(self, n_features: int) -> GrowingTree:
        """Return the tree before it has learned anything."""
        return GrowingTree.start(self.parameters["depth"], n_features)

    def learn(self, tree: GrowingTree, Z: np.ndarray) -> None:
        """Let a tree learn from centred rows Z (n, d) float32, in their order."""
        of = self.parameters
        most = of["max_effective_samples"] or 2**62
        clip = float(of["clip"]) or np.inf
        alpha, penalty, bandwidth = (float(of[name]) for name in ("alpha", "penalty", "bandwidth"))
        tree.learn(Z, alpha, penalty, bandwidth, int(most), clip)

    def choose(self, trees: Sequence[GrowingTree]) -> None:
        """Prune the trees; keep the one whose clusters of the pilot agree most with the others.

        Raises
        ------
        UnusableRowsError
            Where sums of squares are beyond float32.

        """
        of = self.parameters
        grown = [tree.with_rows(of["growth"]) for tree in trees]
        if not all(np.isfinite(tree.curve).all() for tree in grown):
            raise UnusableRowsError("sums of squares are not finite in float32; scale the features")
        cuts = [tree.cut(of["n_clusters"] or elbow(tree.curve, of["elbow"])) for tree in grown]
        valleys = [self._valleys(cut) for cut in cuts[:VALLEY_RESTARTS]]
        self.clearest_valley = float(max(z.max(initial=0.0) for z in valleys))
        cuts, alike = self._repeated(cuts)
        self.restart, self.agreement = most_agreeing(alike)
        cut = self._settled(cuts[self.restart])
        self.valleys = self._valleys(cut)
        self.cut, self.n_clusters = self._unscaled(cut), cut.n_clusters
        self.n_samples = round(float(trees[self.restart].counts.sum()))

    @property
    def cluster_tree(self) -> ClusterTree:
        """The tree of the answer."""
        return self.cut.tree

    @property
    def rule(self) -> TreeRule:
        """The rule of the answer."""
        return self.rule_of(self.n_clusters)

    def rule_of(self, n_clusters: int) -> TreeRule:
        """Return the rule of the tree cut into so many clusters, or all it has."""
        tree = self.cluster_tree
        return TreeRule(**vars(tree), cut_into=min(n_clusters, tree.n_leaves))

    def fitted_facts(self) -> Facts:
        """Return the numbers that the fit arrived at."""
        return {
            "n_clusters": self.n_clusters,
            "n_leaves": self.cluster_tree.n_leaves,
            "n_samples": self.n_samples,
            "n_passes": self.n_passes(self.n_rows),
            "n_trees": self.n_restarts(self.n_rows),
            "share_sampled": self.n_samples / self.n_rows,
            "agreement": None if np.isnan(self.agreement) else self.agreement,
            "restart": self.restart,
            "clearest_valley": self.clearest_valley,
        }

    def _restored(self, facts: Facts, arrays: dict[str, np.ndarray]) -> Stream:
        """Return where a restart was; `DataError` for what is none of its states."""
        forms = forms_of(GrowingTree)
        check_fields({"n_rows": whole(0, MAX_STATE_COUNT)}, facts, {})
        check_fields(forms, arrays, {"nodes": 2 ** self.parameters["depth"] - 1})
        tree = GrowingTree(**{name: arrays[name] for name in forms})
        return Stream(Position.restored(facts.get("place", {})), facts["n_rows"], tree)

    def _sample_rows(self, n_rows: int) -> int:
        wanted = self.parameters["max_samples"]
        if wanted is None:
            return n_rows
        if wanted <= LARGE_SAMPLE:
            wanted = min(wanted, sampling.most_rows(self.n_features))
        return min(n_rows, int(wanted))

    def _valleys(self, cut: Cut) -> np.ndarray:
        """Return the z of every split of a cut (k - 1,), by importance."""
        return np.array([valley(positions)[0] for *_, positions in cut.projections(self.pilot)])

    def _repeated(self, cuts: list[Cut]) -> tuple[list[Cut], np.ndarray]:
        """Return cuts on which the restarts agree, and their Rand indices (m, m) on the pilot.

        Cuts at the elbow whose mean index is below `LEAST_AGREEMENT` are replaced by cuts into
        fewer clusters: the largest number below the median elbow with that mean, if there is one.
        """
        alike = self._alike(cuts)
        one_cluster = self.clearest_valley < self.parameters["valley"]
        if self.parameters["n_clusters"] is not None or one_cluster:
            return cuts, alike
        if _mean_agreement(alike) >= LEAST_AGREEMENT:
            return cuts, alike
        usual = int(np.median([cut.n_clusters for cut in cuts]))
        for k in range(usual - 1, 1, -1):
            fewer = [cut.tree.cut(k) for cut in cuts]
            found = self._alike(fewer)
            if _mean_agreement(found) >= LEAST_AGREEMENT:
                self.lowered = True
                self.notes.append(
                    f"the number of clusters was lowered from {usual} to {k}, the most on which "
                    "trees learned from other orders of the rows agree (mean adjusted Rand index "
                    f"{_mean_agreement(found):.2f}, at the elbow {_mean_agreement(alike):.2f})"
                )
                return fewer, found
        return cuts, alike

    def _alike(self, cuts: Sequence[Cut]) -> np.ndarray:
        return rand_indices([cut.labels_of(self.pilot) for cut in cuts])

    def _unscaled(self, cut: Cut) -> Cut:
        """Return a cut with hyperplanes of centred rows, which are not scaled."""
        if self.scale is None:
            return cut
        tree = cut.tree
        V = tree.V.astype(np.float64) / self.scale
        length = np.sqrt((V * V).sum(axis=1))
        found = replace(
            tree,
            V=(V / length[:, None]).astype(np.float32),
            thresholds=tree.thresholds / length,
            spreads=tree.spreads / length,
            b=tree.b / length,
        )
        return Cut(found, cut.children, cut.labels)

    def _settled(self, cut: Cut) -> Cut:
        """Return one cluster where no split is in a valley, else the cut; note oddities."""
        wanted, least = self.parameters["n_clusters"], self.parameters["valley"]
        if wanted is None and cut.n_clusters > 1 and self.clearest_valley < least:
            self.notes.append(
                f"the answer is one cluster: none of the {cut.n_clusters - 1} splits at the elbow, "
                "in any tree, passes through a valley of the density (the clearest has z = "
                f"{self.clearest_valley:.1f}, less than valley = {least:g})"
            )
            return cut.tree.cut(1)
        if wanted is not None and cut.n_clusters < wanted:
            self.notes.append(
                f"{wanted} clusters were asked for, but only {cut.n_clusters} leaves of "
                "the tree have rows"
            )
        return cut


class TreeStream:
    """One tree, and the rows of the stream that a choice of clusters needs.

    Rows are counted as they come, under the tree of that moment. `pilot` (m, d) float32 are centred
    rows of the stream: the latest where old ones are forgotten, else a sample of all.
    """

    def __init__(self, engine: TreeEngine, n_features: int):
        self.engine = engine
        self.growing = engine.seedling(n_features)
        self.pilot = np.zeros((0, n_features), np.float32)
        self._sample = Reservoir.empty(engine.seed, n_features)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self._sample.n_seen

    def add(self, X: np.ndarray) -> None:
        """Learn from the next rows X (n, d), in their order, and count them."""
        Z = self.engine.scaled(self.engine.centred(X))
        self.engine.learn(self.growing, Z)
        self.growing.count(Z)
        self._sample.add(Z)
        most = self.engine.parameters["max_effective_samples"]
        if most is None:
            self.pilot = self._sample.rows
        else:
            self.growing.forget(min(1.0, most / float(self.growing.counts.sum())))
            self.pilot = np.concatenate([self.pilot, Z])[-min(most, PILOT_ROWS) :]

    def choose(self) -> None:
        """Let the engine choose the clusters of the tree as it is now."""
        self.engine.pilot, self.engine.notes = self.pilot, []
        self.engine.choose([self.growing])


def most_agreeing(alike: np.ndarray) -> tuple[int, float]:
    """Return the labelling that agrees most with the others, and its mean agreement with them.

    `alike` (m, m) are the adjusted Rand indices of the labellings. The mean is NaN for one of them.
    """
    m = len(alike)
    if m == 1:
        return 0, float("nan")
    mean = ((alike.sum(axis=1) - 1.0) / (m - 1)).round(12)
    best = int(np.argmax(mean))
    return best, float(mean[best])


def _mean_agreement(alike: np.ndarray) -> float:
    """Return the mean of the indices of different labellings; 1 for one labelling."""
    m = len(alike)
    return float((alike.sum() - m) / (m * (m - 1))) if m > 1 else 1.0
