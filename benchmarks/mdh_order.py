"""Class-sorted against shuffled rows.

`fit` learns from the rows in an order of its own, so that a table sorted by class should be
clustered as well as a shuffled one. The sorted table is the same for all random states; the
shuffled ones differ.
"""

from __future__ import annotations

from argparse import Namespace
from statistics import mean

import numpy as np

from benchmarks.mdh_table import fitted_scores, load_all, permutations, settings, spread
from benchmarks.measure import Row, publish, show, standardised

SETS = ("pendigits", "optdigits", "kddcup")


def run(options: Namespace) -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        rows = [row for name in options.sets or SETS for row in rows_of_set(options, name)]
    show("NMI of iMDH by order of rows", rows)
    publish(options.out, "mdh_order", rows)


def rows_of_set(options: Namespace, name: str) -> list[Row]:
    X, y = load_all(options.data, name)
    X = standardised(X)
    by_class = np.argsort(y, kind="stable")
    seeds = range(permutations(options, name))
    rows = []
    for setting, parameters in settings().items():
        found: dict[str, list[float]] = {"shuffled": [], "sorted": []}
        for seed in seeds:
            shuffle = np.random.default_rng(seed).permutation(len(X))
            for order, places in {"shuffled": shuffle, "sorted": by_class}.items():
                scores = fitted_scores(X[places], y[places], seed, None, parameters)
                found[order].append(scores["nmi"])
        sd = {order: spread(nmi) for order, nmi in found.items()}
        squares = [value**2 for value in sd.values() if value is not None]
        rows.append(
            {
                "set": name,
                "n": len(X),
                "setting": setting,
                "shuffled": mean(found["shuffled"]),
                "sorted": mean(found["sorted"]),
                "difference": mean(found["sorted"]) - mean(found["shuffled"]),
                "standard_error": (sum(squares) / len(seeds)) ** 0.5 if squares else None,
                "shuffled_sd": sd["shuffled"],
                "sorted_sd": sd["sorted"],
                "permutations": len(seeds),
            }
        )
    return rows
