"""How often support vector clustering splits samples without clusters, and whether it warns.

Nine samples: a uniform square, a Gaussian in 2 and one in 10 dimensions, of 500, 1,500 and 5,000
rows, standardised. The model has several seeds, the samples have one. A split is silent when no
warning speaks of support (that of models for an answer) or of their agreement.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from itertools import product

import numpy as np

from benchmarks.blind import fit_ours, grouped, in_pool
from benchmarks.measure import Row, publish, show, standardised

DISTRIBUTIONS = {"uniform square": ("random", 2), "Gaussian": ("normal", 2)}
DISTRIBUTIONS |= {"Gaussian in 10-d": ("normal", 10)}
ROWS = (500, 1500, 5000)
SAMPLE_SEED = 0
MOST_SILENT = 2
SPEAKS = re.compile(r"\bsupport\b(?! vector)|\bagree")


def run(options: Namespace) -> None:
    tasks = list(product(DISTRIBUTIONS, ROWS, range(options.seeds)))
    rows: list[Row] = []
    for row in in_pool(row_of_fit, tasks):
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
    by_seed = [sum(row["silent"] for row in alike) for alike in grouped(rows, ("seed",)).values()]
    print(
        f"  of {len(samples)} samples split silently: {sum(by_seed) / len(by_seed):.3g} in the "
        f"mean over seeds, {max(by_seed)} with the worst; bar: at most {MOST_SILENT}"
    )
    publish(options.out, "structureless", rows)


def row_of_fit(name: str, n: int, seed: int) -> Row:
    """Return the row of the result that is about one fit."""
    distribution, d = DISTRIBUTIONS[name]
    X = getattr(np.random.default_rng(SAMPLE_SEED), distribution)(size=(n, d))
    found = fit_ours(standardised(X), seed)
    warned = any(SPEAKS.search(text) for text in found["warnings"])
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
        "note": "; ".join(found["warnings"]),
    }
