"""Small tables, jobs that cluster them by level trees, and what a run leaves."""

import numpy as np

from distsvc.run.job import run_job
from tests.published_files import published_file
from tests.small_runs import small_job

MODEL = {"effort": "fast", "max_iter": 2000}
N = 900
CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.5]])


def blobs(d, n=N):
    """Three clusters in the first two of d columns of unlike scale, and their classes."""
    random = np.random.default_rng(d)
    y = random.integers(0, 3, n)
    X = random.normal(0, 0.4, (n, d))
    X[:, :2] += CENTRES[y]
    return X * 10.0 ** np.arange(d) + 7.0, y


def run(table, out, model=None, cut=(100, 300), **sections):
    """Run a job in this process; a cut has the rows of a block and of a partition."""
    cluster = {"block_rows": cut[0], "partition_rows": cut[1]}
    output = {"path": str(out)}
    given = MODEL | (model or {})
    return run_job(small_job(table, given, cluster=cluster, output=output, **sections))


def model_of(out):
    with np.load(published_file(out, "arrays.npz"), allow_pickle=False) as arrays:
        return dict(arrays)
