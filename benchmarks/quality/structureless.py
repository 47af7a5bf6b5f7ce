"""How often samples without clusters are split."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.harness.data import standardised
from benchmarks.harness.measure import measured, publish, timed
from benchmarks.harness.rows import Row, grouped, read_csv, show
from benchmarks.harness.systems import prepare
from benchmarks.quality.blind import METHODS
from benchmarks.quality.without_labels import fit_method

Sample = Callable[[np.random.Generator, int], np.ndarray]


def cube(d: int) -> Sample:
    return lambda random, n: random.random((n, d))


def gaussian(d: int) -> Sample:
    return lambda random, n: random.normal(size=(n, d))


def disc(random: np.random.Generator, n: int) -> np.ndarray:
    angle, distance = random.uniform(0.0, 2.0 * np.pi, n), np.sqrt(random.random(n))
    return np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])


GENERATORS: dict[str, Sample] = {
    "uniform square": cube(2),
    "uniform in 10-d": cube(10),
    "disc": disc,
    "triangle": lambda random, n: random.dirichlet((1.0, 1.0, 1.0), n)[:, :2],
    "Gaussian": gaussian(2),
    "Gaussian in 10-d": gaussian(10),
    "Gaussian in 40-d": gaussian(40),
    "correlated": lambda random, n: gaussian(5)(random, n) @ gaussian(5)(random, 5),
    "rounded Gaussian": lambda random, n: np.round(gaussian(3)(random, n), 1),
    "Laplace": lambda random, n: random.laplace(size=(n, 5)),
    "Student's t": lambda random, n: random.standard_t(3.0, (n, 2)),
    "exponential": lambda random, n: random.exponential(size=(n, 2)),
    "log-normal": lambda random, n: random.lognormal(0.0, 0.7, (n, 2)),
}
"""Samples without clusters: what makes n rows of each."""


def direction(d: int, strength: float) -> Sample:
    """Return what makes rows about one direction, none where its strength is 0."""
    return lambda random, n: gaussian(d)(random, n) + strength * np.eye(1, d)


DIRECTIONS: dict[str, Sample] = {
    f"{strength:g} along a direction of {d}": direction(d, strength)
    for d in (16, 32, 64)
    for strength in (0.0, 1.0, 3.0, 10.0)
}
"""Samples of directions without clusters: uniform, and about one direction."""


def lattice(d: int, n_values: int) -> Sample:
    """Return what makes rows of columns of few values, some of them rare."""

    def rows(random: np.random.Generator, n: int) -> np.ndarray:
        shares = random.dirichlet(np.full(n_values, 2.0), size=d)
        return np.column_stack([random.choice(n_values, size=n, p=p) for p in shares])

    return rows


LATTICES: dict[str, Sample] = {
    f"{d} columns of {n_values} values": lattice(d, n_values)
    for d, n_values in ((4, 5), (6, 3), (8, 3), (8, 5), (12, 2), (30, 2))
}
"""Samples of columns of few values that have nothing to do with each other."""

ALL_KINDS = GENERATORS | LATTICES | DIRECTIONS

ROWS = (500, 1500, 5000)
MOST_SPLIT = 1

NULL_DISTRIBUTIONS = {"normal": "normal", "uniform": "random", "exponential": "exponential"}
NULL_COLUMNS = (1, 2, 5, 10, 40)
NULL_ROWS = (500, 1000, 3000, 10_000)
NULL_SEEDS = {"tune": range(8), "confirm": range(8, 16)}
"""Seeds of samples: the minimum z was chosen on "tune", and "confirm" tests it."""

NULL_TREES = (1, 5, 20)


def structureless(options: Namespace) -> None:
    """How often the default splits samples without clusters.

    Thirteen generators, six of columns of few values and, as rows of length 1, twelve more, each
    of 500, 1,500 and 5,000 rows. The first nineteen are standardised. Every seed makes new samples
    and a new model. The figure is how many of the generators are split, in the mean over sizes and
    seeds.
    """
    tasks = list(product(ALL_KINDS, ROWS, range(options.seeds)))
    rows = measured(rows_of_fit, tasks, options.processes, partial(prepare, ["auto"]))
    samples = [
        {
            "sample": name,
            "n": n,
            "runs": len(alike),
            "split": sum(row["k"] > 1 for row in alike),
            "most_clusters": max(row["k"] for row in alike),
            "seconds": max(row["seconds"] for row in alike),
        }
        for (name, n), alike in grouped(rows, ("sample", "n")).items()
    ]
    show("Samples without clusters that were split", samples)
    report_split(rows)
    publish(options.out, "structureless", rows)


def report_split(rows: list[Row]) -> None:
    """Print how many of the generators are split: by size and seed, and in the mean."""
    alike = grouped(rows, ("n", "seed"))
    split = {key: sum(row["k"] > 1 for row in found) for key, found in alike.items()}
    lines = [
        {"n": n} | {f"seed {seed}": count for (size, seed), count in split.items() if size == n}
        for n in ROWS
    ]
    of_all = len(ALL_KINDS)
    show(f"Of {of_all} generators split", lines)
    print(
        f"  in the mean: {mean(split.values()):.3g} of {of_all}, {max(split.values())} at worst; "
        f"bar: at most {MOST_SPLIT} in the mean"
    )


def rows_of_fit(name: str, n: int, seed: int) -> list[Row]:
    """Return the row of the result that is about one fit."""
    random = np.random.default_rng(seed)
    X = ALL_KINDS[name](random, n)
    if name in DIRECTIONS:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    else:
        X = standardised(X)
    _, found = fit_method(METHODS, "auto", X, 1, seed)
    row = {"sample": name, "n": n, "d": X.shape[1], "seed": seed}
    return [row | {key: found[key] for key in ("k", "agreement", "seconds")}]


def mdh_null(options: Namespace) -> None:
    """Measure how often iMDH splits samples of Gaussians, uniforms and exponentials.

    The columns `split_1`, `split_5` and `split_20` are the numbers of samples that would be split
    if the first so many trees were all. The minimum z was chosen on the samples of the half `tune`;
    `--half confirm` has samples of other seeds.

    The file is written after every distribution and number of columns, fewest columns first.
    Samples that are not measured keep their rows of an earlier run, so a run may be stopped;
    `--sets uniform` measures one distribution.
    """
    path = options.out / "mdh_null.csv"
    fresh: list[Row] = []
    names = options.sets or list(NULL_DISTRIBUTIONS)
    if unknown := [name for name in names if name not in NULL_DISTRIBUTIONS]:
        sys.exit(f"no distribution {unknown[0]!r}; there are {', '.join(NULL_DISTRIBUTIONS)}")
    halves = [options.half] if options.half else list(NULL_SEEDS)
    for half, d, name in product(halves, NULL_COLUMNS, names):
        fresh.append(null_row(half, name, d))
        show("Samples of 500 to 10,000 rows that were split", fresh)
        publish(options.out, "mdh_null", with_other_samples(path, fresh))
    print(f"  {sum(row['split'] for row in fresh)} of {sum(row['samples'] for row in fresh)}")


def null_row(half: str, name: str, d: int) -> Row:
    """Return the number of samples of d columns that are split, and the highest z of a valley."""
    from distsvc import IncrementalMDH

    models = []
    for n, seed in product(NULL_ROWS, NULL_SEEDS[half]):
        make = getattr(np.random.default_rng([d, n, seed]), NULL_DISTRIBUTIONS[name])
        model = IncrementalMDH(random_state=seed)
        models.append(timed(model.fit, standardised(make(size=(n, d)))).value)
    return {
        "half": half,
        "distribution": name,
        "d": d,
        "samples": len(models),
        "split": sum(model.n_clusters_ > 1 for model in models),
        **{f"split_{m}": sum(_is_split(model, m) for model in models) for m in NULL_TREES},
        "highest_z": max(model.clearest_valley_ for model in models),
    }


def _is_split(model: Any, n_trees: int) -> bool:
    """Return True if the first trees of a fit alone would have a valley."""
    return bool(np.median(model._engine.tree_valleys[:n_trees]) >= model.valley)


def with_other_samples(path: Path, fresh: list[Row]) -> list[Row]:
    """Return fresh rows and the other rows of a file, by half, distribution and columns."""
    rows = {(row["half"], row["distribution"], row["d"]): row for row in [*read_csv(path), *fresh]}
    order = product(NULL_SEEDS, NULL_DISTRIBUTIONS, NULL_COLUMNS)
    return [rows[key] for key in order if key in rows]
