"""The quantiles that define outliers of a cluster in all families."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutlierShares:
    """Quantiles of a cluster's scores that set the outlier limit.

    A cluster's spread is estimated from the `first_tail` of its rows, then without outliers from
    the `tail`. The `tail` of rows with the nearest neighbours counts as equally near.
    """

    outside: float = 0.004  # share of a normal cluster's rows that lie outside the limit
    tail: float = 0.05  # share of a cluster's rows in its tail
    first_tail: float = 0.15
    never: float = 1e-9  # share of a normal cluster's rows with so low a density: none of a table
    min_size: float = 0.1  # minimum size of a cluster that counts, relative to the mean
    min_unit: float = 1e-3  # minimum spread of a cluster, in units of a logarithm


SHARES_OUTSIDE = OutlierShares()
