"""Engine of iMDH: each restart grows a tree from another order of the rows, and one is chosen."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.job.parameters import Given
from distsvc.models.hyperplanes.tree import GrowingTree, TreeRule, elbow, valley
from distsvc.models.rows import sampling
from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.checkpoints import (
    MAX_STATE_COUNT,
    NO_CHECKPOINT,
    Checkpoint,
    Position,
    State,
)
from distsvc.models.rows.sampling import PILOT_ROWS, Ranges, Reservoir
from distsvc.models.rows.scaling import subtract_centre
from distsvc.models.rows.threads import map_threads
from distsvc.models.rules.fields import Facts, check_fields, forms_of, whole

SMALLEST_SPREAD = 1e-15
"""Minimum standard deviation by which a column is divided; the maximum is its inverse."""

LEAST_AGREEMENT = 0.5
"""Mean adjusted Rand index between the restarts' trees, below which fewer clusters are tried."""

MIN_SHARED_INFORMATION = 0.5
"""Mean normalised mutual information at which the restarts' trees agree well enough. The number of
clusters is then kept, even if the Rand index is below `LEAST_AGREEMENT`."""

Blocks = Callable[[int, Ranges, int], Iterable[np.ndarray]]
"""Function (epoch, ranges, first) that yields a block of rows (n, d) for each key range, from index
`first` on. The epoch determines the order of the rows in a block."""


@dataclass
class Stream:
    """State of one restart while its tree grows, from which a stopped job continues."""

    position: Position  # of the next row
    n_rows: int = 0  # rows read so far, in all passes
    tree: GrowingTree | None = None  # None before the first block

    def state(self) -> State:
        return {"place": self.position.facts(), "n_rows": self.n_rows}, dict(vars(self.tree))


class TreeEngine:
    """Grows a tree for every restart, and chooses one.

    `parameters` are checked parameters of `IncrementalMDH`. `seed` determines the rows' keys and
    orders.
    """

    n_rows: int
    centre: np.ndarray  # (d,) float64, the origin of the rows
    scale: np.ndarray | None = None  # (d,) float32, divisor of centred rows
    pilot: np.ndarray  # (m, d) float32, centred rows for `choose`; `set_scale` scales them
    # Set by `choose`; see also the attributes of `IncrementalMDH`:
    rule: TreeRule  # the answer
    restart: int  # index of the chosen tree
    agreement: float  # NaN for one tree
    valleys: np.ndarray  # (k - 1,) z of the chosen tree's splits
    clearest_valley: float  # median of `tree_valleys`
    tree_valleys: np.ndarray  # (m,) largest z of every tree's splits
    n_samples: int  # rows counted in the chosen tree
    lowered: bool = False  # whether `_agreeing_cuts` lowered the number of clusters

    n_jobs: int | None = 1  # threads, which change no answer

    def __init__(self, parameters: Given, seed: int):
        self.parameters = dict(parameters)
        self.seed = seed
        self.n_features = 1
        self.notes: list[str] = []

    def set_width(self, n_features: int) -> None:
        """Set the number of columns; a wide table has a smaller sample."""
        self.n_features = n_features

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the sample, one for each block."""
        return sampling.key_blocks(n_rows, self._sample_rows(n_rows))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the centre from pilot rows (m, d), sorted by key, of a table of `n_rows`."""
        self.n_rows = n_rows
        self.centre = pilot.mean(axis=0, dtype=np.float64)
        self.pilot = self.centred(pilot)

    @property
    def needs_deviations(self) -> bool:
        """Whether `set_scale` needs `deviations`, since the sample is larger than the pilot."""
        is_larger = self._sample_rows(self.n_rows) > len(self.pilot)
        return is_larger and self.parameters["scale"] == "standard"

    def set_scale(self, deviations: np.ndarray | None = None) -> None:
        """Set the scale from standard deviations (d,) float64, and scale the pilot.

        If None, the pilot's deviations are used. If `needs_deviations`, pass the sample's. A column
        that hardly varies in the pilot would otherwise have a huge weight.
        """
        if self.parameters["scale"] == "standard":
            if deviations is None:
                deviations = self.pilot.std(axis=0, dtype=np.float64)
            usual = (deviations > SMALLEST_SPREAD) & (deviations < 1.0 / SMALLEST_SPREAD)
            self.scale = np.where(usual, deviations, 1.0).astype(np.float32)
        self.pilot = self.scaled(self.pilot)

    def deviations(self, n_rows: int, blocks: Blocks) -> np.ndarray:
        """Return the standard deviations (d,) float64 of the sample's columns, in one pass."""
        n, sums = 0, np.zeros(1)
        for block in blocks(0, self.key_ranges(n_rows), 0):
            rows = block.astype(np.float64)
            n, sums = n + len(rows), sums + np.array([rows.sum(axis=0), (rows * rows).sum(axis=0)])
        mean, square = sums / n
        return np.sqrt(np.maximum(square - mean * mean, 0.0))

    def scaled(self, Z: np.ndarray) -> np.ndarray:
        """Return centred rows (n, d) float32 divided by the scale."""
        return Z if self.scale is None else np.ascontiguousarray(Z / self.scale)

    def centred(self, X: np.ndarray) -> np.ndarray:
        return subtract_centre(X, self.centre)

    def n_passes(self, n_rows: int) -> int:
        n = self._sample_rows(n_rows)
        return int(self.parameters["passes"] or min(max(-(-250_000 // n), 1), 5))

    def n_restarts(self, n_rows: int) -> int:
        # Enough trees to learn from four million rows in total, but 5 to 60.
        wanted = 4_000_000 // (self._sample_rows(n_rows) * self.n_passes(n_rows))
        return int(self.parameters["n_init"] or min(max(wanted, 5), 60))

    def grow(
        self, restart: int, n_rows: int, blocks: Blocks, checkpoint: Checkpoint = NO_CHECKPOINT
    ) -> GrowingTree:
        """Learn a tree from the sample, then count the sample's rows in its nodes in a last pass.

        Each learning pass of each restart has its own order of key ranges, and of rows in a range.
        The last pass is in the order of keys.
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
        """Set the scale, and learn all trees from centred rows (n, d) with ascending keys (n,)."""
        blocks = partial(sampling.memory_blocks, rows, keys, self.seed)
        self.set_scale(self.deviations(n_rows, blocks) if self.needs_deviations else None)
        restarts = range(self.n_restarts(n_rows))
        return map_threads(lambda number: self.grow(number, n_rows, blocks), restarts, self.n_jobs)

    def seedling(self, n_features: int) -> GrowingTree:
        return GrowingTree.start(self.parameters["depth"], n_features)

    def learn(self, tree: GrowingTree, Z: np.ndarray) -> None:
        """Update a tree with scaled rows Z (n, d) float32, in their order."""
        given = self.parameters
        most = given["max_effective_samples"] or 2**62
        names = ("alpha", "penalty", "bandwidth")
        alpha, penalty, bandwidth = (float(given[name]) for name in names)
        tree.learn(Z, alpha, penalty, bandwidth, int(most), float(given["clip"]) or np.inf)

    def choose(self, trees: Sequence[GrowingTree]) -> None:
        """Prune the trees, and make `rule` from the tree that agrees most with all other trees."""
        given = self.parameters
        grown = [tree.with_rows(given["growth"]) for tree in trees]
        if not all(np.isfinite(tree.curve).all() for tree in grown):
            raise UnusableRowsError(
                "values are too large: their squares are not finite in float32; scale the "
                "features, such as by StandardScaler or preprocess.scale = 'standard'"
            )
        n_clusters, rule = given["n_clusters"], given["elbow"]
        cuts = [tree.cut(n_clusters or elbow(tree.curve, rule)) for tree in grown]
        # A maximum over all trees would grow with their number, by chance.
        self.tree_valleys = np.array([self._valleys(cut).max(initial=0.0) for cut in cuts])
        self.clearest_valley = float(np.median(self.tree_valleys))
        cuts, alike = self._agreeing_cuts(cuts)
        mean = (alike.sum(axis=1) - 1.0) / max(len(alike) - 1, 1)
        self.restart = int(np.argmax(mean.round(12)))  # the first if tied
        cut = self._final_cut(cuts[self.restart])
        own = alike[self.restart]
        self.agreement = share_alike(own if cut.n_clusters > 1 else np.ones_like(own))
        self.valleys = self._valleys(cut)
        self.rule = self._unscaled(cut)
        self.n_samples = round(float(trees[self.restart].counts.sum()))

    def fitted_facts(self) -> Facts:
        return {
            "n_clusters": self.rule.n_clusters,
            "n_leaves": self.rule.n_leaves,
            "n_samples": self.n_samples,
            "n_passes": self.n_passes(self.n_rows),
            "n_trees": self.n_restarts(self.n_rows),
            "share_sampled": self.n_samples / self.n_rows,
            "agreement": None if np.isnan(self.agreement) else self.agreement,
            "restart": self.restart,
            "clearest_valley": self.clearest_valley,
        }

    def _restored(self, facts: Facts, arrays: dict[str, np.ndarray]) -> Stream:
        """Return the stream that `Stream.state` has saved; raise DataError if it is damaged."""
        forms = forms_of(GrowingTree)
        check_fields({"n_rows": whole(0, MAX_STATE_COUNT)}, facts, {})
        check_fields(forms, arrays, {"nodes": 2 ** self.parameters["depth"] - 1})
        tree = GrowingTree(**{name: arrays[name] for name in forms})
        return Stream(Position.restored(facts.get("place", {})), facts["n_rows"], tree)

    def _sample_rows(self, n_rows: int) -> int:
        wanted = self.parameters["max_samples"]
        if wanted is None:
            return n_rows
        # An explicit large sample is not reduced for wide rows.
        if wanted <= 1_000_000:
            wanted = min(wanted, sampling.most_rows(self.n_features))
        return min(n_rows, int(wanted))

    def _valleys(self, cut: TreeRule) -> np.ndarray:
        """Return the z (k - 1,) of the valley at each split of a cut, the most important first."""
        return np.array([valley(positions)[0] for *_, positions in cut.projections(self.pilot)])

    def _agreeing_cuts(self, cuts: list[TreeRule]) -> tuple[list[TreeRule], np.ndarray]:
        """Return cuts of the m trees that agree, and Rand indices (m, m) of their pilot labels.

        If the mean index is below `LEAST_AGREEMENT`, all trees are cut into fewer clusters: the
        largest number with at least this index. `cuts` are returned unchanged if no number has it,
        or if the mutual information is at least `MIN_SHARED_INFORMATION`. Many small clusters lower
        the index more than the mutual information.
        """
        labels = [cut.labels(self.pilot) for cut in cuts]
        alike = rand_indices(labels)
        one_cluster = self.clearest_valley < self.parameters["valley"]
        if self.parameters["n_clusters"] is not None or one_cluster:
            return cuts, alike
        if _mean_agreement(alike) >= LEAST_AGREEMENT:
            return cuts, alike
        if mean_shared_information(labels) >= MIN_SHARED_INFORMATION:
            return cuts, alike
        usual = int(np.median([cut.n_clusters for cut in cuts]))
        for k in range(usual - 1, 1, -1):
            fewer = [cut.cut(k) for cut in cuts]
            found = rand_indices([cut.labels(self.pilot) for cut in fewer])
            if _mean_agreement(found) >= LEAST_AGREEMENT:
                self.lowered = True
                self.notes.append(
                    f"the number of clusters was lowered from {usual} to {k}, because trees from "
                    "other row orders have different clusters (mean adjusted Rand index with "
                    f"{usual} clusters: {_mean_agreement(alike):.2f}, with {k}: "
                    f"{_mean_agreement(found):.2f})"
                )
                return fewer, found
        return cuts, alike

    def _unscaled(self, cut: TreeRule) -> TreeRule:
        """Convert a tree that cuts scaled rows to an equal tree that cuts centred rows."""
        if self.scale is None:
            return cut
        V = cut.V.astype(np.float64) / self.scale
        length = np.sqrt((V * V).sum(axis=1))
        return replace(
            cut,
            V=(V / length[:, None]).astype(np.float32),
            thresholds=cut.thresholds / length,
            spreads=cut.spreads / length,
            b=cut.b / length,
        )

    def _final_cut(self, cut: TreeRule) -> TreeRule:
        """Return the cut, or one cluster if no split is in a valley; add notes."""
        wanted, least = self.parameters["n_clusters"], self.parameters["valley"]
        if wanted is None and cut.n_clusters > 1 and self.clearest_valley < least:
            self.notes.append(
                f"the answer is one cluster: none of the {cut.n_clusters - 1} splits at the elbow "
                "passes through a valley of the density (the deepest valley is "
                f"{self.clearest_valley:.1f} standard errors deep, the median over all trees; "
                f"expected at least valley = {least:g})"
            )
            return cut.cut(1)
        if wanted is not None and cut.n_clusters < wanted:
            self.notes.append(
                f"{wanted} clusters were asked for, but only {cut.n_clusters} leaves of "
                "the tree have rows"
            )
        return cut


class TreeStream:
    """A tree that learns from a stream, and the `pilot` rows that choose its clusters.

    `add` first learns from a block, then counts its rows for pruning. `pilot` (m, d) float32 is a
    random sample of the stream's scaled rows. With `max_effective_samples`, it is the latest rows.
    """

    def __init__(self, engine: TreeEngine, n_features: int):
        self.engine = engine
        self.growing = engine.seedling(n_features)
        self.pilot = np.zeros((0, n_features), np.float32)
        self._sample = Reservoir.empty(engine.seed, n_features)

    @property
    def n_rows(self) -> int:
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
        self.engine.pilot, self.engine.notes = self.pilot, []
        self.engine.choose([self.growing])


def share_alike(alike: np.ndarray) -> float:
    """Return the share of the other m - 1 labellings that agree with a labelling; NaN if m = 1.

    `alike` (m,) are the labelling's adjusted Rand indices with all m labellings.
    """
    m = len(alike)
    return float((np.count_nonzero(alike > SAME_ANSWER) - 1) / (m - 1)) if m > 1 else float("nan")


def mean_shared_information(labels: Sequence[np.ndarray]) -> float:
    """Return the mean normalised mutual information over pairs of labellings; 1 for no pair."""
    from sklearn.metrics import normalized_mutual_info_score  # which takes long to import

    shared = [
        normalized_mutual_info_score(one, other, average_method="geometric")
        for one, other in combinations(labels, 2)
    ]
    return float(np.mean(shared)) if shared else 1.0


def _mean_agreement(alike: np.ndarray) -> float:
    """Return the mean of Rand indices (m, m) over the pairs of labellings; 1 for no pair."""
    m = len(alike)
    return float((alike.sum() - m) / (m * (m - 1))) if m > 1 else 1.0
