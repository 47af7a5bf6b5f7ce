"""The papers' visual experiments: rings, moons, mixtures of three and four Gaussians.

Tables and model parameters are the demo's; every seed makes a new table and a new model. Columns
are standardised, as a job does by default.
"""

from __future__ import annotations

import warnings
from argparse import Namespace

import numpy as np

from benchmarks.measure import publish, show, standardised

EXPECTED = {"rings": 3, "moons": 2, "gaussians3": 3, "gaussians4": 4}


def run(options: Namespace) -> None:
    from distsvc import SupportVectorClustering
    from distsvc.metrics import clustering_report
    from distsvc.run.demo import JOBS, make_table

    rows = []
    for name, expected in EXPECTED.items():
        for seed in range(options.seeds):
            table = make_table(name, seed)
            y = table["label"].to_numpy()
            X = standardised(np.column_stack([table[c].to_numpy() for c in ("x", "y")]))
            model = SupportVectorClustering(**JOBS[name], random_state=seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                labels = model.fit_predict(X)
            index = clustering_report(X, labels, y)["adjusted_rand_index"]
            rows.append(
                {
                    "data": name,
                    "seed": seed,
                    "clusters": model.n_clusters_,
                    "expected": expected,
                    "ari": index,
                    "outside": float((model.decision_function(X) < 0.0).mean()),
                    "warnings": len(caught),
                }
            )
    show("Visual experiments; bar: the expected clusters, ARI >= 0.99", rows)
    publish(options.out, "visual", rows)
