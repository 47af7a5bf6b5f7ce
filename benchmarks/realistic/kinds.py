"""Thirteen kinds of tables that a new user brings, with planted classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.realistic.tables import KnownTable, half_of, random_of

ROWS = 2000

Random = np.random.Generator
Planted = tuple[dict[str, object], np.ndarray]
"""Columns by name, and the classes (n,) of the rows."""


def customers(n: int, random: Random) -> Planted:
    """Return four segments of customers; one age in twelve is missing."""
    y = random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    age = random.normal(np.array([31, 48, 63, 44])[y], 7).round()
    age[random.random(n) < 1 / 12] = np.nan
    return {
        "age": age,
        "spend": random.lognormal(np.array([3.2, 4.4, 3.8, 6.2])[y], 0.45).round(2),
        "visits": random.poisson(np.array([3, 9, 2, 14])[y]),
        "tenure_months": random.gamma(np.array([2, 6, 9, 5])[y], 6).round(),
        "newsletter": random.random(n) < np.array([0.2, 0.6, 0.1, 0.8])[y],
        "region": _levels(y, random, 5, 0.3),
    }, y


def sessions(n: int, random: Random) -> Planted:
    """Return four kinds of visits to a shop's site."""
    y = random.choice(4, n, p=[0.45, 0.3, 0.15, 0.1])
    buys = random.random(n) < np.array([0.02, 0.1, 0.9, 0.0])[y]
    return {
        "pages": 1 + random.poisson(np.array([1.0, 8.0, 12.0, 60.0])[y]),
        "seconds": random.lognormal(np.array([3.0, 5.6, 6.2, 2.2])[y], 0.6).round(),
        "cart": np.where(buys, random.lognormal(3.8, 0.6, n), 0.0).round(2),
        "searches": random.poisson(np.array([0.2, 2.5, 1.0, 0.0])[y]),
        "device": _levels(y, random, 3, 0.5),
        "returning": random.random(n) < np.array([0.2, 0.5, 0.8, 0.0])[y],
    }, y


def orders(n: int, random: Random) -> Planted:
    """Return three kinds of orders."""
    y = random.choice(3, n, p=[0.55, 0.3, 0.15])
    items = 1 + random.poisson(np.array([1.0, 6.0, 40.0])[y])
    return {
        "items": items,
        "value": (items * random.lognormal(np.array([3.5, 2.6, 1.6])[y], 0.4)).round(2),
        "weight_kg": (items * random.gamma(3.0, np.array([0.4, 0.3, 0.8])[y] / 3)).round(1),
        "discount": np.where(y == 2, 0.1, 0.0) + 0.05 * random.integers(0, 3, n),
        "days": 1 + random.poisson(np.array([2.0, 3.0, 9.0])[y]),
        "express": random.random(n) < np.array([0.4, 0.2, 0.02])[y],
        "carrier": _levels(y, random, 4, 0.5),
    }, y


def sensors(n: int, random: Random) -> Planted:
    """Return four states of a machine; every sensor has gaps of about 20 readings."""
    y = np.repeat(random.choice(4, n // 20 + 1, p=[0.5, 0.25, 0.15, 0.1]), 20)[:n]
    columns = {
        "temperature": random.normal(np.array([62.0, 71.0, 25.0, 88.0])[y], 2.5).round(1),
        "vibration": random.lognormal(np.array([0.6, 1.2, -2.0, 2.0])[y], 0.3).round(2),
        "rpm": random.normal(np.array([1480.0, 1900.0, 0.0, 1300.0])[y], 40).clip(0).round(),
        "current": random.normal(np.array([12.0, 18.0, 0.4, 21.0])[y], 1.2).clip(0).round(2),
        "pressure": random.normal(np.array([5.5, 6.4, 1.0, 4.1])[y], 0.4).round(2),
    }
    for values in columns.values():
        for start in random.integers(0, n, n // 150):
            values[start : start + random.poisson(20)] = np.nan
    return dict(columns), y


def tickets(n: int, random: Random) -> Planted:
    """Return four kinds of tickets, mostly text of few values."""
    y = random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    return {
        "topic": _levels(y, random, 8, 0.75),
        "channel": _levels(y, random, 4, 0.6),
        "product": _levels(y, random, 12, 0.4),
        "language": _levels(y * 0, random, 5, 0.6),
        "priority": _levels(y, random, 3, 0.6),
        "words": random.lognormal(np.array([3.0, 4.2, 5.0, 3.6])[y], 0.5).round(),
        "hours_open": random.lognormal(np.array([0.5, 2.0, 4.0, 5.0])[y], 0.8).round(1),
    }, y


def wide(n: int, random: Random) -> Planted:
    """Return five classes in 120 columns, of which 30 differ."""
    y = random.choice(5, n)
    centres = np.zeros((5, 120))
    centres[:, :30] = random.normal(0, 0.9, (5, 30))
    shared = random.normal(size=(n, 3)) @ random.normal(0, 0.25, (3, 120))
    X = centres[y] + shared + random.normal(size=(n, 120))
    return {f"m{j:03d}": X[:, j].round(3) for j in range(120)}, y


def logs(n: int, random: Random) -> Planted:
    """Return five kinds of requests to a web server."""
    y = random.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    sizes, times = np.array([7.0, 10.5, 5.5, 8.5, 5.0]), np.array([3.2, 4.2, 2.0, 6.5, 7.8])
    status = np.array(["200", "200", "304", "200", "503"], object)[y]
    odd = random.random(n) < 0.04
    return {
        "bytes": random.lognormal(sizes[y], 0.7).round(),
        "ms": random.lognormal(times[y], 0.5).round(1),
        "status": np.where(odd, "404", status),
        "method": np.where((y == 3) ^ (random.random(n) < 0.05), "POST", "GET"),
        "path": _levels(y, random, 9, 0.6),
        "hour": (random.normal(np.array([14, 11, 15, 10, 3])[y], 3) % 24).astype(int),
    }, y


def survey(n: int, random: Random) -> Planted:
    """Return four types of answers, 1 to 5, to twenty questions."""
    y = random.choice(4, n, p=[0.35, 0.3, 0.2, 0.15])
    means = random.choice([1.9, 3.0, 4.1], (4, 20))
    habit = random.normal(0, 0.3, (n, 1))
    answers = (means[y] + habit + random.normal(0, 0.9, (n, 20))).round().clip(1, 5).astype(int)
    age = random.normal(np.array([30, 42, 55, 47])[y], 11).round().clip(16, 90)
    return {f"q{j + 1}": answers[:, j] for j in range(20)} | {"age": age}, y


def trips(n: int, random: Random) -> Planted:
    """Return four kinds of taxi trips."""
    y = random.choice(4, n, p=[0.45, 0.25, 0.2, 0.1])
    km = random.lognormal(np.array([1.0, 1.6, 3.1, 2.0])[y], 0.35)
    minutes = km * random.lognormal(np.array([1.3, 0.7, 0.5, 1.6])[y], 0.2) + 2
    return {
        "km": km.round(2),
        "minutes": minutes.round(),
        "fare": (2.5 + 1.6 * km + 0.3 * minutes + random.exponential(0.7, n)).round(2),
        "hour": (random.normal(np.array([9, 23, 7, 17])[y], 2.0) % 24).astype(int),
        "passengers": 1 + random.poisson(np.array([0.1, 1.2, 0.6, 0.2])[y]),
        "tip": np.where(random.random(n) < 0.6, random.exponential(2.0, n), 0.0).round(2),
        "payment": _levels(y, random, 3, 0.4),
    }, y


def positions(n: int, random: Random) -> Planted:
    """Return positions in eight towns of different sizes and densities."""
    y = random.choice(8, n, p=random.dirichlet(np.full(8, 4.0)))
    places = np.array([[47.0 + 0.5 * (j // 3), 7.5 + 0.7 * (j % 3)] for j in range(8)])
    places += random.uniform(-0.1, 0.1, (8, 2))
    X = places[y] + random.normal(size=(n, 2)) * random.uniform(0.02, 0.09, 8)[y][:, None]
    return {"lat": X[:, 0].round(4), "lon": X[:, 1].round(4)}, y


def usage(n: int, random: Random) -> Planted:
    """Return four kinds of users by the use of ten features, most of them 0."""
    y = random.choice(4, n, p=[0.5, 0.25, 0.15, 0.1])
    used = random.choice([0.08, 0.85], (4, 10), p=[0.65, 0.35])
    size = random.uniform(0.5, 3.0, 10)
    counts = np.where(
        random.random((n, 10)) < used[y], 1 + random.poisson(np.exp(size), (n, 10)), 0
    )
    return {f"feature_{j}": counts[:, j] for j in range(10)}, y


def one_class(n: int, random: Random) -> Planted:
    """Return one class of skewed columns that depend on each other."""
    size = random.normal(size=n)
    return {
        "income": np.exp(8 + 0.5 * size + 0.3 * random.normal(size=n)).round(),
        "rent": np.exp(6 + 0.4 * size + 0.3 * random.normal(size=n)).round(),
        "age": (45 + 6 * size + 10 * random.normal(size=n)).round().clip(18, 95),
        "cars": random.poisson(np.exp(-0.3 + 0.4 * size)),
        "owner": random.random(n) < 1 / (1 + np.exp(-size)),
    }, np.zeros(n, np.int64)


def windows(n: int, random: Random) -> Planted:
    """Return features of windows of a series with four regimes; they depend on each other."""
    y = np.repeat(random.choice(4, n // 25 + 1, p=[0.4, 0.3, 0.2, 0.1]), 25)[:n]
    t = np.arange(64) / 64
    level, noise = np.array([10.0, 10.5, 14.0, 9.0])[y], np.array([0.3, 0.5, 0.4, 1.5])[y]
    swing, beats = np.array([0.5, 3.0, 1.0, 0.3])[y], np.array([2, 3, 8, 1])[y]
    phase = random.uniform(0, 1, (n, 1))
    X = swing[:, None] * np.sin(2 * np.pi * (beats[:, None] * t + phase))
    X += level[:, None] + noise[:, None] * random.normal(size=(n, 64))
    spectrum = np.abs(np.fft.rfft(X - X.mean(axis=1, keepdims=True)))
    return {
        "mean": X.mean(axis=1).round(4),
        "deviation": X.std(axis=1).round(4),
        "low": X.min(axis=1).round(4),
        "high": X.max(axis=1).round(4),
        "range": np.ptp(X, axis=1).round(4),
        "slope": np.polyfit(t, X.T, 1)[0].round(4),
        "roughness": np.abs(np.diff(X, axis=1)).mean(axis=1).round(4),
        "crossings": (np.diff(np.sign(X - X.mean(axis=1, keepdims=True)), axis=1) != 0).sum(axis=1),
        "beat": spectrum.argmax(axis=1),
        "power": (spectrum**2).sum(axis=1).round(2),
    }, y


def _levels(y: np.ndarray, random: Random, n_levels: int, purity: float) -> np.ndarray:
    """Return text (n,): the level of a row's class with probability `purity`, else any level."""
    own = (y * 3 + 1) % n_levels
    level = np.where(random.random(len(y)) < purity, own, random.integers(0, n_levels, len(y)))
    return np.array([f"v{k}" for k in range(n_levels)], object)[level]


KINDS: dict[str, Callable[[int, Random], Planted]] = {
    make.__name__: make
    for make in (
        customers, sessions, orders, sensors, tickets, wide, logs, survey, trips, positions,
        usage, one_class, windows,
    )
}  # fmt: skip


def kind_table(name: str, seed: int = 0) -> KnownTable:
    """Return a table of `KINDS` with `ROWS` rows."""
    columns, y = KINDS[name](ROWS, random_of("kinds", name, seed))
    half = half_of(list(KINDS).index(name))
    return KnownTable(f"kind-{name}", "kinds", name, half, pd.DataFrame(columns), y, seed=seed)
