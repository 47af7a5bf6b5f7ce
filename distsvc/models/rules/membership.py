"""Membership of rows in clusters, as shares from 0 to 1.

A row's shares in all clusters add up to 1. A result has the share in the row's own cluster, and the
largest shares in other clusters.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from distsvc.kernels.rows import largest_others
from distsvc.models.rules.rule import Rule

SHARE_BYTES = 2**22
"""Maximum size of a block of shares, in bytes."""

SPLIT_SOFTNESS = 0.15
"""Scale of a hyperplane's logistic function, in standard deviations of the rows it divides."""

BY_HYPERPLANES = (
    f"the product of 1 / (1 + exp(-t / {SPLIT_SOFTNESS})) over the hyperplanes on the path to the "
    "cluster; t is the row's distance, negative on the other side, in standard deviations of the "
    "node's rows"
)
"""Definition of the shares of a tree of hyperplanes, for users."""


@dataclass(frozen=True)
class Membership:
    """Membership of n rows in their own clusters and in the likeliest other clusters."""

    own: np.ndarray  # (n,) float32: shares of the rows' own clusters
    others: np.ndarray  # (n, m) int32: other clusters, largest share first; equal shares by number
    other_shares: np.ndarray  # (n, m) float32: shares of the other clusters

    @classmethod
    def of(cls, rule: Rule, Z: np.ndarray, labels: np.ndarray, most: int) -> Self:
        """Return the membership of prepared rows Z (n, d), whose own clusters are `labels` (n,).

        At most `most` other clusters are included for each row.
        """
        n, m = len(Z), min(most, rule.n_clusters - 1)
        found = cls(np.empty(n, np.float32), np.empty((n, m), np.int32), np.empty((n, m), "f4"))
        step = max(1, SHARE_BYTES // (4 * rule.n_clusters))
        for first in range(0, n, step):
            part = slice(first, first + step)
            shares = rule.shares(Z[part])
            found.own[part] = shares[np.arange(len(shares)), labels[part]]
            if m:
                of_part = found.others[part], found.other_shares[part]
                largest_others(shares, labels[part], *of_part)
        return found
