"""The quantiles that define outliers of a cluster in all families."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutlierShares:
    """Quantiles of a cluster's scores, and the size of clusters that have their own.

    Attributes
    ----------
    outside
        Share of a normal cluster's rows that lie outside the limit.
    tail, first_tail
        Share of a cluster's rows in its tail, from which its spread is estimated. The first
        estimate uses a larger share, because its rows include outliers. The `tail` of rows with
        the nearest neighbours counts as equally near.
    min_size
        Minimum size of a cluster with its own tail, relative to the mean size.
    min_unit
        Minimum spread of a cluster, in units of a logarithm.

    """

    outside: float = 0.004
    tail: float = 0.05
    first_tail: float = 0.15
    min_size: float = 0.1
    min_unit: float = 1e-3


SHARES_OUTSIDE = OutlierShares()
