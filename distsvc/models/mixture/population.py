"""Populations: densities of clusters whose columns may depend on each other.

Columns are described one after the other, each given those before it: a number by a regression on
bends and products (Friedman 1991), whose variance may change with them, and whose residuals may
have heavy tails or be skewed; a category by a logistic regression. Terms enter where the BIC pays
for them. So one cluster may be curved, fan out, or have flags that depend on each other, without
being several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from scipy.special import gammaln

LOG_TWO_PI = float(np.log(2.0 * np.pi))

PRIOR_VARIANCE = 0.01
"""Variance of the one row that a residual variance counts besides its own."""

TAILS = (3.0, 5.0, 8.0, 14.0)
TAIL_SCALES = (0.5, 0.65, 0.8, 0.9, 1.0)
"""Degrees of freedom and squared scales that are tried for the residuals of a number."""

MAX_TERMS = 60
"""Maximum number of products and bends that a number may depend on: those most like it."""

MODES = tuple(np.linspace(0.25, 0.75, 11).tolist())
"""Quantiles of residuals that are tried as the mode of a two-piece normal.

Half of a cluster that was cut has its mode at its edge, and must not look like a whole one.
"""

KNOTS = (1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6)
"""Quantiles of a number at which another may bend (Friedman 1991)."""

MAX_FANS = 6
MIN_FAN_SCORE = 1.5
MIN_FAN_ROWS = 20
"""Terms that may change the variance of a number: how many at most, from which score on (in log n),
and of how many rows."""

MAX_STANDARDISED = 4.0
"""Standard deviations at which terms that change a variance are cut off."""

NEWTON_STEPS = 8

MIN_LOGISTIC_ROWS, LOGISTIC_C = 30, 100.0
"""Rows from which a category may depend on other columns, and the inverse of its penalty."""


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
        """Numbers (p,), those last that a bend or a product of others explains best."""
        V, p = self.values, self.values.shape[1]
        if p < 2:
            return np.arange(p)
        a, b = np.tril_indices(p, -1)
        bent = np.repeat(np.arange(p), len(KNOTS))
        terms = _unit_columns(np.hstack([V[:, a] * V[:, b], hinges(V, V)]))
        R2 = (_unit_columns(V).T @ terms) ** 2
        a, b = np.append(a, bent), np.append(b, bent)
        gains = [R2[j][(a != j) & (b != j)].max() for j in range(p)]
        return np.argsort(gains, kind="stable")

    @cached_property
    def ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Values in their order (n, p), and products of two of them, (n, p (p - 1) / 2)."""
        V = self.values[:, self.order]
        a, b = np.tril_indices(V.shape[1], -1)
        return V, V[:, a] * V[:, b]

    def population(self, members: np.ndarray) -> Population:
        """Return the population of the rows with the numbers `members` (m,); it is kept."""
        key = members.tobytes()
        if key not in self._populations:
            self._populations[key] = Population.of(self, members)
        return self._populations[key]

    @cached_property
    def known(self) -> np.ndarray:
        """Numbers and indicators (n, r) that categories may depend on."""
        parts = [self.values]
        for j, n in enumerate(self.n_levels):
            parts.append((self.levels[:, j, None] == np.arange(1, n)).astype(float))
        return np.hstack(parts)

    @cached_property
    def n_known(self) -> np.ndarray:
        """Columns (q,) of `known` before each category."""
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
    """The density of one cluster, column by column, numbers in their order and then categories.

    `log_densities` (p + q, n) of all rows given the columns before, and `n_parameters` (p + q,).
    """

    log_densities: np.ndarray
    n_parameters: np.ndarray

    @classmethod
    def of(cls, rows: PopulationRows, members: np.ndarray) -> Population:
        """Describe the rows with the numbers `members` (m,)."""
        p, q = len(rows.order), len(rows.n_levels)
        densities, parameters = np.zeros((p + q, len(rows))), np.zeros(p + q, np.int64)
        log_n = float(np.log(len(rows)))
        terms = _Terms.of(rows, members)
        for place, j in enumerate(rows.order):
            there = rows.present[:, j]
            own = members[there[members]]
            found, parameters[place] = _number(terms, place, rows.Z[:, j], own, log_n)
            densities[place, there] = found[there]
        for j in range(q):
            there = rows.levels[:, j] >= 0
            own = members[there[members]]
            found, parameters[p + j] = _category(rows, j, own, log_n)
            densities[p + j, there] = found[there]
        return cls(densities, parameters)


@dataclass(frozen=True)
class Quality:
    """How well a partition describes rows: log-likelihoods (n,) of rows, and the parameters.

    `bic` is their sum, less half the parameters times log n.
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

    A column that clusters of their own describe no better than the whole table does has one
    description (Raftery and Dean 2006).
    """
    n, k = len(rows), int(labels.max()) + 1
    members = [np.flatnonzero(labels == c) for c in range(k)]
    whole, parts = rows.population(np.arange(n)), [rows.population(own) for own in members]
    gain = -whole.log_densities.sum(axis=1)
    parameters = -whole.n_parameters
    for own, part in zip(members, parts, strict=True):
        gain += part.log_densities[:, own].sum(axis=1)
        parameters += part.n_parameters
    divided = gain > 0.5 * parameters * np.log(n)
    joint = np.empty((n, k))
    for c, part in enumerate(parts):
        joint[:, c] = part.log_densities[divided].sum(axis=0) + np.log(len(members[c]) / n)
    top = joint.max(axis=1)
    density = top + np.log(np.exp(joint - top[:, None]).sum(axis=1))
    density += whole.log_densities[~divided].sum(axis=0)
    return Quality(density, k - 1 + int((whole.n_parameters + parameters * divided).sum()))


@dataclass(frozen=True)
class _Terms:
    """The terms `all` (n, t) of regressions: numbers in their order, products, bends.

    A number depends on terms of those before it. Bends are at quantiles of a cluster's rows.
    """

    all: np.ndarray
    n_numbers: int

    @classmethod
    def of(cls, rows: PopulationRows, members: np.ndarray) -> _Terms:
        values, products = rows.ordered
        return cls(np.hstack([values, products, hinges(values, values[members])]), values.shape[1])

    def before(self, place: int, y: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return which terms (s,) the number y (n,) at a place may depend on, by rows `own`.

        The numbers before it come first; of the others those most like it, if there are too many.
        """
        p = self.n_numbers
        n_products, first_bend = place * (place - 1) // 2, p + p * (p - 1) // 2
        products = np.arange(p, p + n_products)
        bends = np.arange(first_bend, first_bend + place * len(KNOTS))
        more = np.concatenate([products, bends])
        if len(more) > MAX_TERMS:
            alike = np.abs(_unit_columns(self.all[np.ix_(own, more)]).T @ (y[own] - y[own].mean()))
            more = more[np.sort(np.argsort(-alike, kind="stable")[:MAX_TERMS])]
        return np.concatenate([np.arange(place), more])


def _unit_columns(X: np.ndarray) -> np.ndarray:
    """Return columns of X (n, p) with mean 0 and length 1."""
    centred = X - X.mean(axis=0)
    return np.asarray(centred / (np.linalg.norm(centred, axis=0) + 1e-12))


def hinges(X: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return how far numbers X (n, p) lie above quantiles of rows own (m, p), (n, p KNOTS)."""
    knots = np.quantile(own, KNOTS, axis=0).T if len(own) else np.zeros((X.shape[1], len(KNOTS)))
    return np.maximum(X[:, :, None] - knots, 0.0).reshape(len(X), -1)


def _selected(
    F: np.ndarray, y: np.ndarray, log_n: float, linear: int
) -> tuple[list[int], np.ndarray]:
    """Return terms chosen forward by BIC, and the residuals (n,); linear terms first."""
    n, t = F.shape
    H = F - F.mean(axis=0)
    norms0 = np.einsum("ij,ij->j", H, H)
    r = y - y.mean()
    chosen: list[int] = []
    for stop in (linear, t):
        while True:
            norms = np.einsum("ij,ij->j", H[:, :stop], H[:, :stop])
            ok = norms > 1e-4 * norms0[:stop] + 1e-9
            if not ok.any():
                break
            gain = np.where(ok, (r @ H[:, :stop]) ** 2 / np.where(ok, norms, 1.0), 0.0)
            k = int(np.argmax(gain))
            rss = float(r @ r)
            if rss <= 1e-9 or -n * np.log1p(-min(gain[k] / rss, 1 - 1e-9)) <= log_n:
                break
            q = H[:, k] / np.sqrt(norms[k])
            r = r - q * (q @ r)
            H = H - q[:, None] * (q @ H)
            chosen.append(k)
    return chosen, r


def _number(
    terms: _Terms, place: int, y: np.ndarray, own: np.ndarray, log_n: float
) -> tuple[np.ndarray, int]:
    """Return log densities (n,) of the number y (n,) at a place, and the parameters."""
    n = len(own)
    if n < 2:
        mean = float(y[own].mean()) if n else 0.0
        return -0.5 * (LOG_TWO_PI + (y - mean) ** 2), 2
    before = terms.before(place, y, own)
    F = terms.all[np.ix_(own, before)]
    chosen, r = _selected(F, y[own], log_n, place)
    A = np.hstack([np.ones((len(y), 1)), terms.all[:, before[chosen]]])
    coefficients = np.linalg.lstsq(A[own], y[own], rcond=None)[0]
    r = y - A @ coefficients
    variance = (float(r[own] @ r[own]) + PRIOR_VARIANCE) / (n + 1)
    parameters = 2 + len(chosen)
    fan = np.full(len(y), np.log(variance))
    if F.shape[1] and n > MIN_FAN_ROWS:
        mean, spread = F.mean(axis=0), F.std(axis=0) + 1e-9
        e = r[own] ** 2 / variance - 1.0
        score = (e @ np.clip((F - mean) / spread, -MAX_STANDARDISED, MAX_STANDARDISED)) ** 2 / (
            2.0 * n
        )
        picked = np.flatnonzero(score > MIN_FAN_SCORE * log_n)
        picked = picked[np.argsort(-score[picked], kind="stable")][:MAX_FANS]
        if picked.size:
            T = (terms.all[:, before[picked]] - mean[picked]) / spread[picked]
            T = np.hstack([np.ones((len(y), 1)), np.clip(T, -MAX_STANDARDISED, MAX_STANDARDISED)])
            g = np.zeros(T.shape[1])
            g[0] = np.log(variance)
            S = T[own]
            for _ in range(NEWTON_STEPS):
                w = r[own] ** 2 * np.exp(-(S @ g))
                curve = S.T @ (S * np.minimum(w, 50.0)[:, None]) + 1e-3 * np.eye(len(g))
                g = g + np.clip(np.linalg.solve(curve, S.T @ (w - 1.0)), -1.0, 1.0)
            new = T @ g
            gained = _normal(r[own], new[own]) - _normal(r[own], fan[own])
            if gained > 0.5 * picked.size * log_n:
                fan, parameters = new, parameters + picked.size
    shape, extra = _shape_of(r[own] * np.exp(-0.5 * fan[own]), log_n)
    return shape(r * np.exp(-0.5 * fan)) - 0.5 * fan, parameters + extra


def _normal(r: np.ndarray, fan: np.ndarray) -> float:
    """Return the log-likelihood of residuals r (n,) with log variances (n,)."""
    return float((_standard(r * np.exp(-0.5 * fan)) - 0.5 * fan).sum())


def _shape_of(z: np.ndarray, log_n: float) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """Return the log density that describes residuals z (n,) best, and its parameters.

    It is a standard normal, one with heavy tails (Student's t), or one with another spread on each
    side of its mode (the two-piece normal; John 1982).
    """
    choices: list[tuple[Callable[[np.ndarray], np.ndarray], int]] = [(_standard, 0)]
    choices += [(partial(_student, nu=nu, scale=s), 1) for nu in TAILS for s in TAIL_SCALES]
    sides = []
    for mode in np.quantile(z, MODES).tolist():
        e = z - mode
        low, high = float((e[e < 0.0] ** 2).sum()), float((e[e > 0.0] ** 2).sum())
        if min(low, high) > 0.0:
            sides.append((np.cbrt(low) + np.cbrt(high), mode, np.cbrt(low), np.cbrt(high)))
    if sides:
        both, mode, below, above = min(sides)  # the highest likelihood
        spread = np.sqrt(both / len(z))
        choices.append((partial(_two_piece, mode=mode, low=below * spread, high=above * spread), 2))
    return max(choices, key=lambda one: float(one[0](z).sum()) - 0.5 * one[1] * log_n)


def _standard(z: np.ndarray) -> np.ndarray:
    return -0.5 * (LOG_TWO_PI + z**2)


def _student(z: np.ndarray, nu: float, scale: float) -> np.ndarray:
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi * scale)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(z**2 / (nu * scale)))


def _two_piece(z: np.ndarray, mode: float, low: float, high: float) -> np.ndarray:
    side = (z - mode) / np.where(z < mode, low, high)
    return np.asarray(np.log(2.0 / (low + high)) - 0.5 * (LOG_TWO_PI + side**2))


def _category(
    rows: PopulationRows, j: int, own: np.ndarray, log_n: float
) -> tuple[np.ndarray, int]:
    """Return log chances (n,) of the levels of a category, and the parameters."""
    level, n_levels, n = rows.levels[:, j], int(rows.n_levels[j]), len(own)
    counts = np.bincount(level[own], minlength=n_levels)
    chances = (counts + rows.shares[j]) / (n + 1.0)
    free = np.log(chances)[np.maximum(level, 0)]
    there = np.flatnonzero(counts)
    if len(there) < 2 or n < MIN_LOGISTIC_ROWS:
        return free, n_levels - 1
    F = rows.known[:, : rows.n_known[j]]
    G = F[own] - F[own].mean(axis=0)
    spread = G.std(axis=0)
    G = G / (spread + 1e-9)
    indicators = (level[own, None] == there[1:]) - counts[there[1:]] / n
    S = indicators.T @ G
    score = np.einsum("lf,lm,mf->f", S, np.linalg.pinv(indicators.T @ indicators / n), S) / n
    picked = np.flatnonzero((score > (n_levels - 1) * log_n) & (spread > 1e-6))
    if not picked.size:
        return free, n_levels - 1
    from sklearn.linear_model import LogisticRegression

    A = (F[:, picked] - F[own][:, picked].mean(axis=0)) / spread[picked]
    model = LogisticRegression(C=LOGISTIC_C, solver="newton-cholesky", tol=1e-3).fit(
        A[own], level[own]
    )
    full = np.zeros((len(F), n_levels))
    full[:, model.classes_] = model.predict_proba(A)
    mixed = (n * full + rows.shares[j]) / (n + 1.0)
    found = np.log(mixed[np.arange(len(F)), np.maximum(level, 0)])
    if found[own].sum() - free[own].sum() > 0.5 * (n_levels - 1) * picked.size * log_n:
        return found, (n_levels - 1) * (1 + picked.size)
    return free, n_levels - 1
