"""Tables of nine domains with six designs each; their densities, and so their ceilings, are exact.

Columns are independent given the class and one hidden factor of the row, its "size".
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from benchmarks.realistic.columns import frame_of
from benchmarks.realistic.domains import DOMAINS
from benchmarks.realistic.plans import TableDesign, TablePlan, plan_of
from benchmarks.realistic.tables import KnownTable, half_of, random_of

SIZES = (5000, 2000, 10000, 1000, 3000, 20000, 1500, 4000, 2500)
"""Numbers of rows, in turn over domains and designs."""

DESIGNS = (
    TableDesign(4, 0.85, 0.6, 4, 1, "idle", "none"),
    TableDesign(1, 1.00, 1.0, 0, 5, "idle", "idle", loading=0.7),
    TableDesign(3, 0.98, 0.8, 3, 4, "idle", "idle", derived=True),
    TableDesign(6, 0.80, 0.8, 5, 0, "informative", "informative"),
    TableDesign(3, 0.65, 0.4, 5, 1, "none", "informative", loading=0.8, missing=0.05),
    TableDesign(10, 0.95, 0.9, 7, 1, "idle", "none", loading=0.4, derived=True),
)
"""The number of classes also varies by domain."""

GENERATED = tuple((domain, variant) for domain in DOMAINS for variant in range(len(DESIGNS)))
"""Domains and numbers of designs."""


def name_of(domain: str, variant: int) -> str:
    """Return the name of a generated table."""
    return f"{domain}-{variant}"


def half_of_generated(domain: str, variant: int) -> str:
    """Return the half of a generated table."""
    return half_of(list(DOMAINS).index(domain) + variant)


@cache
def generated_plan(domain: str, variant: int) -> tuple[TableDesign, TablePlan]:
    """Return the design and the plan of a generated table."""
    design = DESIGNS[variant]
    if design.classes > 1:
        more = list(DOMAINS).index(domain) % 3 - 1
        design = replace(design, classes=max(2, design.classes + more))
    return design, plan_of(domain, design, random_of(domain, str(variant)))


def generated_table(domain: str, variant: int, seed: int = 0, n: int | None = None) -> KnownTable:
    """Return a generated table.

    Parameters
    ----------
    domain : str
        A name in `DOMAINS`.
    variant : int
        Number of the design, which decides columns and effects together with the domain.
    seed : int
        Seed of the rows.
    n : int or None
        Number of rows; None for a number of `SIZES`.

    """
    design, plan = generated_plan(domain, variant)
    place = list(DOMAINS).index(domain)
    n = n or SIZES[(place + 4 * variant) % len(SIZES)]
    random = random_of(domain, str(variant), seed)
    x, classes = plan.draw(n, random)
    best = plan.best_labels(x)
    frame = frame_of(plan.columns, x)
    if design.derived:  # says nothing of the class that the two columns do not say
        a, b = (np.abs(x[:, j]) + 1 for j in (0, 1))
        frame["score"] = np.round(np.sqrt(a * b) * np.exp(0.1 * random.standard_normal(n)), 1)
    group = "one-class" if design.classes == 1 else "generated"
    half = half_of_generated(domain, variant)
    return KnownTable(
        name_of(domain, variant), group, domain, half, frame, classes, best, "exact",
        traits_of(design), seed,
    )  # fmt: skip


def traits_of(design: TableDesign) -> tuple[str, ...]:
    """Return the kinds of difficulty of a design."""
    several = design.classes > 1
    overlap = "overlap" if design.ceiling < 0.9 else "apart"
    traits = {
        "one class": not several,
        overlap: several,
        "uneven": several and design.uneven <= 0.6,
        "idle flags": design.flags == "idle",
        "telling flags": design.flags == "informative",
        "idle categories": design.cats == "idle",
        "telling categories": design.cats == "informative",
        "irrelevant numbers": several and design.irrelevant > 2,
        "correlated": design.loading >= 0.5,
        "missing": design.missing > 0,
    }
    return tuple(name for name, given in traits.items() if given)
