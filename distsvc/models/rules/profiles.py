"""Profiles of clusters: the columns, and ranges of values, that separate a cluster best.

The quality of a range is the index J of Youden (1950): the share of the cluster's rows in it minus
the share of the other rows in it. J is 1 if the range contains exactly the cluster, and about 0 if
the column is unrelated to it. J does not depend on the column's scale or tails.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 256
"""Number of bins of a column, with about equally many rows; a range ends at borders of bins."""

MAX_PROFILE_COLUMNS = 5

J_DECIMALS = 2
"""Number of decimals of J that count when columns are compared."""


@dataclass(frozen=True)
class ColumnRange:
    """A column of a profile, and its range that separates the cluster best."""

    place: int  # index of the column
    apart: float  # J of the range
    low: float  # -inf if it is the column's minimum
    high: float  # inf if it is the column's maximum
    inside: np.ndarray  # (4,) float64: quartiles of the cluster, and share of its rows in the range
    outside: np.ndarray  # (4,) float64: the same for the other rows


@dataclass(frozen=True)
class ClusterProfile:
    """The columns that separate a cluster best, the best first, and typical rows."""

    label: int
    n_rows: int
    columns: list[ColumnRange]
    typical: np.ndarray  # indices of rows


def profiles(
    X: np.ndarray,
    Z: np.ndarray,
    labels: np.ndarray,
    usual: np.ndarray,
    centres: np.ndarray,
    most: int,
    together: Sequence[slice] = (),
) -> list[ClusterProfile]:
    """Return the profiles of at most `most` clusters, the largest first.

    X (m, d) are stored rows, NaN where missing, and Z are the same rows, prepared. A cluster's
    typical rows are its rows nearest to its prepared centre in `centres`. Only rows marked in
    `usual` (m,) bool are typical, unless the cluster has none. `together` are groups of one-hot
    columns; a profile has only the best column of each group.
    """
    sizes = np.bincount(labels, minlength=len(centres))
    order = np.argsort(-sizes, kind="stable")
    chosen = [int(c) for c in order if sizes[c]][:most]
    if not 0 < sizes[chosen[0]] < len(X):
        return []
    apart, ranges = best_ranges(X, labels, chosen)
    for group in together:  # among equally good columns, a column with the range 1 is best
        ones = 0.1 * 10.0**-J_DECIMALS * (ranges[:, group, 0] > 0.0)
        best = (np.round(apart[:, group], J_DECIMALS) + ones).argmax(axis=1)
        apart[:, group][np.arange(ones.shape[1]) != best[:, None]] = 0.0
    found = []
    for i, c in enumerate(chosen):
        inside = labels == c
        columns = _columns(X, inside, apart[i], ranges[i])
        known = inside & usual if (inside & usual).any() else inside
        places = np.flatnonzero(known)
        away = ((Z[places] - centres[c]) ** 2).sum(axis=1)
        typical = places[np.argsort(away, kind="stable")[:5]]
        found.append(ClusterProfile(c, int(sizes[c]), columns, typical))
    return found


def best_ranges(
    X: np.ndarray, labels: np.ndarray, chosen: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best range of each column for each of the c `chosen` clusters.

    The results are J (c, d) and the ends of the ranges (c, d, 2). X (m, d) are rows with `labels`
    (m,); missing values (NaN) are skipped. No chosen cluster has all rows.
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
        lowest = np.minimum.accumulate(before, axis=1)  # best range: maximum sum of a run of bins
        last = (risen - lowest).argmax(axis=1)
        at = np.arange(len(chosen)), last
        apart[:, j] = np.clip((risen - lowest)[at], 0.0, 1.0)
        first = (before == lowest[at][:, None]).argmax(axis=1)
        ranges[:, j] = np.column_stack([firsts[first], edges[last]])
    return apart, ranges


def leanings(X: np.ndarray, labels: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
    """Return the delta (c, d) of each of the c `chosen` clusters in each column, from -1 to 1.

    The delta of Cliff (1993) is the probability that a row of the cluster lies above a row outside
    the cluster, minus the probability that it lies below. X (m, d) are rows with `labels` (m,). No
    chosen cluster has all rows.
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
    """Return the ranks of x (m,), from 1; equal values have their mean rank.

    `scipy.stats.rankdata` does the same, but is slow to import.
    """
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[which]


def _columns(
    X: np.ndarray, inside: np.ndarray, apart: np.ndarray, ranges: np.ndarray
) -> list[ColumnRange]:
    """Return the columns that separate the rows `inside` from others better than chance.

    `apart` (d,) and `ranges` (d, 2) are J and the best range of each column. The best column is
    first. If J is equal, columns are ordered by the distance of medians in interquartile ranges.
    """
    n, m = np.count_nonzero(inside), np.count_nonzero(~inside)
    # J of an unrelated column exceeds this multiple of its standard error in fewer than one of a
    # thousand cases. J = 0.9 is always enough. A column needs a third of the best J.
    least = max(min(2.5 * np.sqrt(1.0 / n + 1.0 / m), 0.9), 1 / 3 * apart.max())
    known = np.flatnonzero(apart >= least)
    some = known[np.argsort(-apart[known], kind="stable")]
    tied = np.round(apart[some], J_DECIMALS)
    some = some[tied >= tied[MAX_PROFILE_COLUMNS - 1]] if len(some) > MAX_PROFILE_COLUMNS else some
    found = []
    for k in some[: 4 * MAX_PROFILE_COLUMNS]:
        low, high = ranges[k]
        parts = [_described(X[rows, k], low, high) for rows in (inside, ~inside)]
        if low < high:
            low = -np.inf if low == np.nanmin(X[:, k]) else low
            high = np.inf if high == np.nanmax(X[:, k]) else high
        found.append(ColumnRange(int(k), float(apart[k]), float(low), float(high), *parts))
    found.sort(key=lambda column: (-round(column.apart, J_DECIMALS), -_distance(column)))
    return found[:MAX_PROFILE_COLUMNS]


def _described(x: np.ndarray, low: float, high: float) -> np.ndarray:
    x = x[~np.isnan(x)]
    quartiles = np.quantile(x, [0.25, 0.5, 0.75])
    return np.append(quartiles, np.mean((x >= low) & (x <= high)))


def _distance(column: ColumnRange) -> float:
    inside, outside = column.inside, column.outside
    spread = 0.5 * (inside[2] - inside[0] + outside[2] - outside[0])
    away = abs(inside[1] - outside[1])
    return float(away / spread) if spread > 0.0 else float(np.inf if away > 0.0 else 0.0)
