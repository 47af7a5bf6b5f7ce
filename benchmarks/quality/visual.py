"""The papers' visual experiments."""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from benchmarks.harness.data import standardised
from benchmarks.harness.measure import agreement, publish, timed
from benchmarks.harness.rows import show

EXPECTED = {"rings": 3, "moons": 2, "gaussians3": 3, "gaussians4": 4}


def visual(options: Namespace) -> None:
    """Repeat the papers' visual experiments: rings, moons, mixtures of three and four Gaussians.

    Tables and model parameters are the demo's; every seed makes a new table and a new model.
    Columns are standardised, as a job does by default.
    """
    from distsvc import SupportVectorClustering
    from distsvc.published.demo import JOBS, make_table

    rows = []
    for name, expected in EXPECTED.items():
        for seed in range(options.seeds):
            table = make_table(name, seed)
            y = table["label"].to_numpy()
            X = standardised(np.column_stack([table[c].to_numpy() for c in ("x", "y")]))
            model = SupportVectorClustering(**JOBS[name], random_state=seed)
            fit = timed(model.fit_predict, X)
            rows.append(
                {
                    "data": name,
                    "seed": seed,
                    "clusters": model.n_clusters_,
                    "expected": expected,
                    "ari": agreement(y, fit.value)["ari"],
                    "outside": float((model.decision_function(X) < 0.0).mean()),
                    "warnings": len(fit.warnings),
                }
            )
    show("Visual experiments; bar: the expected clusters, ARI >= 0.99", rows)
    publish(options.out, "visual", rows)
