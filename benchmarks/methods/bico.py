"""BICO beside k-means on all rows."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.harness.data import scaled, standardised
from benchmarks.harness.measure import publish, timed
from benchmarks.harness.rows import Row, show

BAR = 1.1
SETS = ("shuttle", "letter", "gaussians")
BLOCK_ROWS = 8192
LARGE = (581_012, 54, 7)
MOST_SEEDS = {"gaussians": 2}
RESTARTS = {"gaussians": 3}


def bico(options: Namespace) -> None:
    """Cost of BICO's centres, found on 200 k clustering features, against k-means on all rows.

    Shuttle and letter, all rows, standardised, k of their classes; and 581,012 rows of 54 features
    (the size of covertype) made here: seven Gaussians of unequal sizes, spreads and dimensions,
    with one row in a hundred spread evenly. The cost is the sum of squared distances of all rows to
    the nearest centre. The peer is scikit-learn's KMeans on all rows with 10 restarts by k-means++,
    3 for the large set. BICO clusters its coreset with 10 restarts. Every seed is another fit and,
    for BICO, another order of the rows. Seconds are of the processor.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    rows = []
    for name in SETS:
        if options.sets is None or name in options.sets:
            X, k = read(name, options.data)
            seeds = min(options.seeds, MOST_SEEDS.get(name, options.seeds))
            rows.append(measured(name, X, k, seeds))
            show(name, rows[-1:])
    show("Cost of BICO relative to k-means on all rows, bar 1.1", rows)
    publish(options.out, "bico", rows)


def read(name: str, data: Path) -> tuple[np.ndarray, int]:
    """Return the rows of a set, standardised, and the number of clusters."""
    if name == "gaussians":
        return standardised(gaussians(*LARGE)), LARGE[2]
    X, y = scaled(name, data)
    return X, len(np.unique(y))


def gaussians(n: int, d: int, k: int, seed: int = 0, noise: float = 0.01) -> np.ndarray:
    """Return rows (n, d) of k Gaussians, each of another size and covariance, and even noise."""
    rng = np.random.default_rng(seed)
    shares = 2.0 ** -np.arange(k)
    component = rng.choice(k, size=n, p=shares / shares.sum())
    centres = rng.normal(scale=2.0, size=(k, d))
    X = np.empty((n, d))
    for c in range(k):
        rows = np.flatnonzero(component == c)
        spread = rng.uniform(0.3, 2.0, size=d)
        latent = rng.normal(size=(5, d))
        X[rows] = rng.normal(size=(len(rows), d)) * spread + centres[c]
        X[rows] += rng.normal(size=(len(rows), 5)) @ latent
    far = np.flatnonzero(rng.random(n) < noise)
    X[far] = rng.uniform(X.min(axis=0), X.max(axis=0), size=(len(far), d))
    return X


def measured(name: str, X: np.ndarray, k: int, seeds: int) -> Row:
    """Return the result's row about one set."""
    from sklearn.cluster import KMeans

    from distsvc.baselines import BICO

    BICO(2, size=10).fit(X[:100])
    restarts = RESTARTS.get(name, 10)
    theirs, ours, features = [], [], []
    seconds: dict[str, list[float]] = {"stream": [], "solve": [], "kmeans": []}
    for seed in range(seeds):
        shuffled = X[np.random.default_rng(seed).permutation(len(X))]
        model, peer = BICO(k, random_state=seed), KMeans(k, n_init=restarts, random_state=seed)
        seconds["stream"].append(timed(model.partial_fit, shuffled).cpu_seconds)
        seconds["solve"].append(timed(getattr, model, "cluster_centers_").cpu_seconds)
        seconds["kmeans"].append(timed(peer.fit, X).cpu_seconds)
        ours.append(cost(X, model.cluster_centers_))
        theirs.append(cost(X, peer.cluster_centers_))
        features.append(len(model.coreset_weights_))
    return {
        "set": name,
        "n": len(X),
        "d": X.shape[1],
        "k": k,
        "size": 200 * k,
        "features": mean(features),
        "bico": mean(ours),
        "kmeans": mean(theirs),
        "ratio": mean(ours) / mean(theirs),
        "ratio_worst": max(ours) / min(theirs),
        "bar": BAR,
        "restarts": restarts,
        "seeds": seeds,
        "stream_s": mean(seconds["stream"]),
        "solve_s": mean(seconds["solve"]),
        "kmeans_s": mean(seconds["kmeans"]),
    }


def cost(X: np.ndarray, centres: np.ndarray) -> float:
    """Return the sum of squared distances of the rows X (n, d) to the nearest centre (k, d)."""
    from scipy.spatial.distance import cdist

    parts = (X[first : first + BLOCK_ROWS] for first in range(0, len(X), BLOCK_ROWS))
    return float(sum(cdist(part, centres, "sqeuclidean").min(axis=1).sum() for part in parts))
