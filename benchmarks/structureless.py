"""How often samples without clusters are split."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from itertools import product

import numpy as np

from benchmarks.blind import PROCESSES, SMALL_METHODS, fit_blind, prepare
from distsvc.bench.data import standardised
from distsvc.bench.measure import in_processes, publish, timed
from distsvc.bench.rows import Row, grouped, only, show

DISTRIBUTIONS = {"uniform square": ("random", 2), "Gaussian": ("normal", 2)}
DISTRIBUTIONS |= {"Gaussian in 10-d": ("normal", 10)}
ROWS = (500, 1500, 5000)
MOST_SILENT = 2
SPEAKS = re.compile(r"\bsupport\b(?! vector)|\bagree")

NULL_DISTRIBUTIONS = {"normal": "normal", "uniform": "random", "exponential": "exponential"}
NULL_COLUMNS = (1, 2, 5, 10, 40)
NULL_ROWS = (500, 1000, 3000, 10_000)
NULL_SAMPLES = 8


def structureless(options: Namespace) -> None:
    """How often support vector clustering splits samples without clusters, and whether it warns.

    Nine samples: a uniform square, a Gaussian in 2 and one in 10 dimensions, of 500, 1,500 and
    5,000 rows, standardised. The model has several seeds, the samples have one. A split is silent
    when no warning speaks of support (that of models for an answer) or of their agreement.
    """
    tasks = list(product(DISTRIBUTIONS, ROWS, range(options.seeds)))
    rows: list[Row] = []
    for row in in_processes(row_of_fit, tasks, PROCESSES, prepare):
        rows.append(row)
        print(f"{len(rows)} of {len(tasks)} fits", file=sys.stderr, flush=True)
    samples = [
        {
            "sample": name,
            "n": n,
            "runs": len(alike),
            "split": sum(row["k"] > 1 for row in alike),
            "split_silently": sum(row["silent"] for row in alike),
            "most_clusters": max(row["k"] for row in alike),
            "seconds": max(row["seconds"] for row in alike),
        }
        for (name, n), alike in grouped(rows, ("sample", "n")).items()
    ]
    show("Samples without clusters that were split", samples)
    by_seed = [sum(r["silent"] for r in only(rows, seed=seed)) for seed in range(options.seeds)]
    print(
        f"  of {len(samples)} samples split silently: {sum(by_seed) / len(by_seed):.3g} in the "
        f"mean over seeds, {max(by_seed)} with the worst; bar: at most {MOST_SILENT}"
    )
    publish(options.out, "structureless", rows)


def row_of_fit(name: str, n: int, seed: int) -> Row:
    """Return the row of the result that is about one fit."""
    distribution, d = DISTRIBUTIONS[name]
    X = standardised(getattr(np.random.default_rng(0), distribution)(size=(n, d)))
    _, found = fit_blind(SMALL_METHODS, "ours", X, 1, seed)
    warned = SPEAKS.search(found["note"]) is not None
    return {
        "sample": name,
        "n": n,
        "d": d,
        "seed": seed,
        "k": found["k"],
        "agreement": found["agreement"],
        "warned": int(warned),
        "silent": int(found["k"] > 1 and not warned),
        "seconds": found["seconds"],
        "note": found["note"],
    }


def mdh_null(options: Namespace) -> None:
    """How often iMDH splits samples without clusters: Gaussians, uniforms, exponentials."""
    from distsvc import IncrementalMDH

    rows: list[Row] = []
    for (name, make), d in product(NULL_DISTRIBUTIONS.items(), NULL_COLUMNS):
        models = []
        for n, seed in product(NULL_ROWS, range(NULL_SAMPLES)):
            X = standardised(getattr(np.random.default_rng([d, n, seed]), make)(size=(n, d)))
            model = IncrementalMDH(random_state=seed)
            models.append(timed(model.fit, X).value)
        rows.append(
            {
                "distribution": name,
                "d": d,
                "samples": len(models),
                "split": sum(model.n_clusters_ > 1 for model in models),
                "highest_z": max(model.clearest_valley_ for model in models),
            }
        )
    show("Samples of 500 to 10,000 rows that were split", rows)
    print(f"  {sum(row['split'] for row in rows)} of {sum(row['samples'] for row in rows)}")
    publish(options.out, "mdh_null", rows)
