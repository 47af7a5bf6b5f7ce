"""Populations: densities of clusters whose columns may depend on each other.

Columns are modelled one after the other, each given the previous ones. A number has a regression on
bends and products (Friedman 1991). Its variance may depend on them, and its residuals may have
heavy tails or be skewed. A category has a logistic regression. Terms are added if they raise the
BIC. One cluster may thus be curved, fan out, or have dependent flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from distsvc.kernels.population import describe_category, describe_number

KNOTS = (1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6)
"""Quantiles of a number at which another may bend (Friedman 1991)."""


@dataclass(frozen=True)
class PopulationRows:
    """Rows of a table as populations see them.

    Attributes
    ----------
    Z : ndarray of shape (n, p), float64
        Draws from the cells of numbers; any numbers where not `present`.
    values : ndarray of shape (n, p), float64
        The means of the same cells: what other columns depend on, without the noise of a draw.
    present : ndarray of shape (n, p), bool
    levels : ndarray of shape (n, q), int64
        Levels of categories, -1 where missing.
    n_levels : ndarray of shape (q,), int64

    """

    Z: np.ndarray
    values: np.ndarray
    present: np.ndarray
    levels: np.ndarray
    n_levels: np.ndarray
    _populations: dict[bytes, Population] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.Z)

    @cached_property
    def order(self) -> np.ndarray:
        """Order (p,) of the numbers. Numbers that a bend or product explains best come last."""
        V, p = self.values, self.values.shape[1]
        if p < 2:
            return np.arange(p)
        a, b = np.tril_indices(p, -1)
        bent = np.repeat(np.arange(p), len(KNOTS))
        terms = _unit_columns(np.hstack([V[:, a] * V[:, b], hinges(V)]))
        R2 = (_unit_columns(V).T @ terms) ** 2
        a, b = np.append(a, bent), np.append(b, bent)
        gains = [R2[j][(a != j) & (b != j)].max() for j in range(p)]
        return np.argsort(gains, kind="stable")

    @cached_property
    def ordered(self) -> np.ndarray:
        """Values (p, n) of the numeric columns, in the order `order`."""
        return np.ascontiguousarray(self.values[:, self.order].T)

    def population(self, members: np.ndarray) -> Population:
        """Return the cached population of the rows with the indices `members` (m,)."""
        key = members.tobytes()
        if key not in self._populations:
            self._populations[key] = Population.of(self, members)
        return self._populations[key]

    def populations(self, members: Sequence[np.ndarray]) -> list[Population]:
        """Return the clusters' populations; drop all others from the cache, except for all rows."""
        found = [self.population(own) for own in members]
        kept = {own.tobytes() for own in (*members, np.arange(len(self)))}
        for key in self._populations.keys() - kept:
            del self._populations[key]
        return found

    @cached_property
    def known(self) -> np.ndarray:
        """Numbers and indicators (r, n) that categories may depend on."""
        parts = [self.values.T]
        for j, n in enumerate(self.n_levels):
            parts.append((self.levels[:, j] == np.arange(1, n)[:, None]).astype(float))
        return np.vstack(parts)

    @cached_property
    def n_known(self) -> np.ndarray:
        """Number (q,) of rows of `known` that each category may depend on."""
        return self.Z.shape[1] + np.cumsum(np.append(0, self.n_levels - 1))[:-1]

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """Shares of the levels of each category."""
        found = []
        for j, n in enumerate(self.n_levels):
            counts = np.bincount(self.levels[:, j][self.levels[:, j] >= 0], minlength=n) + 0.5
            found.append(counts / counts.sum())
        return found


@dataclass(frozen=True)
class Population:
    """Density of one cluster, column by column: ordered numbers, then categories.

    `log_densities` (p + q, n) has a row for each column: its log density in every row of the table,
    given the previous columns. `n_parameters` (p + q,) are the numbers of parameters.
    """

    log_densities: np.ndarray
    n_parameters: np.ndarray

    @classmethod
    def of(cls, rows: PopulationRows, members: np.ndarray) -> Population:
        """Return the population of the rows with the indices `members` (m,)."""
        p, q = len(rows.order), len(rows.n_levels)
        densities, parameters = np.zeros((p + q, len(rows))), np.zeros(p + q, np.int64)
        log_n, V = float(np.log(len(rows))), rows.ordered
        knots = knots_of(V.T[members])
        for place, j in enumerate(rows.order):
            there, y = rows.present[:, j], np.ascontiguousarray(rows.Z[:, j])
            own, row = members[there[members]], densities[place]
            parameters[place] = describe_number(V, knots, place, y, own, log_n, row)
            row[~there] = 0.0
        for j in range(q):
            level, row = np.ascontiguousarray(rows.levels[:, j]), densities[p + j]
            own = members[level[members] >= 0]
            parameters[p + j] = describe_category(
                rows.known, rows.n_known[j], level, own, rows.shares[j], log_n, row
            )
            row[level < 0] = 0.0
        return cls(densities, parameters)


def moved_population(
    rows: PopulationRows, labels: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Describe numbers by one population whose means move from cluster to cluster.

    Returns the log densities (k, p, n) of the rows in each cluster, and the parameters (p,). Labels
    (n,) are from 0 to k - 1. One population describes all rows less the means of their clusters, as
    covariances that are tied do.
    """
    n, V = len(rows), rows.ordered
    means = np.stack([V[:, labels == c].mean(axis=1) for c in range(k)])
    # Every row as it is in each cluster, one cluster after the other.
    moved = np.ascontiguousarray((V[:, None, :] - means.T[:, :, None]).reshape(len(V), k * n))
    own = labels * n + np.arange(n)
    knots, log_n = knots_of(moved[:, own].T), float(np.log(n))
    densities, parameters = np.zeros((k, len(V), n)), np.zeros(len(V), np.int64)
    for place, j in enumerate(rows.order):
        there, y, found = rows.present[:, j], rows.Z[:, j], np.empty(k * n)
        counts = np.bincount(labels[there], minlength=k)
        centres = np.bincount(labels[there], y[there], minlength=k) / np.maximum(counts, 1)
        around = np.ascontiguousarray((y - centres[:, None]).ravel())
        n_own = describe_number(moved, knots, place, around, own[there], log_n, found)
        parameters[place] = n_own - 1 + k
        densities[:, place] = found.reshape(k, n) * there
    return densities, parameters


@dataclass(frozen=True)
class Quality:
    """Fit of a partition to rows: log-likelihoods (n,) and number of parameters.

    `bic` is the sum of the first minus half the second times log n.
    """

    log_density: np.ndarray
    n_parameters: int

    @property
    def bic(self) -> float:
        """Bayesian information criterion, in nats: higher is better."""
        n = len(self.log_density)
        return float(self.log_density.sum()) - 0.5 * self.n_parameters * float(np.log(n))

    def better_than(self, other: Quality) -> float:
        """Return the z statistic of this description against another (Vuong 1989)."""
        gain = self.log_density - other.log_density
        spread = float(np.sqrt(((gain - gain.mean()) ** 2).sum()))
        return (self.bic - other.bic) / spread if spread > 0.0 else 0.0


def quality_of(rows: PopulationRows, labels: np.ndarray) -> Quality:
    """Return the quality of the mixture of populations of clusters, labels (n,) from 0.

    For each column, the description with the highest BIC is used. The choices are a common
    description of all clusters (Raftery and Dean 2006) and one for each cluster. Numbers have a
    third choice: a common description with a mean for each cluster.
    """
    n, k, p = len(rows), int(labels.max()) + 1, len(rows.order)
    whole = rows.population(np.arange(n))
    if k == 1:
        return Quality(whole.log_densities.sum(axis=0), int(whole.n_parameters.sum()))
    parts = rows.populations([np.flatnonzero(labels == c) for c in range(k)])
    moved, n_moved = moved_population(rows, labels, k)
    joint = np.repeat(np.log(np.bincount(labels, minlength=k) / n)[:, None], n, axis=1)
    n_parameters = k - 1
    for j in range(len(whole.n_parameters)):
        own = np.stack([part.log_densities[j] for part in parts])
        choices = [(whole.log_densities[j][None], int(whole.n_parameters[j]))]
        choices.append((own, sum(int(part.n_parameters[j]) for part in parts)))
        if j < p:
            choices.append((moved[:, j], int(n_moved[j])))
        best = max(choices, key=lambda one: _bic_of(one[0], one[1], labels))
        joint += best[0]
        n_parameters += best[1]
    top = joint.max(axis=0)
    return Quality(top + np.log(np.exp(joint - top).sum(axis=0)), n_parameters)


def _bic_of(log_densities: np.ndarray, n_parameters: int, labels: np.ndarray) -> float:
    """Return the BIC of log densities (k, n) of rows in their clusters, or (1, n) in any."""
    n = len(labels)
    at = labels if len(log_densities) > 1 else 0
    return float(log_densities[at, np.arange(n)].sum()) - 0.5 * n_parameters * float(np.log(n))


def _unit_columns(X: np.ndarray) -> np.ndarray:
    """Return columns of X (n, p) with mean 0 and length 1."""
    centred = X - X.mean(axis=0)
    return np.asarray(centred / (np.linalg.norm(centred, axis=0) + 1e-12))


def knots_of(own: np.ndarray) -> np.ndarray:
    """Return the quantiles (p, KNOTS) of rows own (m, p)."""
    if not len(own):
        return np.zeros((own.shape[1], len(KNOTS)))
    return np.ascontiguousarray(np.quantile(own, KNOTS, axis=0).T)


def hinges(X: np.ndarray) -> np.ndarray:
    """Return the distances of numbers X (n, p) above their quantiles, or 0, (n, p KNOTS)."""
    return np.maximum(X[:, :, None] - knots_of(X), 0.0).reshape(len(X), -1)
