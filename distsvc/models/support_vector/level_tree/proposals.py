"""Cuts that the level trees of several models propose, and the vote among them.

A cut that agrees with the cuts of many models has many votes: a real split appears at several
kernel widths and in several subspaces, and a split by chance does not. The score of a cut is its
votes times its merit, and the highest score wins. A cut that separates many near rows has less
merit, because it probably cuts through a cluster.

Every tree ranks its splits by significance, and again by depth. It proposes cuts after which the
next split is clearly weaker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypedDict

import numpy as np

from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.min_cluster_size import FLAT
from distsvc.models.rows.neighbours import nearest_others
from distsvc.models.rows.threads import map_threads, one_thread
from distsvc.models.support_vector.level_tree.tree import LevelTree

PROPOSALS = 6
"""Maximum number of cuts that one model proposes from each of its two rankings."""

LEAST_Z, ENOUGH_Z = 1.0, 3.0
"""Minimum z of a split in a proposal, and z above which splits count as equally significant."""

DEPTH_WEIGHT = 0.3
"""Factor on the weight of a cut whose splits are ranked by depth, not by significance."""

FAINT_Z = 0.05
"""Lower bound of z in the weights that `cuts_into` computes; it keeps them positive."""

VOTE_NEIGHBOURS = 10
"""Number of nearest neighbours of each row for `VoteRows.separated`."""

LARGE_SHARE = 0.03
"""Value of `VoteRows.separated` that halves a proposal's merit."""


VOTE_ROWS = 700
"""Maximum number of rows on which candidates are compared with each other."""

LOW_SUPPORT = 0.5
"""Support of an answer (`Answer.support`) up to which a note reports weak evidence."""

LEAST_STANDING = 0.1
"""Minimum of the winner's score / number of models. Below it, the answer is one cluster."""

FLAT_STANDING, LOWEST_STANDING = 2.5, 0.04
"""In 2 or 3 columns, the minimum score per model is not `LEAST_STANDING`, but
`FLAT_STANDING` / sqrt(rows), or `LOWEST_STANDING` if this is more."""

STANDING_OF_MANY = 0.45
"""Upper limit of the minimum score in 2 or 3 columns: `STANDING_OF_MANY` / k for k clusters.

Cuts into many clusters agree less, so they need a lower score."""

CLEAR_Z = 3.5
"""Minimum z of the winner's clearest split in one column; below it the answer is one cluster. The
minimum score is not used in one column, because any cut there separates few near rows."""

EVEN_STANDING, STEEPNESS = 0.45, 2.6
"""The odds that another sample gives the same answer are (s / `EVEN_STANDING`)^`STEEPNESS`, where s
is the winner's score / number of models. Tuned on halves of labelled sets."""

EVEN_RATIO, STEEPNESS_OF_ONE = 0.5, 1.5
"""If the answer is one cluster, the odds that another sample gives several clusters are
(r / `EVEN_RATIO`)^`STEEPNESS_OF_ONE`, where r is the ratio of the best score to its minimum."""

EVEN, PREFERRED = 0.5, 0.9
"""Minimum probability that another sample gives the same winner, and minimum share of the models
that prefer it to the previous answer. If both are reached, the previous answer is replaced."""

CERTAIN, FEWER = 0.9, 0.9
"""Minimum probability that another sample gives the same winner, and upper bound of the previous
answer's votes relative to the winner's. If both hold, `PREFERRED` is not required."""

REFERENCE_ROWS = {"coarse": 3_000, "default": 30_000, "fine": 2**62}
"""Maximum number of rows to which z is scaled, by granularity. Scaled to fewer rows, fewer splits
are significant."""


class VoteRows:
    """Pilot rows on which cuts are compared, with a cache of their labels in each cut.

    `view` (m, q) float32 has the coordinates of the rows along the leading directions, m > 1. Trees
    label the rows on `n_jobs` threads.
    """

    def __init__(self, view: np.ndarray, n_jobs: int | None = 1):
        self.view, self.n_jobs = view, n_jobs
        self._cache: dict[tuple[int, bytes], tuple[np.ndarray, float, float]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"view": self.view, "n_jobs": self.n_jobs, "_cache": {}}

    def cut(self, number: int, tree: LevelTree, kept: bytes) -> tuple[np.ndarray, float, float]:
        """Return the rows' labels (m,) int32 in a cut, and `separated` and `entropy` of the labels.

        `number` is the index of the tree, and `kept` are the bytes of a mask (b,) bool of the
        branches that are clusters.
        """
        if (number, kept) not in self._cache:
            voter = tree.voter(tree.parts(np.frombuffer(kept, bool)))
            labels = voter.labels(tree.seen(self.view))
            self._cache[number, kept] = labels, self.separated(labels), entropy(labels)
        return self._cache[number, kept]

    @cached_property
    def near(self) -> np.ndarray:
        """Indices (m, k) int64 of the rows nearest to each row, k <= `VOTE_NEIGHBOURS`."""
        k = min(VOTE_NEIGHBOURS, len(self.view) - 1)
        with one_thread():
            return nearest_others(self.view, k, self.n_jobs)[1]

    def separated(self, labels: np.ndarray) -> float:
        """Return the share of near pairs that are separated, divided by the share of all pairs.

        Labels (m,) separate a pair of rows if they differ. The result is about 1 for random labels,
        and 0 if neighbours always have equal labels.
        """
        shares = np.bincount(labels) / len(labels)
        all_pairs = 1.0 - float((shares * shares).sum())
        apart = np.count_nonzero(labels[self.near] != labels[:, None])
        return apart / max(self.near.size, 1) / max(all_pairs, 1e-3)


def entropy(labels: np.ndarray) -> float:
    """Return the entropy, in nats, of labels (m,)."""
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0.0]
    return float(-(shares * np.log(shares)).sum())


def merit_of(entropy: float, separated: float) -> float:
    """Return sqrt(entropy) / (1 + separated / 0.03): high for even clusters with clear borders."""
    return float(np.sqrt(max(entropy, 1e-3)) / (1.0 + separated / LARGE_SHARE))


@dataclass(frozen=True)
class Proposal:
    """Cut that a model proposes."""

    member: int  # index of the model
    weight: float  # weight of its vote
    z: float  # z of its least significant split; infinite for one cluster
    kept: np.ndarray  # (b,) bool: branches that are clusters
    labels: np.ndarray  # (m,) int32: clusters of the rows of `VoteRows`
    separated: float  # `VoteRows.separated` of the labels
    entropy: float  # `entropy` of the labels

    @property
    def n_clusters(self) -> int:
        return int(self.kept.sum())

    @property
    def merit(self) -> float:
        return merit_of(self.entropy, self.separated)


def proposals(trees: Sequence[LevelTree], scale: float, rows: VoteRows) -> list[Proposal]:
    """Return the cuts that trees propose, with their z multiplied by `scale`.

    A tree ranks its splits by z, and again by depth. A cut consists of the first i splits of a
    ranking, all with z >= 1. Its weight is the gap to split i + 1. In the ranking by z, the gap is
    log((min(z_i, 3) + 1/2) / (min(z_{i+1}, 3) + 1/2)). In the ranking by depth, it is 0.3 times the
    difference in depth. If a cut comes from both rankings, its weights are added.
    """

    def proposed(number: int) -> list[Proposal]:
        tree = trees[number]
        offered = [*_by_significance(tree, scale), *_by_depth(tree, scale)]
        return _candidates(number, tree, offered, scale, rows)

    return _of_all(proposed, trees, rows)


def cuts_into(
    trees: Sequence[LevelTree], n_clusters: int, scale: float, rows: VoteRows
) -> list[Proposal]:
    """Return the trees' cuts into `n_clusters`, or fewer if no tree has so many branches.

    Each tree with enough branches proposes three cuts. The first keeps the most significant splits.
    The second starts from all splits with z >= 1 and merges the smallest clusters. The third keeps
    the deepest splits. The weight of a cut is the z of its least significant split, times 0.3 for
    the third cut.
    """
    n_clusters = min(n_clusters, max(tree.n_branches for tree in trees))

    def proposed(number: int) -> list[Proposal]:
        tree = trees[number]
        if tree.n_branches < n_clusters:
            return []
        cuts = (
            (tree.most_significant(n_clusters), 1.0),
            (_joined(number, tree, n_clusters, scale, rows), 1.0),
            (tree.first(_deep(tree, scale), n_clusters), DEPTH_WEIGHT),
        )
        offered = []
        for kept, share in cuts:
            least = max(scale * float(tree.z[kept].min()), FAINT_Z) if n_clusters > 1 else 1.0
            offered.append((kept, share * least))
        return _candidates(number, tree, offered, scale, rows)

    return _of_all(proposed, trees, rows)


def _of_all(
    proposed: Callable[[int], list[Proposal]], trees: Sequence[LevelTree], rows: VoteRows
) -> list[Proposal]:
    _ = rows.near  # fill the cache before threads start
    found = map_threads(proposed, range(len(trees)), rows.n_jobs)
    return list(chain.from_iterable(found))


def _candidates(
    number: int,
    tree: LevelTree,
    offered: Sequence[tuple[np.ndarray, float]],
    scale: float,
    rows: VoteRows,
) -> list[Proposal]:
    """Return a `Proposal` for each cut. `offered` are pairs of a cut and its weight.

    Equal cuts become one proposal, with the sum of their weights.
    """
    found: list[Proposal] = []
    weights: dict[bytes, float] = {}
    for kept, weight in offered:
        weights[kept.tobytes()] = weights.get(kept.tobytes(), 0.0) + weight
    for key, weight in weights.items():
        kept = np.frombuffer(key, bool)
        labels, separated, entropy = rows.cut(number, tree, key)
        z = scale * float(tree.z[kept].min())
        found.append(Proposal(number, weight, z, kept, labels, separated, entropy))
    return found


def most_like(
    trees: Sequence[LevelTree], labels: np.ndarray, scale: float, rows: VoteRows
) -> tuple[Proposal, float]:
    """Return the cut most like `labels` (m,), and its adjusted Rand index with these labels.

    `labels` belong to the first rows of `rows`. In each tree, all branches are clusters at first.
    Each step merges two clusters, so that most pairs of rows agree with `labels`. Merging ends when
    agreement would fall and there are no more clusters than labels. The returned cut has weight 0.
    """
    labels = np.unique(labels[: len(rows.view)], return_inverse=True)[1]
    found: list[tuple[Proposal, float]] = []
    for number, tree in enumerate(trees):
        kept = _with_rows(number, tree, _joined_like(number, tree, labels, rows), rows)
        [cut] = _candidates(number, tree, [(kept, 0.0)], scale, rows)
        found.append((cut, rand_index(cut.labels[: len(labels)], labels)))
    return max(found, key=lambda pair: pair[1])


def _with_rows(number: int, tree: LevelTree, kept: np.ndarray, rows: VoteRows) -> np.ndarray:
    """Return the mask `kept` (b,) of a cut's branches after clusters without rows are merged.

    A cluster of few support vectors can lose all its rows when its neighbours are merged.
    """
    while True:
        sizes = np.bincount(rows.cut(number, tree, kept.tobytes())[0], minlength=kept.sum())
        if sizes.all():
            return kept
        own = np.flatnonzero(kept & (tree.parents >= 0))
        ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
        kept = kept.copy()
        kept[own[np.argmax((sizes[ends] == 0).any(axis=1))]] = False


def _joined_like(number: int, tree: LevelTree, labels: np.ndarray, rows: VoteRows) -> np.ndarray:
    kept = np.ones(tree.n_branches, bool)
    part = rows.cut(number, tree, kept.tobytes())[0][: len(labels)]
    k = int(labels.max()) + 1
    counts = np.bincount(part * k + labels, minlength=len(kept) * k).reshape(-1, k).astype(float)
    own = np.flatnonzero(tree.parents >= 0)
    ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
    open_ = np.ones(len(own), bool)
    while open_.any():
        one, other = counts[ends[open_, 0]], counts[ends[open_, 1]]
        # Pairs of rows that a merge makes agree, minus pairs that it makes disagree.
        gain = 2.0 * (one * other).sum(axis=1) - one.sum(axis=1) * other.sum(axis=1)
        best = int(np.argmax(gain))
        if gain[best] < 0.0 and kept.sum() <= k:
            break
        i = int(np.flatnonzero(open_)[best])
        low, high = ends[i]
        counts[low] += counts[high]
        counts[high] = 0.0
        ends[ends == high] = low
        kept[own[i]] = open_[i] = False
    return kept


def rand_index(labels: np.ndarray, others: np.ndarray) -> float:
    """Return the adjusted Rand index of two labellings (m,) of the same rows."""
    return float(rand_indices([labels, others])[0, 1])


def _by_significance(tree: LevelTree, scale: float) -> Iterator[tuple[np.ndarray, float]]:
    order = np.argsort(-tree.z, kind="stable")
    ranked = np.append(scale * tree.z[order], 0.0)
    strength = np.log(np.clip(ranked, 0.0, ENOUGH_Z) + 0.5)
    weights = strength[:-1] - strength[1:]
    weights[ranked[:-1] < LEAST_Z] = 0.0
    yield from _strongest(tree, order, weights)


def _by_depth(tree: LevelTree, scale: float) -> Iterator[tuple[np.ndarray, float]]:
    order = _deep(tree, scale)
    order = order[(scale * tree.z[order] >= LEAST_Z) & (tree.depths[order] > 0.0)]
    ranked = np.append(tree.depths[order[1:]], 0.0)
    weights = np.append(0.0, ranked[:-1] - ranked[1:])
    yield from _strongest(tree, order, DEPTH_WEIGHT * weights)


def _strongest(
    tree: LevelTree, order: np.ndarray, weights: np.ndarray
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the cuts with the largest `weights`, and their weights.

    The clusters of cut i are the first i + 1 branches of `order`. The cut into one cluster is left
    out: too narrow or too wide kernels would always propose it.
    """
    weights[0] = 0.0
    for i in np.argsort(-weights, kind="stable")[:PROPOSALS]:
        if weights[i] > 1e-6:
            yield tree.first(order, int(i) + 1), float(weights[i])


def _deep(tree: LevelTree, scale: float) -> np.ndarray:
    """Return the branches with z >= 1, then all others, both sorted by falling depth."""
    faint = scale * tree.z < LEAST_Z
    return np.lexsort((-tree.depths, faint))


def _joined(
    number: int, tree: LevelTree, n_clusters: int, scale: float, rows: VoteRows
) -> np.ndarray:
    """Return the branches (b,) bool of a cut into `n_clusters`, made by merging small clusters.

    At first, all branches with z >= 1 are clusters. Until `n_clusters` are left, the smallest
    cluster merges across its highest saddle. A few rows of noise are thus no cluster.
    """
    clear = int((scale * tree.z >= LEAST_Z).sum())
    kept = tree.most_significant(max(n_clusters, clear))
    labels = rows.cut(number, tree, kept.tobytes())[0]
    sizes = np.bincount(labels, minlength=int(kept.sum())).astype(float)
    own = np.flatnonzero(kept & (tree.parents >= 0))
    ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
    heights = tree.edge_heights[tree.joints[own]]
    for _ in range(int(kept.sum()) - n_clusters):
        smallest = int(np.argmin(sizes))
        at = np.flatnonzero((ends == smallest).any(axis=1) & kept[own])
        i = at[np.argmax(heights[at])]
        other = int(ends[i].sum()) - smallest
        sizes[other] += sizes[smallest]
        sizes[smallest] = np.inf
        ends[ends == smallest] = other
        kept[own[i]] = False
    return kept


class Candidate(TypedDict):
    """Best proposal for one number of clusters, as listed in the report."""

    n_clusters: int
    standing: float  # score, relative to the winner's
    votes: float  # relative to the maximum
    separated: float  # `VoteRows.separated`
    support: float  # share of the models with a proposal like this one
    z: float  # z of the least significant split
    winner: bool


@dataclass(frozen=True)
class Rival:
    """Best candidate that is a different answer; `share` is its score relative to the winner's."""

    n_clusters: int
    share: float


@dataclass(frozen=True)
class Answer:
    """Answer of a vote: a cut of one of the trees, and how clearly it won."""

    member: int  # index of the model whose tree has the winner
    kept: np.ndarray  # (b,) bool: branches of the tree that are clusters
    support: float  # share of the models with a proposal like it; 1 if no split is significant
    z: float  # z of its least significant split; NaN for one cluster
    candidates: list[Candidate]  # best proposals, by number of clusters; at most 12
    supporters: list[bool]  # whether each model supports the answer
    standing: float  # score per model of the best proposal, even if the answer is one cluster
    rival: Rival | None
    agreement: float  # probability of this answer in another sample; `support` with `n_clusters`
    last: "Answer | None" = None  # cut most like the previous answer
    likeness: float | None = None  # adjusted Rand index of `last` with the previous answer
    clear: bool = True  # whether the winner is clearly better than `last`

    @property
    def n_clusters(self) -> int:
        return int(self.kept.sum())


def elect(
    trees: Sequence[LevelTree],
    rows: VoteRows,
    n_rows: int,
    reference: int,
    n_clusters: int | None = None,
    least_standing: float = LEAST_STANDING,
    previous_labels: np.ndarray | None = None,
) -> Answer:
    """Return the winner of a vote of the trees, with z scaled from n_rows to `reference` rows.

    Candidates are the `proposals` of the trees, or with `n_clusters` their `cuts_into`. Candidate p
    has sum_q w_q max(ARI(p, q), 0)^3 votes, over all candidates q with weights w_q. Its score is
    its votes times its merit (`merit_of`); the highest score wins.

    Without `n_clusters`, the answer is one cluster if no split is significant, or if no candidate
    reaches its minimum score per model. The minimum is `least_standing`. For k clusters in 2 or 3
    columns it is min(max(2.5 / sqrt(n_rows), 0.04), 0.45 / k). In one column the winner's clearest
    split needs z >= 3.5 instead.

    `previous_labels` (m,) are the labels of the first rows of `rows` in the previous answer. The
    cut most like these labels does not vote. If it is similar enough (`SAME_ANSWER`), the winner
    replaces it only if `clear`: the winner's probability in another sample is at least `EVEN`, and
    the share `PREFERRED` of the models gives the winner more votes. From the probability `CERTAIN`
    on, more votes in total are enough (`FEWER`). If either answer is one cluster, `EVEN` is enough.
    """
    scale = float(np.sqrt(min(1.0, reference / n_rows)))
    if n_clusters is None:
        found = proposals(trees, scale, rows)
    else:
        found = cuts_into(trees, n_clusters, scale, rows)
    if not found:
        return _one_cluster(trees, [], [True] * len(trees), 0.0, 0.0)
    vote = _Vote(trees, found, n_rows, scale, rows.view.shape[1], least_standing, n_clusters)
    if previous_labels is None or n_clusters is not None:
        return vote.answer
    cut, likeness = most_like(trees, previous_labels, scale, rows)
    winner = vote.answer
    if len(np.unique(previous_labels)) == 1:  # one cluster has no votes to compare
        last = _one_cluster(trees, winner.candidates, [], vote.highest, vote.score_ratio)
        clear = winner.n_clusters > 1 and winner.agreement >= EVEN
        return replace(winner, last=last, likeness=1.0, clear=clear)
    if likeness <= SAME_ANSWER:
        return winner
    beside = _Vote(trees, [*found, cut], n_rows, scale, vote.d, least_standing, None, len(found))
    clear = winner.agreement >= EVEN
    if winner.n_clusters > 1:
        certain = winner.agreement >= CERTAIN and beside.votes[-1] < FEWER * beside.votes[vote.best]
        clear &= certain or beside.preferring(vote.best, len(found)) >= PREFERRED
    return replace(winner, last=beside.answer, likeness=likeness, clear=clear)


class _Vote:
    """Result of a vote: each candidate's votes and score, and the answer.

    The answer is the best candidate, or candidate number `given`, which does not vote.
    """

    def __init__(
        self,
        trees: Sequence[LevelTree],
        found: Sequence[Proposal],
        n_rows: int,
        scale: float,
        d: int,
        least_standing: float,
        n_clusters: int | None,
        given: int | None = None,
    ):
        self.trees, self.found, self.d, self.given = trees, found, d, given
        self.n_rows, self.scale, self.n_clusters = n_rows, scale, n_clusters
        self.agreement = rand_indices([candidate.labels[:VOTE_ROWS] for candidate in found])
        self.weights = np.array([candidate.weight for candidate in found])
        self.proposed = np.arange(len(found)) != given
        self.owner = np.array([candidate.member for candidate in found])
        self.shares = np.maximum(self.agreement, 0.0) ** 3
        self.votes = self.shares @ self.weights
        self.standing = self.votes * np.array([candidate.merit for candidate in found])
        self.best = int(np.argmax(self.standing)) if given is None else given
        self.highest = float(self.standing[self.best]) / len(trees)
        self.score_ratio = self._score_ratio(least_standing)

    def preferring(self, one: int, other: int) -> float:
        """Return the share of the models with more votes for candidate `one` than for `other`."""
        more = (self.shares[one] - self.shares[other]) * self.weights
        by_model = np.bincount(self.owner, weights=more)[np.unique(self.owner[self.proposed])]
        return float(np.mean(by_model > 0.0))

    def _score_ratio(self, least_standing: float) -> float:
        """Return the largest ratio of a candidate's score to its minimum.

        In one column, return the largest z of the best candidate's splits, relative to `CLEAR_Z`.
        """
        if self.d == 1:
            winner = self.found[self.best]
            clearest = np.sort(self.trees[winner.member].z[winner.kept])[-2:][0]
            return float(self.scale * clearest) / CLEAR_Z
        if self.d <= FLAT:
            least = max(FLAT_STANDING / np.sqrt(self.n_rows), LOWEST_STANDING)
            counts = np.array([candidate.n_clusters for candidate in self.found])
            least = np.minimum(least, STANDING_OF_MANY / counts)
            return float((self.standing / len(self.trees) / least)[self.proposed].max())
        return self.highest / least_standing if least_standing else np.inf

    @property
    def answer(self) -> Answer:
        """Answer of the best or given candidate; one cluster if no score reaches its minimum."""
        trees, found, best, standing = self.trees, self.found, self.best, self.standing
        winner, supported = found[best], (self.agreement > SAME_ANSWER) & self.proposed
        support = np.array([np.unique(self.owner[row]).size for row in supported]) / len(trees)
        shares = standing / standing[best] if standing[best] else np.zeros(len(standing))
        table = _listed(found, shares, self.votes / self.votes.max(), support, best)
        if self.n_clusters is None and self.given is None and self.score_ratio < 1.0:
            return _one_cluster(trees, table, [], self.highest, self.score_ratio)
        supporters = np.isin(np.arange(len(trees)), self.owner[supported[best]]).tolist()
        z = winner.z if winner.n_clusters > 1 else float("nan")
        others = np.where(self.agreement[best] > SAME_ANSWER, -1.0, shares)
        second, rival = int(np.argmax(others)), None
        if others[second] > 0.0:
            rival = Rival(found[second].n_clusters, float(others[second]))
        agreement = found_support = float(support[best])
        if self.n_clusters is None:
            agreement = _chance(self.highest / EVEN_STANDING, STEEPNESS)
        return Answer(
            winner.member, winner.kept, found_support, z, table, supporters, self.highest, rival,
            agreement,
        )  # fmt: skip


def _chance(times: float, power: float) -> float:
    """Return the probability whose odds are `times` to the power of `power`."""
    odds = times**power
    return odds / (1.0 + odds)


def _listed(
    found: Sequence[Proposal],
    standing: np.ndarray,
    votes: np.ndarray,
    support: np.ndarray,
    best: int,
) -> list[Candidate]:
    """Return `Answer.candidates`: the best candidate for each number of clusters."""
    counts = np.array([candidate.n_clusters for candidate in found])
    table: list[Candidate] = []
    for k in np.unique(counts).tolist():
        of_k = np.flatnonzero(counts == k)
        i = best if best in of_k else int(of_k[np.argmax(standing[of_k])])
        candidate = Candidate(
            n_clusters=k,
            standing=float(standing[i]),
            votes=float(votes[i]),
            separated=found[i].separated,
            support=float(support[i]),
            z=found[i].z,
            winner=i == best,
        )
        table.append(candidate)
    table.sort(key=lambda row: -row["standing"])
    return sorted(table[:12], key=lambda row: row["n_clusters"])


def _one_cluster(
    trees: Sequence[LevelTree],
    table: list[Candidate],
    supporters: list[bool],
    standing: float,
    score_ratio: float,
) -> Answer:
    """Return the answer with one cluster, which is the root of any tree; the middle one is used.

    `score_ratio` is the largest ratio of a candidate's score to its minimum.
    """
    middle = len(trees) // 2
    kept = trees[middle].parents < 0
    share = float(np.mean(supporters)) if supporters else 0.0
    none, losers = [False] * len(trees), [row | {"winner": False} for row in table]
    return Answer(
        middle, kept, share, float("nan"), losers, supporters or none, standing, None,
        1.0 - _chance(score_ratio / EVEN_RATIO, STEEPNESS_OF_ONE),
    )  # fmt: skip
