"""The quantiles that define outliers of a cluster in all families."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutlierShares:
    """Quantiles of a cluster's scores, and the size of clusters that have their own.

    A cluster's spread is estimated from its tail, first from a larger one, whose rows include
    outliers. The `tail` of rows with the nearest neighbours counts as equally near.
    """

    outside: float = 0.004  # share of a normal cluster's rows that lie outside the limit
    tail: float = 0.05  # share of a cluster's rows in its tail
    first_tail: float = 0.15
    min_size: float = 0.1  # of a cluster with its own tail, relative to the mean size
    min_unit: float = 1e-3  # minimum spread of a cluster, in units of a logarithm


SHARES_OUTSIDE = OutlierShares()
