"""The quantiles that define a cluster's outliers, in every algorithm."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OutlierShares:
    """Constants that determine the outlier limit of a cluster.

    The spread of a cluster is first estimated from the quantile `first_tail` of all its rows, then
    from the quantile `tail` of the rows that are no outliers. In neighbour scores, distances below
    the quantile `tail` of the distances count as equal.
    """

    outside: float = 0.004  # share of a normal cluster's rows beyond the limit
    tail: float = 0.05  # quantile that determines the spread
    first_tail: float = 0.15  # quantile that determines the first estimate of the spread
    never: float = 1e-9  # share of a normal cluster's rows below the floor of its log density
    min_size: float = 0.1  # minimum size of a cluster with its own limit, relative to the mean size
    min_unit: float = 1e-3  # minimum spread, by which scores are divided


SHARES_OUTSIDE = OutlierShares()
