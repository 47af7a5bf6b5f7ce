"""Populations: flexible densities of clusters, by which the default algorithm compares partitions.

A normal density would cut a curved cluster into pieces. So a population is a product of
conditional densities, in which each column depends on the columns before it:

- A number has a regression on hinges and products of earlier numbers (Friedman 1991). Its variance
  may depend on them, too, and its residuals may have heavy tails or be skewed.
- A category has a logistic regression.
- If a rounded number has few cells (different values) in a cluster, an ordered probit may describe
  it instead: thresholds of a latent variable decide the cell.

A term is added if it raises the BIC. So one cluster may be curved, fan out, or have dependent
flags. `quality_of` returns the BIC of a partition whose clusters are populations.

A number is described either as stored, or as mapped by its column model to a nearly normal scale.
The BIC chooses the scale (Box and Cox 1964). Stored columns often have simple relations: they add
up, or one is a multiple of another.

A zero-inflated column becomes two: a flag, and an amount in the rows where it is not 0. Numbers
without a flag come first, then flags, then amounts, then other categories. A regression replaces a
missing number by the mean of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from scipy.special import gammaln, ndtri

from distsvc.inputs.mixed import MOST_LEVELS
from distsvc.kernels.population import describe_category, describe_cells, describe_number
from distsvc.models.rows.threads import both

KNOTS = (1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6)
"""Quantiles of a number that are the knots of its hinges (Friedman 1991)."""


@dataclass(frozen=True)
class ScaledNumbers:
    """Numbers of a table on one scale, either mapped or stored.

    A stored value stands for its cell: all values that round to it. Populations are densities of
    `draws`. Their regressions use `middles` as predictors, because these have no noise.
    `log_slopes` are the log derivatives of `draws` with respect to the mapped draws.
    """

    draws: np.ndarray  # (n, p) float64: random values from the cells; any finite ones if missing
    middles: np.ndarray  # (n, p) float64: medians of the cells
    log_slopes: np.ndarray | None = None  # (n, p) float64; None on the mapped scale

    def take(self, m: int) -> ScaledNumbers:
        slopes = None if self.log_slopes is None else self.log_slopes[:m]
        return ScaledNumbers(self.draws[:m], self.middles[:m], slopes)


@dataclass(frozen=True)
class NumberCells:
    """Cells of rounded numbers: the cell of each value, and the cell's probability."""

    indices: np.ndarray  # (n, p) int64: cell of each value; -1 if missing or not rounded
    log_inside: np.ndarray  # (n, p) float64: log density of each mapped draw, given its cell
    chances: np.ndarray  # (n, p) float64: probability of each value's cell in the column's model

    def take(self, m: int) -> NumberCells:
        return NumberCells(self.indices[:m], self.log_inside[:m], self.chances[:m])


@dataclass(frozen=True)
class PopulationRows:
    """Rows of a table: numbers on several scales, and levels of categories.

    A zero-inflated number also has a flag: a category whose level is 1 where the number is 0.
    """

    scales: tuple[ScaledNumbers, ...]  # the numbers on the mapped scale, then on other scales
    present: np.ndarray  # (n, p) bool: True where a number is not missing
    levels: np.ndarray  # (n, q) int64: levels of categories, -1 where missing
    n_levels: np.ndarray  # (q,) int64: number of levels of each category
    flags: np.ndarray  # (p,) int64: column of each number's flag in `levels`; -1 without a flag
    n_jobs: int | None = 1  # number of threads, which changes no result
    cells: NumberCells | None = None  # None if no number is rounded
    _populations: dict[bytes, Population] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.present)

    @property
    def values(self) -> np.ndarray:
        """Middles (n, p) of the cells on the mapped scale."""
        return self.scales[0].middles

    @cached_property
    def order(self) -> np.ndarray:
        """Indices (p,) of the columns of numbers, in the order in which they are modelled.

        Zero-inflated columns are last. The others are sorted by their number of missing values,
        then by how well one term predicts them, the worst first. The term is a hinge of another
        column or a product of two, and R^2 measures the fit.
        """
        V, p = self.values, self.values.shape[1]
        if p < 2:
            return np.arange(p)
        a, b = np.tril_indices(p, -1)
        bent = np.repeat(np.arange(p), len(KNOTS))
        hinges = np.maximum(V[:, :, None] - knots_of(V), 0.0).reshape(len(V), -1)
        terms = _unit_columns(np.hstack([V[:, a] * V[:, b], hinges]))
        R2 = (_unit_columns(V).T @ terms) ** 2
        a, b = np.append(a, bent), np.append(b, bent)
        gains = [R2[j][(a != j) & (b != j)].max() for j in range(p)]
        return np.lexsort((gains, (~self.present).sum(axis=0), self.flags >= 0))

    @cached_property
    def ordered(self) -> list[np.ndarray]:
        """Predictors of the numbers for each scale, (p + f, n) float64.

        They are the middles of the numbers, sorted by `order`, with the f flags just before the
        zero-inflated numbers.
        """
        return [
            self._with_flags(one.middles, self.levels[:, self._flags] == 1) for one in self.scales
        ]

    @cached_property
    def ordered_present(self) -> np.ndarray:
        """Mask (p + f, n) of the values in `ordered` that are not missing."""
        return self._with_flags(self.present, self.levels[:, self._flags] >= 0)

    @cached_property
    def leading(self) -> np.ndarray:
        """Number of predictors of each number, (p,), sorted by `order`.

        The predictors are the first rows of `ordered`, which are modelled before the number.
        """
        place, f = np.arange(len(self.order)), len(self._flags)
        return np.where(place < len(place) - f, place, place + f)

    @property
    def _flags(self) -> np.ndarray:
        """Indices (f,) of the categories that are flags of zero-inflated numbers, by `order`."""
        flags = self.flags[self.order]
        return flags[flags >= 0]

    def _with_flags(self, numbers: np.ndarray, flags: np.ndarray) -> np.ndarray:
        """Return numbers (n, p) and flags (n, f) as the rows (p + f, n) of one array.

        Numbers are sorted by `order`. Flags come just before the zero-inflated numbers.
        """
        ordered, f = numbers[:, self.order].T, flags.shape[1]
        first = len(ordered) - f
        return np.vstack([ordered[:first], flags.T, ordered[first:]])

    @cached_property
    def scale_of(self) -> np.ndarray:
        """Index of the best scale of each number, (p,) int64, sorted by `order`.

        The best scale has the highest BIC if all rows are one population.
        """
        n, p = self.present.shape
        bics = np.empty((len(self.scales), p))
        for scale in range(len(self.scales)):
            found = described_numbers(self, np.arange(n), np.full(p, scale))
            bics[scale] = found[0].sum(axis=1) - 0.5 * found[1] * np.log(n)
        return bics.argmax(axis=0)

    def population(self, members: np.ndarray) -> Population:
        key = members.tobytes()
        if key not in self._populations:
            self._populations[key] = Population.of(self, members)
        return self._populations[key]

    def populations(self, members: Sequence[np.ndarray]) -> list[Population]:
        """Return the population of each cluster; `members` has an array of row numbers for each.

        Only these populations, and the population of all members together, stay in the cache.
        """
        found = [self.population(own) for own in members]
        whole = np.sort(np.concatenate(members))
        for key in self._populations.keys() - {own.tobytes() for own in (*members, whole)}:
            del self._populations[key]
        return found

    @cached_property
    def category_order(self) -> np.ndarray:
        """Indices (q,) of the categories, in the order in which they are modelled: flags first."""
        others = np.setdiff1d(np.arange(len(self.n_levels)), self._flags)
        return np.append(self._flags, others)

    @cached_property
    def predictors(self) -> tuple[np.ndarray, np.ndarray]:
        """Predictors (r, n) of categories, and a mask (r, n) of the values that are not missing.

        The first predictors are the mapped numbers and flags of `ordered`. Then come indicators of
        the categories that are not flags, one for each level except the first.
        """
        values, known = [self.ordered[0]], [self.ordered_present]
        for j in self.category_order[len(self._flags) :]:
            levels = np.arange(1, self.n_levels[j])[:, None]
            values.append(self.levels[:, j] == levels)
            known.append(np.broadcast_to(self.levels[:, j] >= 0, (len(levels), len(self))))
        return np.vstack(values), np.vstack(known)

    @cached_property
    def n_predictors(self) -> np.ndarray:
        """Number of predictors of each category, (q,), sorted by `category_order`.

        A category's predictors are the first rows of `predictors`, modelled before the category.
        """
        f, order = len(self._flags), self.category_order
        flags = len(self.order) - f + np.arange(f)
        others = np.cumsum(np.append(0, self.n_levels[order[f:]] - 1))[:-1]
        return np.append(flags, len(self.ordered[0]) + others)

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """For each category, the shares of its levels in all rows."""
        found = []
        for j, n in enumerate(self.n_levels):
            counts = np.bincount(self.levels[:, j][self.levels[:, j] >= 0], minlength=n) + 0.5
            found.append(counts / counts.sum())
        return found


@dataclass(frozen=True)
class Population:
    """Density of one cluster: a density of each column, given the columns before it.

    The density is fitted to the cluster's members, and evaluated in all n rows of the table.
    Columns are numbers in `PopulationRows.order`, then categories in `category_order`.
    """

    log_densities: np.ndarray  # (p + q, n): log density of each column, given the previous ones
    n_parameters: np.ndarray  # (p + q,): number of parameters of each column

    @classmethod
    def of(cls, rows: PopulationRows, members: np.ndarray) -> Population:
        numbers, n_numbers = described_numbers(rows, members, rows.scale_of)
        if rows.cells is not None:
            V = _filled(rows.ordered[0], rows.ordered_present, members)
            _describe_cells(rows, rows.cells, V, members, numbers[None], n_numbers)
        predictors = _filled(*rows.predictors, members)
        q, log_n = len(rows.n_levels), float(np.log(len(rows)))
        categories, n_categories = np.zeros((q, len(rows))), np.zeros(q, np.int64)
        for place, (j, n_known) in enumerate(
            zip(rows.category_order, rows.n_predictors, strict=True)
        ):
            level = np.ascontiguousarray(rows.levels[:, j])
            own, found = members[level[members] >= 0], categories[place]
            n_categories[place] = describe_category(
                predictors, n_known, level, own, rows.shares[j], log_n, found
            )
            found[level < 0] = 0.0
        return cls(np.vstack([numbers, categories]), np.append(n_numbers, n_categories))


def described_numbers(
    rows: PopulationRows, members: np.ndarray, scale_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit regressions of the p numbers to one cluster, whose row indices are `members`.

    Regression i describes number ``rows.order[i]`` on the scale ``scale_of[i]``. Return the log
    densities (p, n) of the mapped numbers in all rows, and the numbers of parameters (p,).
    """
    p, log_n = len(rows.order), float(np.log(len(rows)))
    densities, parameters = np.zeros((p, len(rows))), np.zeros(p, np.int64)
    used = np.unique(scale_of)
    V = {scale: _filled(rows.ordered[scale], rows.ordered_present, members) for scale in used}
    knots = {scale: knots_of(V[scale].T[members]) for scale in used}
    for place, (j, scale) in enumerate(zip(rows.order, scale_of, strict=True)):
        there, row, numbers = rows.present[:, j], densities[place], rows.scales[scale]
        y, own = np.ascontiguousarray(numbers.draws[:, j]), members[there[members]]
        parameters[place] = describe_number(
            V[scale], knots[scale], rows.leading[place], y, own, log_n, row, False
        )
        if numbers.log_slopes is not None:
            row += numbers.log_slopes[:, j]
        row[~there] = 0.0
    return densities, parameters


def _describe_cells(
    rows: PopulationRows,
    cells: NumberCells,
    V: np.ndarray,
    own: np.ndarray,
    densities: np.ndarray,
    parameters: np.ndarray,
) -> None:
    """Replace the density of each rounded number by an ordered probit if that raises the BIC.

    The arrays `densities` (k, p, n) and `parameters` (p,) are changed. They are the log densities
    of all n rows in k clusters, and the numbers of parameters. The clusters share a probit, but
    have their own means.

    V (p + f, k n) has the predictors of all rows for cluster 0, then for cluster 1, and so on. If
    k > 1, they are relative to the cluster's means. The probit is fitted to the columns `own` (m,)
    of V. A number is skipped if it has more than `MOST_LEVELS` cells in these columns.

    The probit gives the probability of a cell. The density of the draw inside the cell is a further
    factor, so that the product is comparable with a density of draws.
    """
    k, n, log_n = len(densities), len(rows), float(np.log(len(rows)))
    knots = knots_of(V[:, own].T)
    for place, j in enumerate(rows.order):
        index, chances = cells.indices[:, j], cells.chances[:, j]
        known = own[index[own % n] >= 0]
        counts = np.bincount(index[known % n])
        used = np.flatnonzero(counts)
        if not 0 < len(used) <= MOST_LEVELS:
            continue
        counts = counts[used]
        renumbered = np.full(int(index.max()) + 2, -1)  # the last entry is for missing numbers
        renumbered[used] = np.arange(len(used))
        cell = renumbered[index]
        prior = np.zeros(len(used))
        prior[cell[cell >= 0]] = chances[cell >= 0]
        scores, thresholds = _cell_scores(counts)
        score = np.append(scores, 0.0)[cell]
        cluster = known // n
        sums = np.bincount(cluster, score[known % n], minlength=k)
        centres = sums / np.maximum(np.bincount(cluster, minlength=k), 1)
        around = (score - centres[:, None]).ravel()
        signal, log_chances = np.empty(k * n), np.empty(k * n)
        n_terms = describe_number(V, knots, rows.leading[place], around, known, log_n, signal, True)
        describe_cells(signal, cell, known, k, thresholds, log_chances)
        found = log_chances.reshape(k, n)
        n_rows = len(known) + 1.0  # the prior is one row more, part of it in other cells
        found += np.log((len(known) + prior.sum()) / n_rows)
        unused = (index >= 0) & (cell < 0)
        found[:, unused] = np.log(chances[unused] / n_rows)
        found += cells.log_inside[:, j]
        found[:, index < 0] = 0.0
        n_parameters = _cell_parameters(counts, prior, log_n) + n_terms + k - 1
        gain = float((found - densities[:, place]).ravel()[known].sum())
        if gain > 0.5 * log_n * (n_parameters - parameters[place]):
            densities[:, place], parameters[place] = found, n_parameters


def _cell_scores(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (u,) of cells with `counts` (u,) rows, and thresholds (u - 1,) between them.

    Thresholds cut a standard normal variable so that each cell has its share of the rows. A cell's
    score is the mean of the variable between its thresholds.
    """
    edges = np.append(ndtri(np.append(0.0, np.cumsum(counts)[:-1] / counts.sum())), np.inf)
    heights = np.exp(-0.5 * edges**2) / np.sqrt(2.0 * np.pi)
    return -np.diff(heights) * counts.sum() / counts, edges[1:-1]


def _cell_parameters(counts: np.ndarray, prior: np.ndarray, log_n: float) -> int:
    """Return the effective number of parameters of u cells that contain `counts` (u,) rows.

    With this number, the BIC about equals the log marginal likelihood of the counts. The
    likelihood has a Dirichlet prior with the weight of one row. The prior's parameters `prior` (u,)
    are the probabilities of the cells in the column's model.
    """
    n_rows = counts.sum() + 1.0
    log_likelihood = (np.log((counts + prior) / n_rows) * counts).sum()
    evidence = (gammaln(counts + prior) - gammaln(prior)).sum() - gammaln(n_rows)
    return int(np.ceil(2.0 * float(log_likelihood - evidence) / log_n))


def shifted_population(
    rows: PopulationRows, labels: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit one regression of each number for all k clusters, which differ only in their means.

    The regressions are fitted to the first m rows, after the means of each row's cluster were
    subtracted. `labels` (m,) are the clusters of these rows, from 0. Return the log densities
    (k, p, n) of all rows in each cluster, and the numbers of parameters (p,).
    """
    n, p, m, log_n = len(rows), len(rows.order), len(labels), float(np.log(len(rows)))
    own = labels * n + np.arange(m)
    moved = {scale: _shifted(rows, scale, labels, k) for scale in np.unique(rows.scale_of)}
    knots = {scale: knots_of(found[:, own].T) for scale, found in moved.items()}
    densities, parameters = np.zeros((k, p, n)), np.zeros(p, np.int64)
    for place, (j, scale) in enumerate(zip(rows.order, rows.scale_of, strict=True)):
        there, numbers, found = rows.present[:, j], rows.scales[scale], np.empty(k * n)
        y, known = numbers.draws[:, j], there[:m]
        counts = np.bincount(labels[known], minlength=k)
        sums = np.bincount(labels[known], y[:m][known], minlength=k)
        centres = sums / np.maximum(counts, 1)
        around = np.ascontiguousarray((y - centres[:, None]).ravel())
        n_own = describe_number(
            moved[scale], knots[scale], rows.leading[place], around, own[known], log_n, found, False
        )
        parameters[place] = n_own - 1 + k
        densities[:, place] = found.reshape(k, n)
        if numbers.log_slopes is not None:
            densities[:, place] += numbers.log_slopes[:, j]
        densities[:, place, ~there] = 0.0
    if rows.cells is not None:
        V = moved[0] if 0 in moved else _shifted(rows, 0, labels, k)
        _describe_cells(rows, rows.cells, V, own, densities, parameters)
    return densities, parameters


def _shifted(rows: PopulationRows, scale: int, labels: np.ndarray, k: int) -> np.ndarray:
    """Return the predictors (p + f, k n) of all n rows relative to each of k clusters in turn.

    A cluster's means are subtracted from all rows; then missing values are 0. `labels` (m,) are
    the clusters of the first m rows, from which the means are computed.
    """
    V, present = rows.ordered[scale], rows.ordered_present
    found = []
    for c in range(k):
        own = np.flatnonzero(labels == c)
        filled = _filled(V, present, own)
        found.append(filled - filled[:, own].mean(axis=1)[:, None])
    return np.ascontiguousarray(np.hstack(found))


def _filled(V: np.ndarray, present: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return V (r, n) float64 with missing values replaced by the mean of the rows `members`."""
    gaps = np.flatnonzero(~present.all(axis=1))
    if not len(gaps):
        return V.astype(np.float64, copy=False)
    filled = V.astype(np.float64)
    for row in gaps:
        known = members[present[row, members]]
        filled[row, ~present[row]] = filled[row, known].mean() if len(known) else 0.0
    return filled


@dataclass(frozen=True)
class Quality:
    """How well a partition describes rows: log-likelihoods and number of parameters."""

    log_density: np.ndarray  # (m,) float64: log-likelihoods of the rows used in the fit
    n_parameters: int
    posterior: np.ndarray | None = None  # (m, k) float64; None if k = 1 or not computed
    held_out: np.ndarray | None = None  # (n - m,) float64: log-likelihoods of the other rows

    @property
    def bic(self) -> float:
        """Bayesian information criterion in nats; higher is better."""
        n = len(self.log_density)
        return float(self.log_density.sum()) - 0.5 * self.n_parameters * float(np.log(n))

    def predicts_better_than(self, other: Quality) -> float:
        """Return the z statistic of a test on held-out rows (Vuong 1989).

        It is this partition's BIC minus the BIC of `other`, in standard errors of the difference.
        """
        assert self.held_out is not None
        assert other.held_out is not None
        gains = self.held_out - other.held_out
        spread = float(np.sqrt(((gains - gains.mean()) ** 2).sum()))
        more = 0.5 * (self.n_parameters - other.n_parameters) * float(np.log(len(gains)))
        return (float(gains.sum()) - more) / spread if spread > 0.0 else 0.0


def quality_of(rows: PopulationRows, labels: np.ndarray) -> Quality:
    """Return the quality of a partition: the fit of a mixture in which clusters are populations.

    Populations are fitted to the first m rows; `labels` (m,) are their clusters, from 0. The BIC
    chooses how each column's density depends on the cluster:

    - It is the same in all clusters (Raftery and Dean 2006).
    - It is fitted to each cluster separately.
    - For a number, it is the same in all clusters except for its mean.
    """
    m, k, p = len(labels), int(labels.max()) + 1, len(rows.order)
    whole = rows.population(np.arange(m))
    if k == 1:
        return _quality(whole.log_densities.sum(axis=0)[None], int(whole.n_parameters.sum()), m)
    members = [np.flatnonzero(labels == c) for c in range(k)]
    parts, (moved, n_moved) = both(
        partial(rows.populations, members),
        partial(shifted_population, rows, labels, k),
        rows.n_jobs,
    )
    shares = np.log(np.bincount(labels, minlength=k) / m)
    joint = np.repeat(shares[:, None], len(rows), axis=1)
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
    return _quality(joint, n_parameters, m)


def _quality(joint: np.ndarray, n_parameters: int, m: int) -> Quality:
    """Return the quality of a mixture whose k clusters are fitted to the first m rows.

    `joint` (k, n) are the log densities of rows in clusters, plus the logs of the clusters' shares.
    """
    k, n = joint.shape
    top = joint.max(axis=0)
    chances = np.exp(joint - top)
    sums = chances.sum(axis=0)
    log_density = top + np.log(sums)
    posterior = None if k == 1 else (chances / sums)[:, :m].T
    others = log_density[m:] if m < n else None
    return Quality(log_density[:m], n_parameters, posterior, others)


def _bic_of(log_densities: np.ndarray, n_parameters: int, labels: np.ndarray) -> float:
    """Return the BIC of n rows; each row counts with its density in its own cluster.

    `log_densities` (k, n) has one line for each cluster, or one line (1, n) if all clusters share a
    density. `labels` (n,) are the clusters of the rows.
    """
    n = len(labels)
    at = labels if len(log_densities) > 1 else 0
    return float(log_densities[at, np.arange(n)].sum()) - 0.5 * n_parameters * float(np.log(n))


def _unit_columns(X: np.ndarray) -> np.ndarray:
    """Return X (n, p) with columns of mean 0 and length 1."""
    centred = X - X.mean(axis=0)
    return np.asarray(centred / (np.linalg.norm(centred, axis=0) + 1e-12))


def knots_of(own: np.ndarray) -> np.ndarray:
    """Return the quantiles `KNOTS` of each column of `own` (m, p), as an array (p, len(KNOTS))."""
    if not len(own):
        return np.zeros((own.shape[1], len(KNOTS)))
    return np.ascontiguousarray(np.quantile(own, KNOTS, axis=0).T)
