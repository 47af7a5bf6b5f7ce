"""How often iMDH splits samples without clusters: Gaussians, uniforms, exponentials."""

from __future__ import annotations

import warnings
from argparse import Namespace
from itertools import product

import numpy as np

from benchmarks.measure import Row, publish, show, standardised

DISTRIBUTIONS = ("normal", "random", "exponential")
COLUMNS = (1, 2, 5, 10, 40)
ROWS = (500, 1000, 3000, 10_000)
SAMPLES = 8


def run(options: Namespace) -> None:
    from distsvc import IncrementalMDH

    rows: list[Row] = []
    for name, d in product(DISTRIBUTIONS, COLUMNS):
        clusters, clearest = [], []
        for n, seed in product(ROWS, range(SAMPLES)):
            X = standardised(getattr(np.random.default_rng([d, n, seed]), name)(size=(n, d)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that the answer is one cluster
                model = IncrementalMDH(random_state=seed).fit(X)
            clusters.append(model.n_clusters_)
            clearest.append(model.clearest_valley_)
        rows.append(
            {
                "distribution": "uniform" if name == "random" else name,
                "d": d,
                "samples": len(clusters),
                "split": sum(k > 1 for k in clusters),
                "highest_z": max(clearest),
            }
        )
    show("Samples of 500 to 10,000 rows that were split", rows)
    print(f"  {sum(row['split'] for row in rows)} of {sum(row['samples'] for row in rows)}")
    publish(options.out, "mdh_null", rows)
