"""A made-up world for `nights`: Gaussians that drift, split, merge, appear and disappear.

Each component has a number that is never given twice. At a split the larger part keeps it; when two
merge, the larger one's goes on. What comes where a component was that ended a week ago at most is
that one again: two that merged and split again have the numbers they had. Distances are in standard
deviations of a component, which is round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2

ROWS, DIMENSIONS = 4000, 3
BOX = 34.0
"""Width of the box that the centres are in."""

NEAR, APART = 7.0, 9.0
"""Least distance of two centres, and of one that appears from all others."""

AGAIN, WEEK = NEAR / 2.0, 7
"""Distance within which a component is one that has ended again, and for how many nights."""

PARTED = 6.0
"""Distance of two parts on the night of the split, and about that of two before they merge."""

STEP = 0.4
"""How far a centre drifts in a night, about."""

LEAST, MOST = 4, 10
"""Components."""

SMALLEST = 0.04
"""Share of the rows of a component, at least."""

LARGER = (0.55, 0.85)
"""Share of the larger of two that were one, or become one."""

EVENTS = ("split", "merge", "appear", "disappear")
EVENTFUL = 0.4
"""Probability that something happens in a night, and drift alone does not."""


@dataclass(frozen=True)
class Component:
    """A Gaussian: its number, centre and share of the rows."""

    id: int
    centre: np.ndarray
    weight: float


@dataclass(frozen=True)
class MadeNight:
    """One night's rows X (n, d), and what is true of them.

    Attributes
    ----------
    ids : ndarray of shape (n,), int64
        The number of every row's component.
    event : str
        What happened; empty where centres drifted only.
    parted : set of int
        The numbers of both parts of a split.
    components : list of Component

    """

    X: np.ndarray
    ids: np.ndarray
    event: str
    parted: set[int]
    components: list[Component]


def nights_of(seed: int, n_nights: int, n_rows: int = ROWS) -> list[MadeNight]:
    """Return the nights of the world of a seed; on the first nothing happens."""
    return World(seed).nights(n_nights, n_rows)


class World:
    """Components that change from night to night."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.next_id = 0
        self.night = 0
        self.there: list[Component] = []
        self.ended: list[tuple[int, Component]] = []
        """Components that are there no more, and the first night without them."""
        for _ in range(6):
            self._appear()

    def nights(self, n_nights: int, n_rows: int) -> list[MadeNight]:
        """Return so many nights."""
        found = []
        for number in range(n_nights):
            event, parted, self.night = "", set(), number
            if number:
                self._drift()
                event, parted = self._happen()
            self._balance()
            X, ids = self._rows(n_rows)
            found.append(MadeNight(X, ids, event, parted, list(self.there)))
        return found

    def _rows(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        weights = np.array([one.weight for one in self.there])
        chosen = self.random.choice(len(weights), n, p=weights / weights.sum())
        centres = np.array([one.centre for one in self.there])
        X = centres[chosen] + self.random.standard_normal((n, DIMENSIONS))
        return X, np.array([one.id for one in self.there])[chosen]

    def _drift(self) -> None:
        """Move every centre where that leaves room, away from a part that is too near."""
        for i, one in enumerate(self.there):
            others = [other.centre for other in self.there if other is not one]
            near = min(others, key=lambda centre: np.linalg.norm(centre - one.centre))
            away = one.centre - near
            distance = float(np.linalg.norm(away))
            step = self.random.normal(0.0, STEP / np.sqrt(DIMENSIONS), DIMENSIONS)
            if distance < NEAR:
                step = STEP * away / distance
            moved = np.clip(one.centre + step, 0.0, BOX)
            if distance < NEAR or _distance(moved, others) >= NEAR:
                weight = one.weight * float(np.exp(self.random.normal(0.0, 0.05)))
                self.there[i] = replace(one, centre=moved, weight=weight)

    def _happen(self) -> tuple[str, set[int]]:
        """Let one thing happen or nothing; return which, and the parts of a split."""
        if self.random.random() >= EVENTFUL:
            return "", set()
        event = str(self.random.choice(EVENTS))
        if event in ("split", "appear") and len(self.there) >= MOST:
            return "", set()
        if event in ("merge", "disappear") and len(self.there) <= LEAST:
            return "", set()
        known = {one.id for one in self.there}
        done = getattr(self, f"_{event}")()
        if not done:
            return "", set()
        parted = set(done) if event == "split" else set()
        assert event in ("merge", "disappear") or {one.id for one in self.there} > known
        return event, parted

    def _new(self, centre: np.ndarray, weight: float) -> Component:
        """Return a component with a number of its own, or that of the one that was there."""
        for night, one in reversed(self.ended):
            near = float(np.linalg.norm(one.centre - centre)) < AGAIN
            if near and self.night - night <= WEEK and one.id not in {of.id for of in self.there}:
                return Component(one.id, centre, weight)
        self.next_id += 1
        return Component(self.next_id - 1, centre, weight)

    def _appear(self) -> list[int]:
        for _ in range(1000):
            centre = self.random.uniform(0.0, BOX, DIMENSIONS)
            if _distance(centre, [one.centre for one in self.there]) >= APART:
                total = sum(one.weight for one in self.there) or 1.0
                one = self._new(centre, total * float(self.random.uniform(0.05, 0.2)))
                self.there.append(one)
                return [one.id]
        return []

    def _disappear(self) -> list[int]:
        gone = self.there.pop(int(self.random.integers(len(self.there))))
        self.ended.append((self.night, gone))
        return [gone.id]

    def _split(self) -> list[int]:
        """Part one component; its centre of mass stays."""
        total = sum(one.weight for one in self.there)
        order = self.random.permutation(len(self.there))
        for i in order:
            one, share = self.there[i], float(self.random.uniform(*LARGER))
            others = [other.centre for other in self.there if other is not one]
            if (1.0 - share) * one.weight < 1.5 * SMALLEST * total:
                continue
            for _ in range(50):
                way = self.random.standard_normal(DIMENSIONS)
                way *= PARTED / np.linalg.norm(way)
                large, small = one.centre + (1.0 - share) * way, one.centre - share * way
                if _distance(large, others) >= NEAR and _distance(small, others) >= NEAR:
                    part = self._new(small, (1.0 - share) * one.weight)
                    self.there[i] = replace(one, centre=large, weight=share * one.weight)
                    self.there.append(part)
                    return [one.id, part.id]
        return []

    def _merge(self) -> list[int]:
        """Make one of the two nearest, unlike enough in size; their centre of mass stays."""
        pairs = []
        for one in self.there:
            for other in self.there:
                share = one.weight / (one.weight + other.weight)
                distance = float(np.linalg.norm(one.centre - other.centre))
                if LARGER[0] <= share and distance <= 1.5 * PARTED:
                    pairs.append((distance, one, other, share))
        if not pairs:
            return []
        _, large, small, share = min(pairs, key=lambda pair: pair[0])
        centre = share * large.centre + (1.0 - share) * small.centre
        merged = replace(large, centre=centre, weight=large.weight + small.weight)
        kept = [one for one in self.there if one is not large and one is not small]
        if _distance(centre, [one.centre for one in kept]) < NEAR:
            return []
        self.there = [*kept, merged]
        self.ended.append((self.night, small))
        return [merged.id]

    def _balance(self) -> None:
        """Keep shares above the least."""
        weights = np.array([one.weight for one in self.there])
        weights = np.maximum(weights / weights.sum(), SMALLEST)
        weights /= weights.sum()
        pairs = zip(self.there, weights, strict=True)
        self.there = [replace(one, weight=float(weight)) for one, weight in pairs]


def _distance(centre: np.ndarray, others: list[np.ndarray]) -> float:
    """Return the distance to the nearest of some centres."""
    return min((float(np.linalg.norm(centre - other)) for other in others), default=np.inf)


def nearest(X: np.ndarray, components: list[Component]) -> np.ndarray:
    """Return the place of the likeliest component of every row of X (n, d)."""
    centres = np.array([one.centre for one in components])
    weights = np.log([one.weight for one in components])
    squares = ((X[:, None, :] - centres[None]) ** 2).sum(axis=2)
    return np.argmax(weights - 0.5 * squares, axis=1)


def known(X: np.ndarray, components: list[Component]) -> np.ndarray:
    """Return which rows of X (n, d) are where all but a fortieth of some component's rows are."""
    centres = np.array([one.centre for one in components])
    squares = ((X[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1)
    return squares <= chi2.isf(1.0 / 40.0, DIMENSIONS)
