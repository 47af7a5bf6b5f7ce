"""Clusters of one model that continue clusters of an earlier one.

The same rows are labelled by both models. Clusters are matched one to one so that the sum of their
Jaccard indices is largest (Kuhn, 1955, by `scipy.optimize.linear_sum_assignment`), pairs below a
limit being no pairs. Rows that the model before holds for outliers belong to none of its clusters,
though it labels them; they are left out of the index. Else a new cluster would count as a part of
the old one that is nearest to it, which could lose its id by that, or give it away.

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
    overlap: np.ndarray,
    match: float,
    inside: np.ndarray | None = None,
    sizes_before: np.ndarray | None = None,
    returned: Mapping[int, Return] = MappingProxyType({}),
) -> Matching:
    """Give ids to clusters, each that of the cluster it goes on from, or one never given.

    Parameters
    ----------
    ids_before
        Of the model before, by its labels, each once and below `next_id`.
    next_id
        Above every id that was ever given.
    overlap : ndarray of shape (k_before, k), int64
        Rows by their labels in both models.
    match
        Least Jaccard index of two clusters of which one goes on from the other, in (0, 1].
    inside : ndarray of shape (k_before, k), int64
        As `overlap`, of the rows that are no outliers of the model before, by which clusters are
        matched; all rows where it is not given.
    sizes_before : ndarray of shape (k_before,), int64
        Rows of the clusters of the model before in its own table, by which those are told that have
        hardly any now; not given, none are.
    returned
        By their labels, clusters that go on from none of the model before, but from one of an
        earlier model.

    """
    from scipy.optimize import linear_sum_assignment

    inside = overlap if inside is None else inside
    jaccard = jaccard_indices(inside)
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
    expected = np.zeros(len(overlap))
    if sizes_before is not None:
        expected = sizes_before / max(sizes_before.sum(), 1) * overlap.sum()
    gone = inside.sum(axis=1) < GONE * expected
    stories = _stories(list(ids_before), ids.tolist(), goes_on, overlap, inside, jaccard, gone)
    stories = [_as_returned(story, returned.values()) for story in stories]
    return Matching(ids, next_id, stories, overlap)


def returning(
    ids_then: Sequence[int],
    wanted: Collection[int],
    unmatched: Collection[int],
    overlap: np.ndarray,
    match: float,
) -> dict[int, Return]:
    """Return which `unmatched` clusters go on from `wanted` ones of an earlier model, by label.

    The overlap (k_then, k) is of the rows that are no outliers of that model, whose ids (k_then,)
    are `ids_then`. They are matched as in `continued`.
    """
    from scipy.optimize import linear_sum_assignment

    jaccard = jaccard_indices(overlap)
    asked = np.isin(ids_then, list(wanted))[:, None] & np.isin(
        np.arange(overlap.shape[1]), list(unmatched)
    )
    pairs = np.where(asked & (jaccard >= match), jaccard, 0.0)
    places = zip(*linear_sum_assignment(pairs, maximize=True), strict=True)
    return {
        int(j): Return(int(ids_then[i]), float(pairs[i, j])) for i, j in places if pairs[i, j] > 0.0
    }


def _as_returned(story: Story, returned: Iterable[Return]) -> Story:
    """Return the story of a new cluster that has an old id."""
    by_id = {one.id: one.jaccard for one in returned}
    if story.id not in by_id:
        return story
    return replace(story, event="returned", jaccard=by_id[story.id])


def jaccard_indices(overlap: np.ndarray) -> np.ndarray:
    """Return the Jaccard index of every pair of clusters; overlap as in `continued`."""
    union = overlap.sum(axis=1)[:, None] + overlap.sum(axis=0)[None, :] - overlap
    return overlap / np.maximum(union, 1)


def _stories(
    before: list[int],
    after: list[int],
    goes_on: dict[int, int],
    overlap: np.ndarray,
    inside: np.ndarray,
    jaccard: np.ndarray,
    gone: np.ndarray,
) -> list[Story]:
    went_on = {i: j for j, i in goes_on.items()}
    sizes_before, sizes_after = overlap.sum(axis=1), overlap.sum(axis=0)
    found = []
    for i, one in enumerate(before):
        if i in went_on:
            j = went_on[i]
            both = float(jaccard[i, j]), int(sizes_before[i]), int(sizes_after[j])
            found.append(Story(one, "survived", *both, []))
            continue
        event, others = ("disappeared", []) if gone[i] else _end(inside[i])
        nearest = float(jaccard[i].max(initial=0.0))
        found.append(
            Story(one, event, nearest, int(sizes_before[i]), 0, [after[j] for j in others])
        )
    for j, one in enumerate(after):
        if j in goes_on:
            continue
        origin = [i for i in _largest(inside[:, j]) if inside[i, j] >= HALF * sizes_after[j] > 0]
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
