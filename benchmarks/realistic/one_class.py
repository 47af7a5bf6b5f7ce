"""Tables of one class whose columns are not normal, or depend on each other in other ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.special import ndtr

from benchmarks.realistic.added import (
    Columns,
    Random,
    answers,
    numbered,
    softmax,
    uneven_thresholds,
)
from benchmarks.realistic.columns import draw_rows, frame_of
from benchmarks.realistic.domains import DOMAINS
from benchmarks.realistic.plans import TableDesign, plan_columns
from benchmarks.realistic.tables import KnownTable, half_of, random_of

ROWS = (1000, 2000, 4000)
MISSING = (0.0, 0.04)

Draw = Callable[[int, Random], Columns]
"""Draws n rows of columns that depend on each other."""


def parabola(n: int, random: Random) -> Columns:
    """Return a yield that is highest at a middle temperature."""
    x = random.standard_normal(n)
    y = -(x**2) + 0.5 * random.standard_normal(n)
    return {"temperature": np.round(20 + 5 * x), "yield": np.round(50 + 8 * y, 1)}


def wave(n: int, random: Random) -> Columns:
    """Return a load that goes up and down over the hour of the day."""
    hour = random.uniform(0, 24, n)
    load = np.exp(3 + 0.6 * np.sin(hour * np.pi / 12) + 0.3 * random.standard_normal(n))
    return {"hour": np.floor(hour).astype(int), "load": np.round(load, 1)}


def product(n: int, random: Random) -> Columns:
    """Return prices, quantities and their products."""
    price = np.round(random.lognormal(2.5, 0.8, n), 2)
    quantity = 1 + random.poisson(random.gamma(1.5, 2.0, n))
    paid = price * quantity * random.choice([1.0, 1.0, 1.0, 0.9], n)
    return {"price": price, "quantity": quantity, "paid": np.round(paid, 2)}


def gamma_copula(n: int, random: Random) -> Columns:
    """Return durations that share a gamma frailty (Clayton's copula)."""
    frailty = random.gamma(0.8, 1.0, (n, 1))
    uniform = (1 + random.exponential(size=(n, 3)) / frailty) ** -0.8
    return {
        "wait": np.round(-20 * np.log(uniform[:, 0])),
        "repair": np.round(np.exp(2 + 1.1 * np.sqrt(3) / np.pi * _logit(uniform[:, 1])), 1),
        "transport": np.round(30 * uniform[:, 2] ** 0.5, 1),
    }


def t_copula(n: int, random: Random) -> Columns:
    """Return columns with a common t copula of 3 degrees of freedom and other margins."""
    mix = np.linalg.cholesky(np.full((3, 3), 0.6) + 0.4 * np.eye(3))
    scale = np.sqrt(random.chisquare(3, (n, 1)) / 3)
    t = random.standard_normal((n, 3)) @ mix.T / scale
    uniform = np.clip(0.5 + np.arctan(t / np.sqrt(3)) / np.pi
                      + t * np.sqrt(3) / (np.pi * (3 + t**2)), 1e-9, 1 - 1e-9)  # fmt: skip
    return {
        "return_a": np.round(t[:, 0], 2),
        "loss": np.round(-100 * np.log1p(-uniform[:, 1])),
        "usage": np.round(100 * uniform[:, 2]),
    }


def heteroscedastic(n: int, random: Random) -> Columns:
    """Return spending whose spread grows with income."""
    income = random.lognormal(7.8, 0.5, n)
    noise = random.standard_normal((n, 2)) * (income / 2500)[:, None] ** 1.2
    return {
        "income": np.round(income, -1),
        "spending": np.round(0.6 * income + 350 * noise[:, 0]),
        "saldo": np.round(150 * noise[:, 1], 2),
    }


def clock(n: int, random: Random) -> Columns:
    """Return the hour of the day, the weekday and the minute, all uniform."""
    return {
        "hour": random.integers(0, 24, n),
        "weekday": random.integers(0, 7, n),
        "minute": random.integers(0, 60, n),
    }


def weekday_names(n: int, random: Random) -> Columns:
    """Return the weekday as a category, the month and the day of the month, all uniform."""
    names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    return {
        "weekday": pd.Categorical.from_codes(random.integers(0, 7, n), names),
        "month": random.integers(1, 13, n),
        "day": random.integers(1, 29, n),
    }


def angles(n: int, random: Random) -> Columns:
    """Return uniform angles and a wind speed."""
    return {
        "direction": np.round(random.uniform(0, 360, n)),
        "phase": np.round(random.uniform(-180, 180, n), 1),
        "speed": np.round(6 * random.weibull(2.0, n), 1),
    }


def heavy_tails(n: int, random: Random) -> Columns:
    """Return columns of infinite variance: t with 2 degrees of freedom, and Pareto."""
    return {
        "error": np.round(random.standard_t(2, n), 2),
        "claim": np.round(100 * (1 + random.pareto(1.8, n))),
        "gap": np.round(random.standard_t(2.5, n) * 0.01, 4),
    }


def shared_zeros(n: int, random: Random) -> Columns:
    """Return amounts that are often zero together."""
    active = random.standard_normal((n, 1))
    nonzero = 0.8 * active + 0.6 * random.standard_normal((n, 3)) > np.array([-0.3, 0.2, 0.7])
    amounts = np.exp(np.array([3.0, 4.5, 1.5]) + 0.4 * active + random.standard_normal((n, 3)))
    return numbered("amount", np.round(np.where(nonzero, np.maximum(amounts, 0.01), 0.0), 2))


def related_flags(n: int, random: Random) -> Columns:
    """Return flags that share one normal factor."""
    latent = 0.7 * random.standard_normal((n, 1)) + 0.7 * random.standard_normal((n, 5))
    return numbered("has_", latent > np.array([-0.6, -0.2, 0.0, 0.5, 1.0]))


def nested_flags(n: int, random: Random) -> Columns:
    """Return flags each of which implies the one before, and the number of steps that were done."""
    steps = np.minimum(random.geometric(0.45, n) - 1, 4)
    return numbered("step", steps[:, None] >= np.arange(1, 5)) | {
        "seconds": np.round(np.exp(2 + 0.3 * steps + 0.7 * random.standard_normal(n)))
    }


def one_scale(n: int, random: Random) -> Columns:
    """Return answers 1..5 that measure one attitude, with unequal thresholds."""
    thresholds = uneven_thresholds(6, random)
    latent = 0.75 * random.standard_normal((n, 1)) + 0.65 * random.standard_normal((n, 6))
    return numbered("answer", answers(latent, thresholds))


def parts(n: int, random: Random) -> Columns:
    """Return percentages that add to 100."""
    shares = np.round(100 * softmax(random.normal([0.8, 0.3, 0.0, -0.6], 0.7, (n, 4))))
    shares[:, -1] = 100 - shares[:, :-1].sum(1)
    return numbered("share", shares)


def copies(n: int, random: Random) -> Columns:
    """Return one length measured three times, in other units and roundings."""
    length = 170 + 9 * random.standard_normal(n)
    return {
        "cm": np.round(length),
        "inch": np.round(length / 2.54 + 0.1 * random.standard_normal(n), 1),
        "said": np.round((length + 2 * random.standard_normal(n)) / 5) * 5,
    }


def saturating(n: int, random: Random) -> Columns:
    """Return sizes that grow with age up to a limit, by a factor of noise."""
    age = np.round(random.gamma(2.0, 4.0, n), 1)
    size = 40 * (1 - np.exp(-age / 5)) * np.exp(0.15 * random.standard_normal(n))
    return {"age": age, "size": np.round(size, 1), "full": random.random(n) < ndtr(size / 20 - 1)}


def _logit(uniform: np.ndarray) -> np.ndarray:
    clipped = np.clip(uniform, 1e-9, 1 - 1e-9)
    return np.log(clipped) - np.log1p(-clipped)


SHAPES: dict[str, Draw] = {
    "parabola": parabola,
    "wave": wave,
    "product": product,
    "gamma-copula": gamma_copula,
    "t-copula": t_copula,
    "heteroscedastic": heteroscedastic,
    "clock": clock,
    "weekday-names": weekday_names,
    "angles": angles,
    "heavy-tails": heavy_tails,
    "shared-zeros": shared_zeros,
    "related-flags": related_flags,
    "nested-flags": nested_flags,
    "one-scale": one_scale,
    "parts": parts,
    "copies": copies,
    "saturating": saturating,
}
"""Kinds of dependence, or of margins, of tables of one class."""


def one_class_table(shape: str, seed: int = 0) -> KnownTable:
    """Return a table of one class: columns of a shape, beside columns of a domain.

    Columns of the domain depend on each other through one hidden factor, and not on the columns of
    the shape. They contain a flag. Every second table has a category, and every second one missing
    numbers.

    Parameters
    ----------
    shape : str
        A name in `SHAPES`.
    seed : int
        Decides the columns beside, the number of rows, and the rows.

    """
    place = list(SHAPES).index(shape)
    random = random_of("one class", shape, seed)
    n, missing = ROWS[(place + seed) % len(ROWS)], MISSING[(place // 2 + seed) % 2]
    cats = ("none", "idle")[(place // 3 + seed) % 2]
    design = TableDesign(1, 1.0, 1.0, 0, 3, "idle", cats, loading=0.7, missing=missing)
    domain = list(DOMAINS)[(2 * place + seed) % len(DOMAINS)]
    columns = plan_columns(domain, design, np.zeros((1, 1)), random)
    classes = np.zeros(n, int)
    beside = frame_of(columns, draw_rows(columns, classes, 0.0, missing, random))
    frame = pd.DataFrame(SHAPES[shape](n, random))
    clash = {name: f"other_{name}" for name in beside.columns if name in frame.columns}
    frame = pd.concat([frame, beside.rename(columns=clash)], axis=1)
    half = half_of(place + seed)
    return KnownTable(
        f"one-{shape}", "one-class", shape, half, frame, classes, classes, "exact",
        ("one class", shape), seed,
    )  # fmt: skip
