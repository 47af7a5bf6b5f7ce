"""Tables of kinds that the generated ones lack: curves, heavy tails, answers, shares of a whole.

The ceiling is exact where the density is known. Elsewhere it is the agreement of a gradient-boosted
classifier (scikit-learn's HistGradientBoostingClassifier) that learns the classes from other rows
of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.realistic.columns import ColumnSpec, DrawnColumn, draw_rows, frame_of
from benchmarks.realistic.domains import DOMAINS
from benchmarks.realistic.plans import (
    TableDesign,
    TablePlan,
    falling_weights,
    plan_columns,
    random_effects,
    spread_places,
)
from benchmarks.realistic.tables import KnownTable, half_of, random_of

VARIANTS = 3
"""Number of tables of a kind."""
CLASSES = (3, 2, 5)
ROWS = (2000, 4000, 1500)
MISSING = (0.0, 0.04, 0.0)
"""Number of classes, rows, and share of missing numbers of each variant."""
TRAINING_ROWS = 20_000
"""Number of rows from which the classifier of a supervised ceiling learns."""

Random = np.random.Generator
Columns = dict[str, Any]
Core = Callable[[np.ndarray, Random], Columns]
"""Draws columns of rows whose classes (n,) are given."""
Sample = Callable[[int, Random], tuple[pd.DataFrame, np.ndarray, np.ndarray | None]]
"""Draws n rows: a table, its classes (n,), and the Bayes-optimal labels (n,) if they are known."""


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return positive rows that add to 1."""
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def answers(latent: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return answers 1..5 (n, d) of latent values (n, d) by thresholds (d, 4)."""
    return 1 + (latent[:, :, None] > thresholds[None]).sum(2)


def uneven_thresholds(d: int, random: Random) -> np.ndarray:
    """Return ascending thresholds (d, 4) with unequal distances."""
    return np.sort(np.array([-1.2, -0.4, 0.4, 1.2]) + random.normal(0.0, 0.45, (d, 4)), axis=1)


def numbered(name: str, values: np.ndarray) -> Columns:
    """Return the columns of an array (n, d) by names with numbers from 1."""
    return {f"{name}{j}": values[:, j - 1] for j in range(1, values.shape[1] + 1)}


def curved(places: np.ndarray, random: Random) -> Core:
    """Return bent classes: a parabola and a wave over the first column."""
    k = len(places)
    offsets = random_effects(places, 3, random) * 1.5
    bend = random.choice([-1, 1], k) * random.uniform(0.6, 1.1, k)

    def draw(classes: np.ndarray, random: Random) -> Columns:
        t = random.standard_normal(len(classes))
        noise = 0.35 * random.standard_normal((len(classes), 3))
        a = t + offsets[classes, 0]
        b = bend[classes] * (t**2 - 1) + offsets[classes, 1] + noise[:, 1]
        c = np.sin(1.5 * t) + offsets[classes, 2] + noise[:, 2]
        return {
            "dose": np.round(50 + 10 * a),
            "response": np.round(np.exp(4 + 0.5 * b), 2),
            "yield": np.round(100 / (1 + np.exp(-c)), 1),
        }

    return draw


def heavy_tailed(places: np.ndarray, random: Random) -> Core:
    """Return classes of a multivariate t distribution with 3 degrees of freedom."""
    offsets = random_effects(places, 4, random) * 2.6
    mix = np.eye(4) + 0.3 * random.standard_normal((4, 4))

    def draw(classes: np.ndarray, random: Random) -> Columns:
        n = len(classes)
        scale = np.sqrt(random.chisquare(3, (n, 1)) / 3)
        x = offsets[classes] + random.standard_normal((n, 4)) @ mix / scale
        return {
            "change": np.round(x[:, 0], 2),
            "deviation": np.round(100 + 15 * x[:, 1]),
            "drift": np.round(x[:, 2] / 7, 3),
            "volume": np.round(np.exp(np.clip(3 + 0.4 * x[:, 3], -20, 40)), 1),
        }

    return draw


def dependent_flags(places: np.ndarray, random: Random) -> Core:
    """Return flags that depend on each other within a class, and flags that imply others."""
    effects = random_effects(places, 5, random) * 2.2
    base = random.normal(0.0, 0.6, 5)

    def draw(classes: np.ndarray, random: Random) -> Columns:
        n = len(classes)
        shared = 1.2 * random.standard_normal((n, 1))
        flags = base + effects[classes] + shared + random.logistic(size=(n, 5)) > 0
        return numbered("has_", flags) | {
            "uses": flags[:, 0] & (random.random(n) < 0.7),
            "any": flags[:, :3].any(1),
        }

    return draw


def ordinal(places: np.ndarray, random: Random, d: int = 6) -> Core:
    """Return answers 1..5 that share one factor within classes."""
    effects = random_effects(places, d, random) * 1.25
    thresholds = uneven_thresholds(d, random)
    loading = 0.5 * random.choice([-1, 1], d)

    def draw(classes: np.ndarray, random: Random) -> Columns:
        n = len(classes)
        latent = effects[classes] + loading * random.standard_normal((n, 1))
        return numbered(
            "answer", answers(latent + 0.8 * random.standard_normal((n, d)), thresholds)
        )

    return draw


def composition(places: np.ndarray, random: Random) -> Core:
    """Return percentages that add to 100."""
    effects = random_effects(places, 5, random) * 0.9
    base = random.normal(0.0, 0.7, 5)

    def draw(classes: np.ndarray, random: Random) -> Columns:
        logits = base + effects[classes] + 0.5 * random.standard_normal((len(classes), 5))
        shares = np.round(100 * softmax(logits), 1)
        shares[:, -1] = np.round(100 - shares[:, :-1].sum(1), 1)
        return numbered("share", shares)

    return draw


CORES: dict[str, Callable[[np.ndarray, Random], Core]] = {
    "curved": curved,
    "heavy-tailed": heavy_tailed,
    "dependent-flags": dependent_flags,
    "ordinal": ordinal,
    "only-ordinal": partial(ordinal, d=10),
    "composition": composition,
}
"""Kinds without an exact density: columns that tell of the classes."""


def supervised_sample(kind: str, variant: int, random: Random) -> Sample:
    """Return a kind without an exact density, beside columns of a domain.

    Two of the columns beside tell of the classes, a number, a flag and a category do not.
    """
    places = spread_places(CLASSES[variant], random)
    core = CORES[kind](places, random)
    weights = falling_weights(len(places), 0.75)
    missing = MISSING[variant]
    design = TableDesign(len(places), 1.0, 0.75, 2, 1, "idle", "idle", missing=missing)
    beside = plan_columns(_domain(kind, variant), design, places, random)

    def sample(n: int, random: Random) -> tuple[pd.DataFrame, np.ndarray, None]:
        classes = random.choice(len(weights), n, p=weights)
        frame = pd.DataFrame(core(classes, random))
        if kind != "only-ordinal":
            others = draw_rows(beside, classes, 1.0, missing, random)
            frame = pd.concat([frame, frame_of(beside, others)], axis=1)
        return frame, classes, None

    return sample


def exact_sample(
    plan: TablePlan, extend: Callable[[pd.DataFrame, Random], Columns] = lambda frame, random: {}
) -> Sample:
    """Return a kind with an exact density.

    Parameters
    ----------
    plan : TablePlan
    extend : callable
        Returns further columns of a table, which say nothing more of the classes.

    """

    def sample(n: int, random: Random) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
        x, classes = plan.draw(n, random)
        frame = frame_of(plan.columns, x)
        return frame.assign(**extend(frame, random)), classes, plan.best_labels(x)

    return sample


def sub_populations(variant: int, random: Random) -> Sample:
    """Return classes of two sub-populations each, which lie nearer than classes do."""
    k = CLASSES[variant]
    places = np.repeat(spread_places(k, random), 2, axis=0)
    places = places + 0.45 * random.standard_normal(places.shape)
    design = TableDesign(2 * k, 0.9, 1.0, 5, 1, "idle", "idle")
    columns = plan_columns(_domain("sub-populations", variant), design, places, random)
    weights = np.repeat(falling_weights(k, 0.75), 2) * np.tile([0.6, 0.4], k)
    return _bisected(columns, weights, np.repeat(np.arange(k), 2), variant, design.ceiling)


def near_duplicates(variant: int, random: Random) -> Sample:
    """Return a table in which a telling and two other columns stand twice, nearly equal."""
    places = spread_places(CLASSES[variant], random)
    design = TableDesign(len(places), 0.9, 0.75, 4, 2, "idle", "idle")
    columns = plan_columns(_domain("near-duplicates", variant), design, places, random)

    def extend(frame: pd.DataFrame, random: Random) -> Columns:
        copies: Columns = {}
        for j in (0, 4, 5):
            name = columns[j].spec.name
            noise = 1 + 0.02 * random.standard_normal(len(frame))
            copies[f"{name}_estimated"] = np.round(1.19 * frame[name] * noise, 2)
        return copies

    plan_weights = falling_weights(len(places), 0.75)
    return _bisected(columns, plan_weights, np.arange(len(places)), variant, design.ceiling, extend)


def many_irrelevant(variant: int, random: Random) -> Sample:
    """Return a table with 30 columns of other domains that say nothing of the classes."""
    places = spread_places(CLASSES[variant], random)
    domain = _domain("30-irrelevant", variant)
    design = TableDesign(len(places), 0.95, 0.75, 5, 0, "idle", "idle")
    columns = plan_columns(domain, design, places, random)
    others = [
        replace(spec, name=f"{other}_{spec.name}")
        for other in DOMAINS
        if other != domain
        for spec in DOMAINS[other]
    ]
    chosen = random.choice(len(others), 30, replace=False)
    columns += [_idle(others[j], len(places), random) for j in chosen]
    weights = falling_weights(len(places), 0.75)
    return _bisected(columns, weights, np.arange(len(places)), variant, design.ceiling)


def rare_class(variant: int, random: Random) -> Sample:
    """Return a table whose last class has 1 % of the rows: of two, three or four classes."""
    weights = (
        np.array([0.99, 0.01]),
        np.array([0.6, 0.39, 0.01]),
        np.array([0.5, 0.3, 0.19, 0.01]),
    )
    places = spread_places(len(weights[variant]), random)
    places[-1] *= 1.5  # rows that are few are found only if they lie apart
    design = TableDesign(len(places), 0.9, 1.0, 5, 1, "idle", "idle")
    columns = plan_columns(_domain("rare-class", variant), design, places, random)
    return _bisected(columns, weights[variant], np.arange(len(places)), variant, design.ceiling)


EXACT: dict[str, Callable[[int, Random], Sample]] = {
    "sub-populations": sub_populations,
    "near-duplicates": near_duplicates,
    "30-irrelevant": many_irrelevant,
    "rare-class": rare_class,
}
"""Kinds with an exact density."""

KINDS = (*CORES, *EXACT)
ADDED = tuple((kind, variant) for kind in KINDS for variant in range(VARIANTS))
"""Kinds and numbers of variants."""


def _domain(kind: str, variant: int) -> str:
    names = list(DOMAINS)
    return names[(KINDS.index(kind) + 3 * variant) % len(names)]


def _idle(spec: ColumnSpec, k: int, random: Random) -> DrawnColumn:
    """Return a column that says nothing of k classes."""
    shape = (k, spec.levels) if spec.levels else (k,)
    return DrawnColumn(spec, np.zeros(shape), np.ones(k), 0.0, random.standard_normal(spec.levels))


def _bisected(
    columns: list[DrawnColumn],
    weights: np.ndarray,
    class_of: np.ndarray,
    variant: int,
    ceiling: float,
    extend: Callable[[pd.DataFrame, Random], Columns] = lambda frame, random: {},
) -> Sample:
    """Return a kind with an exact density at a given ceiling."""
    plan = TablePlan(columns, weights, class_of, missing=MISSING[variant])
    plan.bisect(ceiling)
    return exact_sample(plan, extend)


@cache
def added_sample(kind: str, variant: int) -> Sample:
    """Return the sampler of an added table."""
    random = random_of(kind, str(variant))
    if kind in EXACT:
        return EXACT[kind](variant, random)
    return supervised_sample(kind, variant, random)


@cache
def classifier(kind: str, variant: int) -> Any:
    """Return a classifier that has learned the classes of a kind from rows of its own."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    random = random_of(kind, str(variant), "training", 0)
    frame, classes, _ = added_sample(kind, variant)(TRAINING_ROWS, random)
    model = HistGradientBoostingClassifier(
        categorical_features="from_dtype", early_stopping=True, max_iter=200, random_state=0
    )
    with threadpool_limits(1):
        return model.fit(frame, classes)


def added_table(kind: str, variant: int, seed: int = 0) -> KnownTable:
    """Return an added table.

    Parameters
    ----------
    kind : str
        A name in `KINDS`.
    variant : int
        Decides the number of classes and rows, and with the kind the columns.
    seed : int
        Seed of the rows.

    """
    n = ROWS[variant] if kind != "rare-class" else 5000
    frame, classes, best = added_sample(kind, variant)(n, random_of(kind, str(variant), seed))
    ceiling = "supervised" if best is None else "exact"
    if best is None:
        best = classifier(kind, variant).predict(frame)
    half = half_of(KINDS.index(kind) + variant)
    name = f"{kind}-{variant}"
    return KnownTable(name, "added", kind, half, frame, classes, best, ceiling, (kind,), seed)
