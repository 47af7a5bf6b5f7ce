"""Tables of 60, 120 and 300 columns of all domains; their ceilings are exact."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from benchmarks.realistic.columns import DrawnColumn, frame_of
from benchmarks.realistic.domains import DOMAINS
from benchmarks.realistic.plans import TablePlan, falling_weights, random_effects, spread_places
from benchmarks.realistic.tables import KnownTable, half_of, random_of

ROWS, CLASSES, CEILING = 3000, 4, 0.9
NUMBERS = [
    spec
    for specs in DOMAINS.values()
    for spec in specs
    if spec.kind in ("normal", "log", "logit", "count")
]
WIDE = tuple(product((120, 300, 60), ("all", "twelve", "none"), (0.0, 0.4)))
"""For each table the number of columns, which of them depend on the class ("none": there is one
class), and the weight of the hidden row factor."""


def wide_name(d: int, informative: str, loading: float) -> str:
    """Return the name of a wide table."""
    return f"wide-{d}-{informative}" + ("-factor" if loading else "")


@cache
def wide_plan(d: int, informative: str, loading: float) -> TablePlan:
    """Return the plan of a wide table; it has one class if no column depends on the class."""
    random = random_of("wide", informative, d, int(10 * loading))
    k = 1 if informative == "none" else CLASSES
    effects = np.zeros((k, d))
    if k > 1:
        shifted = d if informative == "all" else 12
        effects[:, :shifted] = random_effects(spread_places(k, random), shifted, random)
    columns = [
        DrawnColumn(
            replace(spec, name=f"{spec.name}_{j}"),
            effects[:, j],
            np.ones(k),
            loading * random.standard_normal(),
        )
        for j in range(d)
        for spec in [NUMBERS[j % len(NUMBERS)]]
    ]
    plan = TablePlan(columns, falling_weights(k, 0.8), np.arange(k))
    if k > 1:
        plan.bisect(CEILING)
    return plan


def wide_table(d: int, informative: str, loading: float, seed: int = 0) -> KnownTable:
    """Return a table of d columns with some of the values of `WIDE`."""
    plan, name = wide_plan(d, informative, loading), wide_name(d, informative, loading)
    x, classes = plan.draw(ROWS, random_of(name, seed))
    half = half_of(WIDE.index((d, informative, loading)))
    kind = "one class" if informative == "none" else f"{informative} of {d}"
    traits = ("correlated",) if loading else ()
    best = plan.best_labels(x)
    return KnownTable(
        name, "wide", kind, half, frame_of(plan.columns, x), classes, best, "exact", traits, seed
    )
