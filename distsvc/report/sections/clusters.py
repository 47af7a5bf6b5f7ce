"""The cells of the page's table of clusters by column, and the clusters with a card."""

from __future__ import annotations

import numpy as np

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ColumnPart, ColumnsPart, ProfilePart
from distsvc.report.content.report import Report

MIN_EXPLAINED = 0.01
"""Minimum explained share of a column's spread for the column to count as informative."""


def comparable(found: ColumnsPart) -> list[ColumnPart]:
    """Return the columns with values by cluster, the most informative first."""
    if len(found.label) < 2:
        return []
    by_cluster = (one for one in found.columns if one.rows or one.quartiles)
    return sorted(by_cluster, key=lambda one: -one.explained_share)


def level_shares(one: ColumnPart) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return each level of a column, with its share in every cluster and how that differs."""
    counts = np.array(one.rows, np.float64)
    n_rows = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(n_rows, 1.0)
    others = (counts.sum(axis=0) - counts) / np.maximum(counts.sum() - n_rows, 1.0)
    words = [level.lower() for level in one.levels]
    affirmative = (k for k, word in enumerate(words) if word in ("yes", "true", "y", "1", "t"))
    levels = [next(affirmative, 1)] if len(words) == 2 else range(len(words))  # of two, one shows
    pairs = np.stack([shares, shares - others], axis=2).tolist()
    return [(one.levels[k], [row[k] for row in pairs]) for k in levels]


def unit(one: ColumnPart) -> float:
    """Return the unit of clusters' medians: their mean quartile range, or the medians' range."""
    quartiles = np.array(one.quartiles, np.float64)
    known = quartiles[~np.isnan(quartiles).any(axis=1)]
    if not len(known):
        return 1.0
    return float(np.mean(known[:, 2] - known[:, 0])) or float(np.ptp(known[:, 1])) or 1.0


def cards(report: Report) -> list[ProfilePart]:
    """Return the profiles that have a card, the largest cluster first."""
    if report.profiles is None:
        return []
    place = {row.label: i for i, row in enumerate(report.clusters)}
    profiles = report.profiles.clusters
    return sorted(profiles, key=lambda one: place.get(one.label, len(place)))[
        : PAGE_LIMITS.clusters
    ]
