"""Rows and estimators for the tests of hyperplane trees."""

import itertools

import numpy as np
import pytest

from distsvc import IncrementalMDH

ONE_CLUSTER = "the answer is one cluster: none of the"
GROWTHS = "prune", "forward"
TOO_FEW_LEAVES = "clusters were asked for, but only"

one_cluster_is_fine = pytest.mark.filterwarnings("ignore:the answer is one cluster")
few_leaves_are_fine = pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW_LEAVES}")


def blobs(k=4, d=3, seed=0, n=600):
    """Gaussians in corners of a cube that are ten standard deviations apart."""
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.islice(itertools.product([0.0, 10.0], repeat=d), k)))
    y = rng.integers(k, size=n)
    return corners[y] + rng.normal(size=(n, d)), y


def gaussian(n=600, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def estimator(**kwargs):
    """Return an estimator of two trees without scaling, as all columns have one unit."""
    return IncrementalMDH(**{"n_init": 2, "random_state": 0, "scale": "none", **kwargs})


def state(model):
    """The arrays of a fitted tree and the labels, as bytes."""
    tree = model.cluster_tree_
    names = ("numbers", "V", "thresholds", "spreads", "b", "counts", "sums_of_squares", "splits")
    labels = getattr(model, "labels_", np.zeros(0))
    return [getattr(tree, name).tobytes() for name in names] + [labels.tobytes()]


def learned(tree):
    """The arrays of a growing tree, as bytes."""
    return [getattr(tree, n).tobytes() for n in ("means", "V", "b", "variances", "visits")]
