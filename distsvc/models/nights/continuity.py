"""Clusters of one model that continue clusters of an earlier one.

The same rows are labelled by both models. Clusters are matched one to one so that the sum of their
Jaccard indices is largest (Kuhn, 1955, by `scipy.optimize.linear_sum_assignment`), pairs below a
limit being no pairs. Rows that the model before holds for outliers belong to none of its clusters,
though it labels them; they are left out of the index. Else a new cluster would count as a part of
the old one that is nearest to it, which could lose its id by that, or give it away.

A small cluster that is far from all others may have had its rows outside from the start. Its
outliers are all that it could be found again by, so they count: as many as it would have if nothing
had changed, since whatever else lies far out is labelled as the nearest cluster, too.

What became of every cluster is told in the terms of MONIC (Spiliopoulou, Ntoutsi, Theodoridis and
Schult, KDD 2006). Departures from it: clusters are matched one to one, overlaps are Jaccard
indices, and rows have no age.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

Event = Literal["survived", "split", "absorbed", "appeared", "disappeared", "returned"]

MATCHED_ROWS = 100_000
"""Rows that both models label, about; all rows of a table that has no more, or of its sample."""

HALF = 0.5
"""Share of a cluster's rows that makes it a part of another."""

PIECE = 0.1
"""Least share of a cluster's rows that is told as a piece of it."""

GONE = 0.05
"""Share of the rows that a cluster would have if nothing had changed, below which it has
disappeared, wherever the few went."""


@dataclass(frozen=True)
class Story:
    """The fate of an earlier cluster, or the origin of a new one.

    The event ``survived``: it goes on under its id. ``split``: it lives on in two clusters or more,
    in none of them as itself; or, of a new cluster, at least half of it was one older cluster.
    ``absorbed``: at least half of it is now part of another. ``appeared``, ``disappeared``.
    ``returned``: a run before the last one had it.
    """

    id: int
    event: Event
    jaccard: float  # with what it goes on from, or overlaps most; 0 if there is none
    before: int  # its rows among those labelled by both models
    after: int
    others: list[int]  # ids of what it split into or is part of; of a new one, where it came from


@dataclass(frozen=True)
class Shared:
    """The same rows as an earlier model and a new one label them, int64.

    `overlap` (k_before, k) are rows by their clusters in both models, and `inside` those of them
    that are no outliers of the earlier one. `counts` (k_before, 2) are the rows of its clusters
    inside and outside in its own table.
    """

    overlap: np.ndarray
    inside: np.ndarray
    counts: np.ndarray

    @property
    def expected(self) -> np.ndarray:
        """The rows (k_before,) float64 of the earlier clusters if nothing had changed."""
        sizes = self.counts.sum(axis=1)
        return sizes / max(sizes.sum(), 1) * self.overlap.sum()

    @property
    def outside(self) -> np.ndarray:
        """Which earlier clusters (k_before, 1) bool had most of their own rows outside."""
        return self.counts[:, 1:] > HALF * self.counts.sum(axis=1, keepdims=True)

    @property
    def belonging(self) -> np.ndarray:
        """The rows (k_before, k) float64 that belong to clusters of the earlier model."""
        likely = np.minimum(self.overlap, self.expected[:, None])
        return np.where(self.outside, likely, self.inside)

    def jaccard(self, all_rows: bool = False) -> np.ndarray:
        """Return the Jaccard index (k_before, k) float64 of every pair of clusters.

        `all_rows` is whether outliers of the earlier model count in the sizes of new clusters.
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
    """The id of a cluster that is back, and its Jaccard index with that of the earlier model."""

    id: int
    jaccard: float


@dataclass(frozen=True)
class Matching:
    """The ids of a model's clusters that go on from those of another."""

    ids: np.ndarray  # (k,) int32, of every cluster by its label
    next_id: int  # above every id that was ever given
    stories: list[Story]  # of every cluster of either model, by id
    overlap: np.ndarray  # (k_before, k) int64, rows by their clusters in both models

    def moved(self, ids_before: Sequence[int]) -> float:
        """Return the share of the rows whose id is another now."""
        same = np.equal.outer(np.asarray(ids_before), self.ids)
        return float(self.overlap[~same].sum() / max(self.overlap.sum(), 1))


def continued(
    ids_before: Sequence[int],
    next_id: int,
    shared: Shared,
    match: float,
    returned: Mapping[int, Return] = MappingProxyType({}),
) -> Matching:
    """Give ids to clusters, each that of the cluster it goes on from, or one never given.

    Parameters
    ----------
    ids_before
        Of the model before, by its labels, each once and below `next_id`.
    next_id
        Above every id that was ever given.
    shared
        Rows that both models label.
    match
        Least Jaccard index of two clusters of which one goes on from the other, in (0, 1].
    returned
        By their labels, clusters that go on from none of the model before, but from one of an
        earlier model.

    """
    from scipy.optimize import linear_sum_assignment

    overlap, jaccard = shared.overlap, shared.jaccard()
    pairs = np.where(jaccard >= match, jaccard, 0.0)
    rows, columns = linear_sum_assignment(pairs, maximize=True)
    goes_on = {int(j): int(i) for i, j in zip(rows, columns, strict=True) if pairs[i, j] > 0.0}
    ids = np.zeros(overlap.shape[1], np.int32)
    for j in range(overlap.shape[1]):
        if j in goes_on:
            ids[j] = ids_before[goes_on[j]]
        elif j in returned:
            ids[j] = returned[j].id
        else:
            ids[j], next_id = next_id, next_id + 1
    gone = shared.belonging.sum(axis=1) < GONE * shared.expected
    stories = _stories(list(ids_before), ids.tolist(), goes_on, shared, jaccard, gone)
    stories = [_as_returned(story, returned.values()) for story in stories]
    return Matching(ids, next_id, stories, overlap)


def returning(
    ids_then: Sequence[int],
    wanted: Collection[int],
    unmatched: Collection[int],
    shared: Shared,
    within: np.ndarray,
    match: float,
) -> dict[int, Return]:
    """Return which `unmatched` clusters go on from `wanted` ones of an earlier model, by label.

    Its ids are `ids_then` (k_then,). Clusters are matched as in `continued`, but all rows of a new
    one count in its size: one that has a few rows where another was is not that one again. Nor is
    one that is merely near: `within` (k_then, k) bool says which new clusters have the typical row
    of an earlier one among theirs (`ranges_hold`).
    """
    from scipy.optimize import linear_sum_assignment

    jaccard = shared.jaccard(all_rows=True)
    asked = np.isin(ids_then, list(wanted))[:, None] & np.isin(
        np.arange(jaccard.shape[1]), list(unmatched)
    )
    asked &= within
    pairs = np.where(asked & (jaccard >= match), jaccard, 0.0)
    places = zip(*linear_sum_assignment(pairs, maximize=True), strict=True)
    return {
        int(j): Return(int(ids_then[i]), float(pairs[i, j])) for i, j in places if pairs[i, j] > 0.0
    }


def ranges_hold(low: np.ndarray, high: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which ranges from `low` to `high` (k, d) hold rows (n, d), in every column (n, k)."""
    return np.array([((low <= row) & (row <= high)).all(axis=1) for row in rows])


def _as_returned(story: Story, returned: Iterable[Return]) -> Story:
    """Return the story of a new cluster that has an old id."""
    by_id = {one.id: one.jaccard for one in returned}
    if story.id not in by_id:
        return story
    return replace(story, event="returned", jaccard=by_id[story.id])


def _stories(
    before: list[int],
    after: list[int],
    goes_on: dict[int, int],
    shared: Shared,
    jaccard: np.ndarray,
    gone: np.ndarray,
) -> list[Story]:
    went_on, rows = {i: j for j, i in goes_on.items()}, shared.belonging
    sizes_before, sizes_after = shared.overlap.sum(axis=1), shared.overlap.sum(axis=0)
    found = []
    for i, one in enumerate(before):
        if i in went_on:
            j = went_on[i]
            both = float(jaccard[i, j]), int(sizes_before[i]), int(sizes_after[j])
            found.append(Story(one, "survived", *both, []))
            continue
        event, others = ("disappeared", []) if gone[i] else _end(rows[i])
        nearest = float(jaccard[i].max(initial=0.0))
        found.append(
            Story(one, event, nearest, int(sizes_before[i]), 0, [after[j] for j in others])
        )
    for j, one in enumerate(after):
        if j in goes_on:
            continue
        origin = [i for i in _largest(rows[:, j]) if rows[i, j] >= HALF * sizes_after[j] > 0]
        nearest = float(jaccard[:, j].max(initial=0.0))
        others = [before[i] for i in origin]
        event = "split" if others else "appeared"
        found.append(Story(one, event, nearest, 0, int(sizes_after[j]), others))
    return sorted(found, key=lambda story: story.id)


def _end(rows: np.ndarray) -> tuple[Event, list[int]]:
    """Return what became of a cluster that does not go on, by its rows in the new ones (k,)."""
    n = rows.sum()
    largest = _largest(rows)
    if n and rows[largest[0]] >= HALF * n:
        return "absorbed", largest[:1]
    pieces = [j for j in largest if rows[j] >= PIECE * n > 0]
    if len(pieces) > 1 and rows[pieces].sum() >= HALF * n:
        return "split", pieces
    return "disappeared", []


def _largest(rows: np.ndarray) -> list[int]:
    return [int(j) for j in np.argsort(-rows, kind="stable")]
