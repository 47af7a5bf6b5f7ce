"""Continuity: which clusters of a new model continue clusters of an earlier one and keep their ids.

1. Both models label the new rows. The Jaccard index of an old and a new cluster is the number of
   rows in both, divided by the number in at least one.
2. For a second index, a row that the earlier run labelled (same id) has the label of that run. The
   higher of the two indices counts. The second index alone would lose a cluster whose rows all
   change, such as new customers. The first alone would give a cluster's id to rows that moved to
   its place, if they outnumber its own rows.
3. Clusters are matched one to one, so that the sum of their indices is highest (Kuhn 1955). Pairs
   below a limit are not matched.
4. A matched cluster keeps the old id. Others get new ids, and an event says what became of each.

Outliers of the earlier model have labels, but do not count. Otherwise a new cluster among them
would count as part of the nearest old cluster, which could lose its id. Some clusters had mostly
outliers from the start, such as small ones far from all others. Their outliers count, but only up
to the number expected without a change: any distant row gets the nearest cluster's label.

Events have the names of MONIC (Spiliopoulou, Ntoutsi, Theodoridis and Schult, KDD 2006).
Departures: clusters are matched one to one, overlaps are Jaccard indices, and rows have no age.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

Event = Literal["survived", "split", "absorbed", "appeared", "disappeared", "returned"]

MATCHED_ROWS = 100_000
"""Approximate maximum number of rows that both models label."""


@dataclass(frozen=True)
class ClusterEvent:
    """Event of a cluster of the earlier model or of the new model.

    - ``survived``: the cluster keeps its id.
    - ``split``: at least half of an earlier cluster's rows are in several new clusters, none of
      which keeps its id. Also: at least half of a new cluster's rows are from one earlier cluster.
    - ``absorbed``: at least half of the earlier cluster is part of another cluster.
    - ``returned``: a run before the last run had the cluster.
    - ``appeared``, ``disappeared``: none of these.
    """

    id: int
    event: Event
    jaccard: float  # index with the cluster that it continues or overlaps most; 0 if there is none
    before: int  # size in the earlier model, among the rows that both models label
    after: int  # size in the new model, among the same rows
    others: list[int]  # ids of its pieces, of the cluster that absorbed it, or of its origin


@dataclass(frozen=True)
class LabelOverlap:
    """Numbers of rows, int64, by label in an earlier model and in a new model."""

    overlap: np.ndarray  # (k_before, k): numbers of rows with both labels
    inside: np.ndarray  # (k_before, k): `overlap` without the earlier model's outliers
    counts: np.ndarray  # (k_before, 2): numbers of inliers and of outliers in the earlier table

    @property
    def expected(self) -> np.ndarray:
        """Number of rows of each earlier cluster, (k_before,), if its share had not changed."""
        sizes = self.counts.sum(axis=1)
        return sizes / max(sizes.sum(), 1) * self.overlap.sum()

    @property
    def outside(self) -> np.ndarray:
        """Mask (k_before, 1) of the earlier clusters most of whose rows were outliers."""
        return self.counts[:, 1:] > 0.5 * self.counts.sum(axis=1, keepdims=True)

    @property
    def belonging(self) -> np.ndarray:
        """Number of common rows that count in the Jaccard index, (k_before, k) float64.

        The result is `inside` for most earlier clusters. For an earlier cluster that was mostly
        outliers, it is the minimum of `overlap` and `expected`.
        """
        likely = np.minimum(self.overlap, self.expected[:, None])
        return np.where(self.outside, likely, self.inside)

    def jaccard(self, all_rows: bool = False) -> np.ndarray:
        """Return the Jaccard index of every earlier and every new cluster, (k_before, k) float64.

        With `all_rows`, the sizes of new clusters include the earlier model's outliers.
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
    """The id of an earlier cluster that returned, and its Jaccard index with the new cluster."""

    id: int
    jaccard: float


@dataclass(frozen=True)
class Matching:
    """The ids of a new model's clusters, and what became of the earlier model's clusters."""

    ids: np.ndarray  # (k,) int32: id of every cluster, by its label
    next_id: int  # above every id ever used
    stories: list[ClusterEvent]  # one for every cluster of either model, sorted by id
    overlap: np.ndarray  # (k_before, k) int64: rows by their clusters in both models

    def moved(self, ids_before: Sequence[int]) -> float:
        """Return the share of rows whose cluster has another id in the new model."""
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
    """Give every new cluster the id of the earlier cluster that it continues, or a new id.

    `ids_before` are the ids of the earlier model's clusters, by label. New ids start at `next_id`,
    above every id ever used. Two clusters can match if their Jaccard index is at least `match`, in
    (0, 1]. `shared` counts rows that both models label. `members` counts the same rows, but with
    the earlier run's labels for rows that it labelled. `returned` maps labels of new clusters to
    clusters of older models that they continue.
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
    stories = _events(list(ids_before), ids.tolist(), earlier, members, jaccard, gone, returned)
    return Matching(ids, next_id, stories, overlap)


def match_returned(
    ids_then: Sequence[int],
    wanted: Collection[int],
    unmatched: Collection[int],
    shared: LabelOverlap,
    within: np.ndarray,
    match: float,
) -> dict[int, Return]:
    """Return the new clusters that continue a cluster of an old model, as {label: `Return`}.

    Only new clusters whose label is in `unmatched` can continue a cluster. Only old clusters whose
    id is in `wanted` can return; `ids_then` (k_then,) are the ids of all old clusters.

    Clusters are matched as in `match_clusters`, with two stricter conditions. The size of a new
    cluster includes outliers of the old model, so that a few rows in an old place are not enough.
    The new cluster must also contain the typical row of the old one (`within` (k_then, k) bool).
    """
    jaccard = shared.jaccard(all_rows=True)
    old = np.isin(ids_then, list(wanted))[:, None]
    new = np.isin(np.arange(jaccard.shape[1]), list(unmatched))
    allowed = within & old & new
    earlier = _best_pairs(np.where(allowed & (jaccard >= match), jaccard, 0.0))
    return {j: Return(int(ids_then[i]), float(jaccard[i, j])) for j, i in earlier.items()}


def _best_pairs(indices: np.ndarray) -> dict[int, int]:
    """Match rows and columns one to one, so that the sum of `indices` is highest.

    Return the row of each matched column, without pairs whose index is 0.
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(indices, maximize=True)
    pairs = zip(rows, columns, strict=True)
    return {int(j): int(i) for i, j in pairs if indices[i, j] > 0.0}


def rows_in_ranges(low: np.ndarray, high: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a mask (n, k): whether rows (n, d) lie in the ranges from `low` to `high` (k, d)."""
    return np.array([((low <= row) & (row <= high)).all(axis=1) for row in rows])


def _events(
    before: list[int],
    after: list[int],
    earlier: dict[int, int],
    shared: LabelOverlap,
    jaccard: np.ndarray,
    gone: np.ndarray,
    returned: Mapping[int, Return],
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
        event, others = ("disappeared", []) if gone[i] else _event_of_ended(rows[i])
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
        if j in returned:
            event, nearest = "returned", returned[j].jaccard
        found.append(ClusterEvent(one, event, nearest, 0, int(sizes_after[j]), others))
    return sorted(found, key=lambda story: story.id)


def _event_of_ended(rows: np.ndarray) -> tuple[Event, list[int]]:
    """Return the event of a cluster that has ended, and the new clusters that took its rows.

    `rows` (k,) are the numbers of its rows in the new clusters.
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
