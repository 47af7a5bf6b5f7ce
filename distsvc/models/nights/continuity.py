"""Continuity: the clusters of a model that continue clusters of an earlier model.

The same rows are labelled by both models. Clusters are matched one to one to maximise the sum of
their Jaccard indices (Kuhn 1955, by `scipy.optimize.linear_sum_assignment`); pairs below a limit
are never matched. The earlier model's outliers are left out of the index, although they have a
label. A new cluster among the outliers would otherwise count as part of the nearest old cluster,
and the old cluster could lose its id.

Most rows of an earlier cluster can be outside from the start, as in a small cluster far from all
others. Its outliers are counted, but only up to the number expected without a change, because any
distant row gets the label of the nearest cluster.

Two clusters are also alike if they have the same members: rows whose ids had a label in the earlier
run. A pair's index is the higher one of places and members. Members alone would lose a cluster that
rows pass through, such as new customers. Places alone would give the id of a cluster to rows that
have moved there, if they are more than its own.

Events have the names of MONIC (Spiliopoulou, Ntoutsi, Theodoridis and Schult, KDD 2006).
Departures from it: clusters are matched one to one, overlaps are Jaccard indices, and rows have no
age.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

Event = Literal["survived", "split", "absorbed", "appeared", "disappeared", "returned"]

MATCHED_ROWS = 100_000
"""Approximate maximum number of rows that both models label."""


@dataclass(frozen=True)
class ClusterEvent:
    """Fate of an earlier cluster, or origin of a new one.

    ``survived``: the cluster keeps its id. ``split``, of an earlier cluster: it continues in two
    clusters or more, none of which keeps its id. ``split``, of a new cluster: at least half of its
    rows are from one earlier cluster. ``absorbed``: at least half of the cluster is now part of
    another. ``returned``: a run before the last one had the cluster. ``appeared`` and
    ``disappeared``: none of these.
    """

    id: int
    event: Event
    jaccard: float  # with the cluster that it continues or overlaps most; 0 if there is none
    before: int  # rows in the earlier model, among the rows that both models label
    after: int  # rows in the new model
    others: list[int]  # ids of its pieces, of the cluster that absorbed it, or of its origin


@dataclass(frozen=True)
class LabelOverlap:
    """Counts, int64, of the same rows labelled by an earlier and a new model.

    `overlap` (k_before, k) counts rows by their clusters in both models; `inside` leaves out the
    earlier model's outliers. `counts` (k_before, 2) are the numbers of rows inside and outside the
    earlier model's clusters, in the earlier table.
    """

    overlap: np.ndarray
    inside: np.ndarray
    counts: np.ndarray

    @property
    def expected(self) -> np.ndarray:
        """Row counts (k_before,) float64 of the earlier clusters if nothing had changed."""
        sizes = self.counts.sum(axis=1)
        return sizes / max(sizes.sum(), 1) * self.overlap.sum()

    @property
    def outside(self) -> np.ndarray:
        """Whether earlier clusters had most of their own rows outside, (k_before, 1) bool."""
        return self.counts[:, 1:] > 0.5 * self.counts.sum(axis=1, keepdims=True)

    @property
    def belonging(self) -> np.ndarray:
        """`inside` as float64, but `overlap` up to `expected` where `outside` is true."""
        likely = np.minimum(self.overlap, self.expected[:, None])
        return np.where(self.outside, likely, self.inside)

    def jaccard(self, all_rows: bool = False) -> np.ndarray:
        """Return the Jaccard index (k_before, k) float64 of every pair of clusters.

        With `all_rows`, outliers of the earlier model count in the sizes of new clusters.
        """
        both, every = self.belonging, self.overlap.sum(axis=0)
        before = np.where(
            self.outside[:, 0],
            np.minimum(self.overlap.sum(axis=1), self.expected),
            self.inside.sum(axis=1),
        )
        after = np.where(self.outside | all_rows, every, self.inside.sum(axis=0))
        union = before[:, None] + after - both
        return both / np.where(union > 0.0, union, 1.0)


@dataclass(frozen=True)
class Return:
    """The id of a cluster that returned, and its Jaccard index with the old cluster."""

    id: int
    jaccard: float


@dataclass(frozen=True)
class Matching:
    """Ids of a model's clusters, matched with another model's clusters."""

    ids: np.ndarray  # (k,) int32, of every cluster by its label
    next_id: int  # above every id ever used
    stories: list[ClusterEvent]  # of every cluster of either model, by id
    overlap: np.ndarray  # (k_before, k) int64, rows by their clusters in both models

    def moved(self, ids_before: Sequence[int]) -> float:
        """Return the share of the rows whose id has changed."""
        same = np.equal.outer(np.asarray(ids_before), self.ids)
        return float(self.overlap[~same].sum() / max(self.overlap.sum(), 1))


def match_clusters(
    ids_before: Sequence[int],
    next_id: int,
    shared: LabelOverlap,
    match: float,
    returned: Mapping[int, Return] = MappingProxyType({}),
    members: LabelOverlap | None = None,
) -> Matching:
    """Give every cluster the id of the cluster it continues, or a new id.

    The clusters of the earlier model have the ids `ids_before`, by their labels. New ids start at
    `next_id`, above every id ever used. Matched clusters have a Jaccard index of at least `match`,
    in (0, 1]. The `returned` clusters, by label, continue a cluster of a still earlier model.
    `members` are `shared`, but rows whose ids had a label in the earlier run count there.
    """
    members = members or shared
    overlap, jaccard = shared.overlap, np.maximum(shared.jaccard(), members.jaccard())
    earlier = _best_pairs(np.where(jaccard >= match, jaccard, 0.0))
    ids = np.zeros(overlap.shape[1], np.int32)
    for j in range(overlap.shape[1]):
        if j in earlier:
            ids[j] = ids_before[earlier[j]]
        elif j in returned:
            ids[j] = returned[j].id
        else:
            ids[j], next_id = next_id, next_id + 1
    # A cluster is gone if it has fewer than 5 % of the rows expected without a change.
    gone = shared.belonging.sum(axis=1) < 0.05 * shared.expected
    stories = _stories(list(ids_before), ids.tolist(), earlier, members, jaccard, gone)
    back = {one.id: one.jaccard for one in returned.values()}
    stories = [
        replace(one, event="returned", jaccard=back[one.id]) if one.id in back else one
        for one in stories
    ]
    return Matching(ids, next_id, stories, overlap)


def match_returned(
    ids_then: Sequence[int],
    wanted: Collection[int],
    unmatched: Collection[int],
    shared: LabelOverlap,
    within: np.ndarray,
    match: float,
) -> dict[int, Return]:
    """Return, by label, the clusters that continue the id of a cluster of an earlier model.

    Clusters are among `unmatched`, and ids among `wanted`; `ids_then` (k_then,) are all ids of the
    earlier model. Clusters are matched as in `match_clusters`, with two stricter conditions. The
    size of a new cluster includes outliers of the earlier model, so that a few rows in an old place
    are not enough. The new cluster must also contain the typical row of the old one, as `within`
    (k_then, k) bool says.
    """
    jaccard = shared.jaccard(all_rows=True)
    old = np.isin(ids_then, list(wanted))[:, None]
    new = np.isin(np.arange(jaccard.shape[1]), list(unmatched))
    allowed = within & old & new
    earlier = _best_pairs(np.where(allowed & (jaccard >= match), jaccard, 0.0))
    return {j: Return(int(ids_then[i]), float(jaccard[i, j])) for j, i in earlier.items()}


def _best_pairs(indices: np.ndarray) -> dict[int, int]:
    """Return the row of each matched column; the matching has the largest sum of Jaccard indices.

    Pairs with an index of 0 are left out.
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(indices, maximize=True)
    pairs = zip(rows, columns, strict=True)
    return {int(j): int(i) for i, j in pairs if indices[i, j] > 0.0}


def rows_in_ranges(low: np.ndarray, high: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a mask (n, k) bool of rows (n, d) inside the ranges from `low` to `high` (k, d)."""
    return np.array([((low <= row) & (row <= high)).all(axis=1) for row in rows])


def _stories(
    before: list[int],
    after: list[int],
    earlier: dict[int, int],
    shared: LabelOverlap,
    jaccard: np.ndarray,
    gone: np.ndarray,
) -> list[ClusterEvent]:
    went_on, rows = {i: j for j, i in earlier.items()}, shared.belonging
    sizes_before, sizes_after = shared.overlap.sum(axis=1), shared.overlap.sum(axis=0)
    found = []
    for i, one in enumerate(before):
        if i in went_on:
            j = went_on[i]
            both = float(jaccard[i, j]), int(sizes_before[i]), int(sizes_after[j])
            found.append(ClusterEvent(one, "survived", *both, []))
            continue
        event, others = ("disappeared", []) if gone[i] else _end(rows[i])
        nearest = float(jaccard[i].max(initial=0.0))
        found.append(
            ClusterEvent(one, event, nearest, int(sizes_before[i]), 0, [after[j] for j in others])
        )
    for j, one in enumerate(after):
        if j in earlier:
            continue
        origin = [i for i in _largest(rows[:, j]) if rows[i, j] >= 0.5 * sizes_after[j] > 0]
        nearest = float(jaccard[:, j].max(initial=0.0))
        others = [before[i] for i in origin]
        event = "split" if others else "appeared"
        found.append(ClusterEvent(one, event, nearest, 0, int(sizes_after[j]), others))
    return sorted(found, key=lambda story: story.id)


def _end(rows: np.ndarray) -> tuple[Event, list[int]]:
    """Return the event of a cluster without successor, and the clusters that took its rows.

    `rows` (k,) are its numbers of rows in the new clusters.
    """
    n = rows.sum()
    largest = _largest(rows)
    if n and rows[largest[0]] >= 0.5 * n:
        return "absorbed", largest[:1]
    pieces = [j for j in largest if rows[j] >= 0.1 * n > 0]
    if len(pieces) > 1 and rows[pieces].sum() >= 0.5 * n:
        return "split", pieces
    return "disappeared", []


def _largest(rows: np.ndarray) -> list[int]:
    return [int(j) for j in np.argsort(-rows, kind="stable")]
