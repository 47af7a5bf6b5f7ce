"""Plans of tables: columns, class effects, and the distance between classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.harness.measure import agreement
from benchmarks.realistic.columns import ColumnSpec, DrawnColumn, component_scores, draw_rows
from benchmarks.realistic.domains import DOMAINS

MAX_STRENGTH = 5.0
"""Maximum multiplier of class effects; tables of weak columns have a lower ceiling."""
PLACE_DRAWS = 200
"""Number of random placements of classes, of which the one with the largest least gap is taken."""
BISECTION_STEPS = 10
BISECTION_ROWS = 3000
BLOCK_ROWS = 2000
"""Number of rows whose density is computed at a time."""


@dataclass(frozen=True)
class TableDesign:
    """Properties of a table.

    Attributes
    ----------
    classes : int
    ceiling : float
        Adjusted Rand index of the Bayes-optimal labels.
    uneven : float
        Ratio of the sizes of a class and the next larger one.
    informative : int
        Number of number columns that depend on the class.
    irrelevant : int
        Number of number columns that do not.
    flags, cats : {"none", "idle", "informative"}
        Whether there are such columns, and whether they depend on the class.
    loading : float
        Weight of the hidden row factor, which makes columns dependent within classes.
    missing : float
        Probability that a number is missing.
    derived : bool
        Whether a column is a noisy product of two others.

    """

    classes: int
    ceiling: float
    uneven: float
    informative: int
    irrelevant: int
    flags: str
    cats: str
    loading: float = 0.0
    missing: float = 0.0
    derived: bool = False


@dataclass
class TablePlan:
    """The properties of a table that do not depend on the seed of its rows.

    Attributes
    ----------
    columns : list of DrawnColumn
    weights : ndarray of shape (m,)
        Shares of the components.
    class_of : ndarray of shape (m,), int
        Class of each component; several components make sub-populations of a class.
    strength : float
        Multiplier of all class effects.
    missing : float
        Probability that a number is missing.

    """

    columns: list[DrawnColumn]
    weights: np.ndarray
    class_of: np.ndarray
    strength: float = 0.0
    missing: float = 0.0

    def draw(self, n: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return random rows (n, d) float64 and their classes (n,)."""
        components = random.choice(len(self.weights), n, p=self.weights)
        x = draw_rows(self.columns, components, self.strength, self.missing, random)
        return x, self.class_of[components]

    def best_labels(self, x: np.ndarray) -> np.ndarray:
        """Return the Bayes-optimal labels (n,) of rows x (n, d)."""
        return class_scores(self, x).argmax(1)

    def bisect(self, ceiling: float) -> None:
        """Set the strength at which the Bayes-optimal labels have a given adjusted Rand index."""
        low, high = 0.1, MAX_STRENGTH
        for _ in range(BISECTION_STEPS):
            self.strength = float(np.sqrt(low * high))
            x, classes = self.draw(BISECTION_ROWS, np.random.default_rng(7))
            if agreement(classes, self.best_labels(x))["ari"] < ceiling:
                low = self.strength
            else:
                high = self.strength
        self.strength = high


def class_scores(plan: TablePlan, x: np.ndarray) -> np.ndarray:
    """Return log(share) plus the log-density of rows x (n, d) in each class, (n, k).

    A term that is equal for all classes of a row may be missing.
    """
    members = [np.flatnonzero(plan.class_of == k) for k in range(plan.class_of.max() + 1)]
    scores = np.empty((len(x), len(members)))
    for start in range(0, len(x), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        found = component_scores(plan.columns, plan.weights, x[block], plan.strength)
        for k, of_class in enumerate(members):
            scores[block, k] = np.logaddexp.reduce(found[:, of_class], axis=1)
    return scores


def falling_weights(k: int, uneven: float) -> np.ndarray:
    """Return shares (k,) that fall by a ratio from one class to the next."""
    weights = uneven ** np.arange(k)
    return weights / weights.sum()


def spread_places(k: int, random: np.random.Generator) -> np.ndarray:
    """Return places (k, dims) of classes, dims from 1 to 3, that do not coincide."""
    dims = min(max(k - 1, 1), 3)
    best, places = -1.0, np.zeros((1, dims))
    for _ in range(PLACE_DRAWS if k > 1 else 0):
        candidate = random.standard_normal((k, dims))
        gaps = np.linalg.norm(candidate[:, None] - candidate, axis=2)[np.triu_indices(k, 1)]
        if gaps.min() > best:
            best, places = gaps.min(), candidate
    return places


def random_effects(places: np.ndarray, levels: int, random: np.random.Generator) -> np.ndarray:
    """Return effects (k, levels) of classes at places (k, dims) on a column, or on its levels."""
    k, dims = places.shape
    directions = random.standard_normal((dims, levels))
    directions /= np.linalg.norm(directions, axis=0)
    effects = places @ directions + 0.3 * random.standard_normal((k, levels))
    centred = effects - effects.mean(0)
    return centred / max(1e-9, effects.std()) * random.uniform(0.5, 1.2)


def plan_columns(
    domain: str, design: TableDesign, places: np.ndarray, random: np.random.Generator
) -> list[DrawnColumn]:
    """Return columns of a domain with random effects of classes at places (k, dims)."""
    k = len(places)
    specs = DOMAINS[domain]
    numbers = [spec for spec in specs if spec.kind not in ("flag", "cat")]
    order = random.permutation(len(numbers))
    columns = []
    for i, j in enumerate(order[: design.informative + design.irrelevant]):
        informative = i < design.informative
        shifted = informative and k > 1
        widths = random.uniform(0.75, 1.35, k) if shifted else np.ones(k)
        loading = design.loading * random.choice([-1, 1]) * random.uniform(0.6, 1.4)
        effects = random_effects(places, 1, random)[:, 0] if shifted else np.zeros(k)
        loaded = informative or k == 1
        columns.append(DrawnColumn(numbers[j], effects, widths, loading if loaded else 0.0))
    for kind, use in (("flag", design.flags), ("cat", design.cats)):
        alike = [spec for spec in specs if spec.kind == kind]
        count = {"none": 0, "idle": 1, "informative": 2}[use]
        columns += [
            _threshold(spec, use == "informative", places, random) for spec in alike[:count]
        ]
    return columns


def _threshold(
    spec: ColumnSpec, informative: bool, places: np.ndarray, random: np.random.Generator
) -> DrawnColumn:
    """Return a flag or category whose logits depend on the class if `informative`."""
    k, shape = len(places), max(spec.levels, 1)
    effects = (
        random_effects(places, shape, random) if informative and k > 1 else np.zeros((k, shape))
    )
    base = random.standard_normal(spec.levels) if spec.levels else np.zeros(0)
    return DrawnColumn(spec, effects if spec.levels else effects[:, 0], np.ones(k), 0.0, base)


def plan_of(domain: str, design: TableDesign, random: np.random.Generator) -> TablePlan:
    """Return the plan of a table of a domain.

    Parameters
    ----------
    domain : str
    design : TableDesign
    random : numpy.random.Generator
        Chooses columns and effects.

    """
    k = design.classes
    columns = plan_columns(domain, design, spread_places(k, random), random)
    weights = falling_weights(k, design.uneven)
    plan = TablePlan(columns, weights, np.arange(k), missing=design.missing)
    if k > 1:
        plan.bisect(design.ceiling)
    return plan
