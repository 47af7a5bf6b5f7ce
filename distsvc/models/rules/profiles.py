"""Profiles of clusters: for every column the one range that tells a cluster's rows from others.

How well a range tells is the share of the cluster's rows in it less the share of the others': the
index of Youden (1950). The best range of a column has a J of 1 where it holds the whole cluster and
nothing else, and about 0 where the column says nothing. It does not change with the scale of the
column, nor with how far its tails reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 256
"""Pieces of a column, with as many rows in each, at whose borders ranges begin and end."""

BY_CHANCE, SURE = 2.5, 0.9
"""In units of sqrt(1 / n + 1 / m), the J that columns of n and m like rows pass by chance in fewer
than one of a thousand; and one that is believed of however few rows."""

RELEVANT = 1 / 3
"""Of the J of the best column: what tells less beside it is left out."""

IN_PROFILE = 5
"""Columns of a profile, at most."""

TYPICAL = 5
"""Rows that show what a cluster is like."""

TOLD_APART = 2
"""Decimals of J to which columns tell alike."""


@dataclass(frozen=True)
class ColumnRange:
    """One column of a profile, by its position.

    `apart` is J of the range from `low` to `high`; an end is infinite where it is the column's
    least or greatest value. `inside` and `outside` (4,) float64 are the quartiles of the cluster's
    rows and of the others, and their shares in the range.
    """

    place: int
    apart: float
    low: float
    high: float
    inside: np.ndarray
    outside: np.ndarray


@dataclass(frozen=True)
class ClusterProfile:
    """A cluster's most telling columns, the best first, and the positions of typical rows."""

    label: int
    n_rows: int
    columns: list[ColumnRange]
    typical: np.ndarray


def profiles(
    X: np.ndarray,
    Z: np.ndarray,
    labels: np.ndarray,
    usual: np.ndarray,
    centres: np.ndarray,
    most: int,
    together: Sequence[slice] = (),
) -> list[ClusterProfile]:
    """Return the profiles of clusters, the largest first.

    Parameters
    ----------
    X, Z : ndarray of shape (m, d)
        Rows as the table has them, NaN where a value is missing, and prepared.
    labels : ndarray of shape (m,), int
    usual : ndarray of shape (m,), bool
        Rows that may be typical; others of a cluster that has none.
    centres : ndarray of shape (k, d), float64
        Typical rows are the nearest to these, which are prepared.
    most : int
        Clusters that get one.
    together
        Columns of 0 and 1, of which one at most is told: that which tells most.

    """
    sizes = np.bincount(labels, minlength=len(centres))
    order = np.argsort(-sizes, kind="stable")
    chosen = [int(c) for c in order if sizes[c]][:most]
    if not 0 < sizes[chosen[0]] < len(X):
        return []
    apart, ranges = best_ranges(X, labels, chosen)
    for group in together:
        _keep_best(apart[:, group], ranges[:, group])
    found = []
    for i, c in enumerate(chosen):
        inside = labels == c
        columns = _columns(X, inside, apart[i], ranges[i])
        known = inside & usual if (inside & usual).any() else inside
        places = np.flatnonzero(known)
        away = ((Z[places] - centres[c]) ** 2).sum(axis=1)
        typical = places[np.argsort(away, kind="stable")[:TYPICAL]]
        found.append(ClusterProfile(c, int(sizes[c]), columns, typical))
    return found


def _keep_best(apart: np.ndarray, ranges: np.ndarray) -> None:
    """Set J (c, w) to 0 in all columns but the best, the rows at 1 before those at 0 in a tie."""
    order = np.round(apart, TOLD_APART) + 0.1 * 10.0**-TOLD_APART * (ranges[:, :, 0] > 0.0)
    others = np.arange(apart.shape[1]) != order.argmax(axis=1)[:, None]
    apart[others] = 0.0


def best_ranges(
    X: np.ndarray, labels: np.ndarray, chosen: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return J (c, d) of the best range of each column, and the ranges (c, d, 2) themselves.

    They are those of the clusters `chosen`, of which none has all rows X (m, d). Missing values
    (NaN) are left out.
    """
    d, k = X.shape[1], int(labels.max()) + 1
    apart, ranges = np.zeros((len(chosen), d)), np.zeros((len(chosen), d, 2))
    for j in range(d):
        known = ~np.isnan(X[:, j])
        x, own = np.sort(X[known, j]), labels[known]
        m = len(x)
        if not m:
            continue
        edges = np.unique(x[np.linspace(0, m - 1, BINS + 1).astype(int)])
        firsts = np.append(x[0], x[np.searchsorted(x, edges[:-1], side="right")])
        bins, n = np.searchsorted(edges, X[known, j]), len(edges)
        counts = np.bincount(own * n + bins, minlength=k * n).reshape(k, n)
        inside = counts[chosen]
        sizes = inside.sum(axis=1, keepdims=True)
        others = np.maximum(m - sizes, 1)
        shares = inside / np.maximum(sizes, 1) - (counts.sum(axis=0) - inside) / others
        shares[(sizes == 0).ravel() | (sizes == m).ravel()] = 0.0
        risen = np.cumsum(shares, axis=1)
        before = np.concatenate([np.zeros((len(chosen), 1)), risen[:, :-1]], axis=1)
        lowest = np.minimum.accumulate(before, axis=1)
        last = (risen - lowest).argmax(axis=1)
        at = np.arange(len(chosen)), last
        apart[:, j] = np.clip((risen - lowest)[at], 0.0, 1.0)
        first = (before == lowest[at][:, None]).argmax(axis=1)
        ranges[:, j] = np.column_stack([firsts[first], edges[last]])
    return apart, ranges


def leanings(X: np.ndarray, labels: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
    """Return how much higher the rows of clusters lie in each column than all others, (c, d).

    It is Cliff's delta (1993): how often a row of a cluster lies above one of the others, less how
    often below; 1 is always above, -1 always below. None of the clusters `chosen` has all rows X
    (m, d), whose labels are (m,).
    """
    m, found = len(X), np.zeros((len(chosen), X.shape[1]))
    members = [labels == c for c in chosen]
    for j in range(X.shape[1]):
        of_rows = ranks(X[:, j])
        for i, inside in enumerate(members):
            n = np.count_nonzero(inside)
            above = of_rows[inside].sum() - 0.5 * n * (n + 1)
            found[i, j] = 2.0 * above / (n * (m - n)) - 1.0
    return found


def ranks(x: np.ndarray) -> np.ndarray:
    """Return ranks from 1, equal values with their mean; `scipy.stats` takes 0.4 s to import."""
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[which]


def _columns(
    X: np.ndarray, inside: np.ndarray, apart: np.ndarray, ranges: np.ndarray
) -> list[ColumnRange]:
    """Return the columns that set rows apart by more than chance does, the best first.

    Equally telling columns are in the order of the distance of medians, in quartile ranges.
    """
    n, m = np.count_nonzero(inside), np.count_nonzero(~inside)
    least = max(min(BY_CHANCE * np.sqrt(1.0 / n + 1.0 / m), SURE), RELEVANT * apart.max())
    known = np.flatnonzero(apart >= least)
    some = known[np.argsort(-apart[known], kind="stable")]
    tied = np.round(apart[some], TOLD_APART)
    some = some[tied >= tied[IN_PROFILE - 1]] if len(some) > IN_PROFILE else some
    found = []
    for k in some[: 4 * IN_PROFILE]:
        low, high = ranges[k]
        parts = [_described(X[rows, k], low, high) for rows in (inside, ~inside)]
        if low < high:
            low = -np.inf if low == np.nanmin(X[:, k]) else low
            high = np.inf if high == np.nanmax(X[:, k]) else high
        found.append(ColumnRange(int(k), float(apart[k]), float(low), float(high), *parts))
    found.sort(key=lambda column: (-round(column.apart, TOLD_APART), -_distance(column)))
    return found[:IN_PROFILE]


def _described(x: np.ndarray, low: float, high: float) -> np.ndarray:
    x = x[~np.isnan(x)]
    quartiles = np.quantile(x, [0.25, 0.5, 0.75])
    return np.append(quartiles, np.mean((x >= low) & (x <= high)))


def _distance(column: ColumnRange) -> float:
    """Return the distance of medians by the mean of the distances between quartiles."""
    inside, outside = column.inside, column.outside
    spread = 0.5 * (inside[2] - inside[0] + outside[2] - outside[0])
    away = abs(inside[1] - outside[1])
    return float(away / spread) if spread > 0.0 else float(np.inf if away > 0.0 else 0.0)
