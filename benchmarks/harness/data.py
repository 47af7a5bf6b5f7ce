"""The rows that systems are fitted to: sets of the catalogue and made ones, standardised."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.datasets.catalogue import find
from benchmarks.datasets.loading import load

SAMPLE_SEED = 0


def standardised(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1; constant ones become 0."""
    scale = X.std(axis=0)
    scale[scale == 0.0] = 1.0
    return (X - X.mean(axis=0)) / scale


def drawn(n_rows: int, most: int) -> np.ndarray:
    """Return the numbers, ascending, of a sample of so many rows, which is always the same."""
    sample = np.random.default_rng(SAMPLE_SEED).choice(n_rows, most, replace=False)
    return np.sort(sample)


def sampled(X: np.ndarray, y: np.ndarray, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes as they are, or so many of them where there are more."""
    if most is None or len(X) <= most:
        return X, y
    chosen = drawn(len(X), most)
    return X[chosen], y[chosen]


def split_of(name: str) -> int | None:
    """Return the split that Pham, Le and Dang (2017) use: of shuttle the 43,500 training rows."""
    return find(name).paper_split.get("pham-2017")


def papers_rows(name: str, data: Path | str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a set that Pham, Le and Dang (2017) use, nothing scaled, and classes."""
    return load(name, data, split_of(name))


def scaled(
    name: str, data: Path | str | None, split: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n, d) float64 of a set, standardised, and classes (n,), as `load` has them."""
    X, y = load(name, data, split)
    return standardised(X), y


@lru_cache(maxsize=2)
def table(
    data: str | None, name: str, split: int | None, most_rows: int | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return rows (n, d) float64 of a set, standardised, classes (n,), and how many rows it has.

    Columns have mean 0 and variance 1 over all rows of the set; constant ones are 0. The papers do
    not say how they scaled. The arrays are shared and can't be written to.
    """
    X, y = scaled(name, data, split)
    size = len(X)
    X, y = sampled(X, y, most_rows)
    X.flags.writeable = y.flags.writeable = False
    return X, y, size


def gaussians(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 8) and classes (n,) of twelve Gaussians of unequal size and spread."""
    random = np.random.default_rng(seed)
    k, d = 12, 8
    centres = random.normal(0.0, 4.0, (k, d))
    turns = random.normal(0.0, 0.6, (k, d, d))
    y = random.choice(k, n, p=(weights := random.uniform(1.0, 5.0, k)) / weights.sum())
    X = np.empty((n, d))
    for j in range(k):
        mine = np.flatnonzero(y == j)
        X[mine] = centres[j] + random.normal(size=(mine.size, d)) @ turns[j]
    return X, y


def rings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 2) and classes (n,): a Gaussian within two rings, as in Pham et al. (2017)."""
    random = np.random.default_rng(seed)
    y = random.choice(3, n, p=[1 / 7, 2 / 7, 4 / 7])
    angle = random.uniform(0.0, 2.0 * np.pi, n)
    distance = np.array([0.0, 2.0, 3.5])[y] + random.normal(0.0, 0.12, n)
    X = np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])
    core = y == 0
    X[core] = random.normal(0.0, 0.3, (int(core.sum()), 2))
    return X, y
