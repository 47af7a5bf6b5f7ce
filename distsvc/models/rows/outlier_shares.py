"""The quantiles that define a cluster's outliers, in every algorithm."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OutlierShares:
    """Shares of a cluster's rows that set its outlier limit.

    The spread of a cluster is first estimated from the quantile `first_tail` of all its rows, then
    from the quantile `tail` of the rows that are no outliers. In neighbour scores, distances below
    the quantile `tail` of the distances count as equal.
    """

    outside: float = 0.004  # share of a normal cluster's rows beyond the limit
    tail: float = 0.05
    first_tail: float = 0.15
    never: float = 1e-9  # share of a normal cluster's rows below the density floor
    min_size: float = 0.1  # minimum size of a cluster that counts, relative to the mean size
    min_unit: float = 1e-3  # minimum spread of a cluster's log density or log nearness


SHARES_OUTSIDE = OutlierShares()
