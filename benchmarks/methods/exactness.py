"""The exact solver beside another one."""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from benchmarks.harness.data import scaled
from benchmarks.harness.measure import publish, timed
from benchmarks.harness.rows import show

SETS = ("iris", "glass", "aggregation")
NUS = (0.1, 0.3, 0.5)
GAMMA = 0.5


def exactness(options: Namespace) -> None:
    """Difference of the exact solver from scikit-learn's `OneClassSVM`, through C = 1 / (nu rho).

    Both see standardised columns. The one-class SVM's decision value divided by its offset is f.
    """
    from sklearn.svm import OneClassSVM

    from distsvc import SupportVectorClustering

    rows = []
    for name in options.sets or SETS:
        X = scaled(name, options.data)[0]
        for nu in NUS:
            machine = OneClassSVM(gamma=GAMMA, nu=nu, tol=1e-10).fit(X)
            offset = float(machine.offset_[0])
            rho = offset / (nu * len(X))  # for coefficients that add up to 1
            C = 1.0 / (nu * rho)
            theirs = machine.decision_function(X) / offset
            model = SupportVectorClustering(GAMMA, C=C, solver="exact", random_state=0)
            ours = timed(model.fit, X).value.decision_function(X)
            difference = np.abs(ours - theirs)
            rows.append(
                {
                    "data": name,
                    "n": len(X),
                    "gamma": GAMMA,
                    "nu": nu,
                    "C": C,
                    "of_largest_f": float(difference.max() / np.abs(theirs).max()),
                    "of_w_phi": float((difference / (theirs + 1.0)).max()),
                    "sweeps": model.n_iter_,
                }
            )
    show("Largest difference of f, relative to max |f| and, row by row, to f + 1; bar 1e-4", rows)
    publish(options.out, "exactness", rows)
