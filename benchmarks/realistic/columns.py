"""Columns of generated tables: random values given a class, and the density of a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import gammaln, log_ndtr, ndtr

FACTOR_NODES = np.linspace(-4, 4, 41)
"""Values of the hidden row factor at which its integral is evaluated."""
FACTOR_WEIGHTS = np.exp(-(FACTOR_NODES**2) / 2) / np.exp(-(FACTOR_NODES**2) / 2).sum()
"""Weights of the nodes; they sum to 1."""


@dataclass(frozen=True)
class ColumnSpec:
    """A column without class effects.

    Attributes
    ----------
    name : str
    kind : str
        "normal"; "log", the exponential of a normal; "logit", a share in (0, 1); "count", negative
        binomial; "zeros", an amount or 0; "flag"; or "cat".
    at : float
        Mean, logarithm of the mean, or logit; of "zeros" the logarithm of the amount.
    sd : float
        Standard deviation on the same scale; of "count" the root of the dispersion.
    step : float
        Values are rounded to multiples of `step`; 0 for no rounding.
    low, high : float
        Values are clipped to this range.
    nonzero_logit : float
        Logit of the share of values other than 0, of "zeros" only.
    levels : int
        Number of categories, of "cat" only.

    """

    name: str
    kind: str
    at: float = 0.0
    sd: float = 1.0
    step: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    nonzero_logit: float = 0.0
    levels: int = 0

    @property
    def unit(self) -> float:
        """Unit of class effects on the scale of `at`: one standard deviation, or 1 logit."""
        if self.kind == "count":
            return float(np.sqrt(np.exp(-self.at) + self.sd**2))
        return self.sd if self.kind in ("normal", "log", "logit") else 1.0

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """Return values clipped to the range and rounded to multiples of `step`."""
        x = np.clip(x, self.low, self.high)
        return np.round(np.round(x / self.step) * self.step, 6) if self.step else x


@dataclass
class DrawnColumn:
    """A column with the effects of classes and of the hidden row factor.

    Attributes
    ----------
    spec : ColumnSpec
    effects : ndarray of shape (k,), or (k, levels) for a category
        Shift of each class in units of `ColumnSpec.unit`; of a category, shift of the logits.
    widths : ndarray of shape (k,)
        Factor of each class on the standard deviation.
    loading : float
        Weight of the hidden factor, in units.
    base : ndarray of shape (levels,)
        Logits of the categories without effects.

    """

    spec: ColumnSpec
    effects: np.ndarray
    widths: np.ndarray
    loading: float = 0.0
    base: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def draw(
        self, classes: np.ndarray, factor: np.ndarray, strength: float, random: np.random.Generator
    ) -> np.ndarray:
        """Return random values (n,) float64 of rows; categories and flags as numbers from 0.

        Parameters
        ----------
        classes : ndarray of shape (n,), int
        factor : ndarray of shape (n,)
            Hidden factor of each row.
        strength : float
            Multiplier of all class effects.
        random : numpy.random.Generator

        """
        spec, n = self.spec, len(classes)
        if spec.kind == "cat":
            logits = self.base + strength * self.effects[classes]
            return np.argmax(logits + random.gumbel(size=logits.shape), axis=1).astype(float)
        eta = spec.at + spec.unit * (strength * self.effects[classes] + self.loading * factor)
        if spec.kind == "flag":
            return (random.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
        if spec.kind == "count":
            mean = np.exp(np.minimum(eta, 12))
            if spec.sd > 0:
                mean = mean * random.gamma(1 / spec.sd**2, spec.sd**2, n)
            return random.poisson(mean).astype(float)
        if spec.kind == "zeros":
            nonzero = random.random(n) < 1 / (1 + np.exp(-(spec.nonzero_logit + eta - spec.at)))
            normal = random.standard_normal(n)
            amount = np.exp(spec.at + 0.5 * (eta - spec.at) + spec.sd * normal)
            return np.where(nonzero, np.maximum(spec.rounded(amount), spec.step), 0.0)
        y = eta + spec.sd * self.widths[classes] * random.standard_normal(n)
        if spec.kind == "log":
            return spec.rounded(np.exp(np.minimum(y, 40)))
        return spec.rounded(1 / (1 + np.exp(-y)) if spec.kind == "logit" else y)

    def log_density(self, x: np.ndarray, k: int, strength: float) -> np.ndarray:
        """Return the log-density of values in class k at every node of the hidden factor.

        The density is that of the cell which rounds to the value. Terms that are equal for all
        classes are left out if values are not rounded.

        Parameters
        ----------
        x : ndarray of shape (n,)
            NaN if missing.
        k : int
        strength : float
            Multiplier of all class effects.

        Returns
        -------
        ndarray of shape (n, nodes), or (n, 1) if the column does not depend on the factor
            0 if the value is missing.

        """
        spec = self.spec
        missing = np.isnan(x)
        x = np.where(missing, 1.0 if spec.kind == "log" else 0.0, x)[:, None]
        eta = spec.at + spec.unit * self._location(k, strength)
        if spec.kind == "cat":
            logits = self.base + strength * self.effects[k]
            density = (logits - np.logaddexp.reduce(logits))[x[:, 0].astype(int)][:, None]
        elif spec.kind == "flag":
            density = -np.logaddexp(0, np.where(x > 0.5, -eta, eta))
        elif spec.kind == "count":
            density = log_count_density(x, np.exp(np.minimum(eta, 12)), spec.sd)
        elif spec.kind == "zeros":
            nonzero = spec.nonzero_logit + eta - spec.at
            amount = log_cell_density(
                spec, np.maximum(x, 1e-9), spec.at + 0.5 * (eta - spec.at), spec.sd, "log"
            )
            density = np.where(
                x > 0, -np.logaddexp(0, -nonzero) + amount, -np.logaddexp(0, nonzero)
            )
        else:
            density = log_cell_density(spec, x, eta, spec.sd * self.widths[k], spec.kind)
        return np.where(missing[:, None], 0.0, density)

    def _location(self, k: int, strength: float) -> np.ndarray:
        """Return the location (1, nodes) or (1, 1) of class k in units; categories have none."""
        if self.spec.kind == "cat":
            return np.zeros((1, 1))
        nodes = FACTOR_NODES if self.loading else FACTOR_NODES[:1]
        return (strength * self.effects[k] + self.loading * nodes)[None]


def log_count_density(x: np.ndarray, mean: np.ndarray, root: float) -> np.ndarray:
    """Return the log-probability of counts: Poisson, or negative binomial if `root` is above 0.

    Parameters
    ----------
    x, mean : ndarray
        Counts and their expectations, of shapes that broadcast.
    root : float
        Square root of the dispersion.

    """
    if root == 0:
        return x * np.log(mean) - mean - gammaln(x + 1)
    r = 1 / root**2
    size = gammaln(x + r) - gammaln(r) - gammaln(x + 1)
    return size + r * np.log(r / (r + mean)) + x * np.log(mean / (r + mean))


def log_cell_density(
    spec: ColumnSpec, x: np.ndarray, eta: np.ndarray, sd: float, kind: str
) -> np.ndarray:
    """Return the log-probability of the cells that round to values, or the log-density if exact.

    Parameters
    ----------
    spec : ColumnSpec
    x : ndarray of shape (n, 1)
    eta : ndarray of shape (1, nodes)
        Means on the scale of `kind`.
    sd : float
        Standard deviation on that scale.
    kind : {"normal", "log", "logit"}

    """
    half = spec.step / 2
    if not half:
        with np.errstate(divide="ignore"):
            return -0.5 * ((link(x, kind) - eta) / sd) ** 2 - np.log(sd)
    low, high = x - half, x + half
    if kind == "normal":
        low = np.where(x <= spec.low, -np.inf, low)
        high = np.where(x >= spec.high, np.inf, high)
    else:
        top = 1.0 if kind == "logit" else np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            first = (low <= 0) | (x <= spec.low) | (x <= spec.step)
            last = high >= min(top, spec.high)
            low = np.where(first, -np.inf, link(np.clip(low, 0.0, top), kind))
            high = np.where(last, np.inf, link(np.clip(high, 0.0, top), kind))
    return log_normal_interval((low - eta) / sd, (high - eta) / sd)


def link(x: np.ndarray, kind: str) -> np.ndarray:
    """Return values on the scale on which they are normal."""
    if kind == "log":
        return np.log(x)
    return np.log(x) - np.log1p(-x) if kind == "logit" else x


def log_normal_interval(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the log-probability that a standard normal lies between a and b, also in the tails."""
    flip = a > 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    direct = ndtr(b) - ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.minimum(log_ndtr(a) - log_ndtr(b), -1e-12)
        tail = log_ndtr(b) + np.log(-np.expm1(ratio))
        return np.where(direct > 1e-8, np.log(np.maximum(direct, 1e-300)), tail)


def draw_rows(
    columns: Sequence[DrawnColumn],
    components: np.ndarray,
    strength: float,
    missing: float,
    random: np.random.Generator,
) -> np.ndarray:
    """Return random rows (n, d) float64; numbers are missing (NaN) with a given probability."""
    factor = random.standard_normal(len(components))
    x = np.column_stack([one.draw(components, factor, strength, random) for one in columns])
    if missing:
        gone = random.random(x.shape) < missing
        gone[:, [one.spec.kind in ("flag", "cat") for one in columns]] = False
        x[gone] = np.nan
    return x


def component_scores(
    columns: Sequence[DrawnColumn], weights: np.ndarray, x: np.ndarray, strength: float
) -> np.ndarray:
    """Return log(weight) plus the log-density of rows x (n, d) in each component, (n, k)."""
    scores = np.empty((len(x), len(weights)))
    for k, weight in enumerate(weights):
        total = np.zeros((len(x), len(FACTOR_NODES)))
        for j, one in enumerate(columns):
            total = total + one.log_density(x[:, j], k, strength)
        total = np.maximum(total, -1e6)
        top = total.max(1, keepdims=True)
        scores[:, k] = np.log(weight) + top[:, 0] + np.log(np.exp(total - top) @ FACTOR_WEIGHTS)
    return scores


def frame_of(columns: Sequence[DrawnColumn], x: np.ndarray) -> pd.DataFrame:
    """Return rows x (n, d) as a table: bool, category, int64 and float64 columns."""
    return pd.DataFrame({one.spec.name: _typed(one.spec, x[:, j]) for j, one in enumerate(columns)})


def _typed(spec: ColumnSpec, values: np.ndarray) -> np.ndarray | pd.Categorical:
    if spec.kind == "flag":
        return values > 0.5
    if spec.kind == "cat":
        names = [f"{spec.name}{i}" for i in range(spec.levels)]
        return pd.Categorical.from_codes(values.astype(int), names)
    whole = spec.kind == "count" or spec.step >= 1
    return values.astype(int) if whole and not np.isnan(values).any() else values
