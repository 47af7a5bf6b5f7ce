"""The published settings beside a naive program of the papers' pseudo code."""

from __future__ import annotations

import warnings
from argparse import Namespace
from itertools import product

import numpy as np

from benchmarks.harness.data import scaled
from benchmarks.harness.measure import publish
from benchmarks.harness.rows import show
from benchmarks.harness.systems import BUDGET, POWERS

SETS = (
    "aggregation", "breast_cancer", "compound", "flame", "glass", "iris", "jain", "pathbased",
    "spiral",
)  # fmt: skip
STRATEGIES = ("removal", "project-nearest", "project-random")
EPSILONS = (0.01, 0.1)
MOST_ROWS = 600
SEED = 0


def printed(options: Namespace) -> None:
    """Partitions of `SupportVectorClustering.published` that differ from the pseudo code's.

    Nine sets, at most 600 rows of each, 36 points of the papers' grid, three budget strategies, two
    values of epsilon; one stream of drawn rows for both. Rows whose two nearest boundary rows are
    equally near count as equal: the papers do not say which of these labels a row.
    """
    rows = []
    for name in options.sets or SETS:
        X = scaled(name, options.data)[0]
        X = X[np.random.default_rng(SEED).permutation(len(X))[:MOST_ROWS]]
        for strategy, epsilon in product(STRATEGIES, EPSILONS):
            outcomes = [outcome(X, *point, strategy, epsilon) for point in product(POWERS, POWERS)]
            fitted = [one for one in outcomes if one is not None]
            rows.append(
                {
                    "data": name,
                    "n": len(X),
                    "strategy": strategy,
                    "epsilon": epsilon,
                    "fits": len(outcomes),
                    "empty": len(outcomes) - len(fitted),
                    "equal": sum(ari == 1.0 for ari in fitted),
                    "least_ari": min(fitted, default=1.0),
                }
            )
            show(f"{name}, {strategy}", rows[-1:])
    show("Fits with an empty boundary in both programs, and equal partitions of the others", rows)
    publish(options.out, "printed", rows)


def outcome(X: np.ndarray, gamma: float, C: float, strategy: str, epsilon: float) -> float | None:
    """Return the adjusted Rand index of both partitions of X; None where both have no boundary."""
    from sklearn.metrics import adjusted_rand_score

    from distsvc import SupportVectorClustering
    from distsvc.errors import ParameterError
    from distsvc.models.rows.sampling import row_keys
    from distsvc.models.support_vector.boundary.printed import drawn_rows, other_slots
    from tests import reference

    model = SupportVectorClustering.published(
        gamma=gamma, C=C, maintenance=strategy, budget=BUDGET, epsilon=epsilon, random_state=SEED
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = model.fit(X).labels_
        except ParameterError:
            found = None
    order = np.argsort(row_keys(SEED, np.arange(len(X))))
    Z = np.float32(X - X[order].mean(axis=0))
    given = (gamma, C, BUDGET, strategy, model.projection_size, model.theta)
    streams = drawn_rows(len(X), SEED), other_slots(SEED)
    alpha, _ = reference.printed_descent(Z[order], *given, *streams, most=model.max_iter)
    support, weights = Z[order][list(alpha)], np.array(list(alpha.values()))
    naive, certain = reference.printed_clusters(Z, support, weights, gamma, model.epsilon)
    if naive is None or found is None:
        return None if naive is None and found is None else -1.0
    return float(adjusted_rand_score(naive[certain], found[certain]))
