"""A table with known classes, and the labels that set the ceiling of any method."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from benchmarks.harness.measure import agreement

HALVES = ("tune", "confirm")
"""Tables on which rules may be chosen, and tables that only confirm them."""


@dataclass
class KnownTable:
    """A table whose classes are known.

    Attributes
    ----------
    name : str
    group : str
        As in `benchmarks.realistic.suite.GROUPS`.
    kind : str
        Domain of a generated table, kind of difficulty of an added one.
    half : str
        "tune" or "confirm".
    frame : pandas.DataFrame
        Columns bool, category, int64 and float64; missing numbers are NaN.
    classes : ndarray of shape (n,), int
    best : ndarray of shape (n,), int, or None
        Labels of the best rule: Bayes-optimal, or of a classifier if `ceiling` is "supervised".
    ceiling : str
        "exact", "supervised", or empty if no best labels are known.
    traits : tuple of str
        Kinds of difficulty, by which figures are grouped.
    seed : int
        Seed of the rows.

    """

    name: str
    group: str
    kind: str
    half: str
    frame: pd.DataFrame
    classes: np.ndarray
    best: np.ndarray | None = None
    ceiling: str = ""
    traits: tuple[str, ...] = field(default=())
    seed: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes that occur."""
        return len(np.unique(self.classes))

    @property
    def ceiling_ari(self) -> float | None:
        """Adjusted Rand index of the best labels."""
        return None if self.best is None else agreement(self.classes, self.best)["ari"]

    @property
    def ceiling_nmi(self) -> float | None:
        """Normalised mutual information of the best labels."""
        return None if self.best is None else agreement(self.classes, self.best)["nmi"]


def half_of(number: int) -> str:
    """Return "tune" if a number is even, else "confirm"."""
    return HALVES[number % 2]


def random_of(*key: str | int) -> np.random.Generator:
    """Return a generator that depends on the words of a key, and on its numbers as further seeds.

    The words are joined by a space, so that a plan can be named by its parts.
    """
    words = " ".join(str(one) for one in key if isinstance(one, str))
    numbers = [one for one in key if not isinstance(one, str)]
    first = zlib.crc32(words.encode())
    return np.random.default_rng([first, *numbers] if numbers else first)
