"""The algorithm of a job. Only drivers import this module: it imports the estimators."""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.models.estimators import ESTIMATORS
from distsvc.run.algorithms import ALGORITHMS
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.storage.rows.blocks import Table


def begin(job: Job, table: Table) -> AlgorithmJob:
    """Return the algorithm of a job, its parameters checked; `ParameterError` for a wrong one."""
    estimator = ESTIMATORS[job.model.algorithm](**job.model.parameters())
    for kind in ALGORITHMS:
        algorithm = kind.begin(job, table, estimator)
        if algorithm is not None:
            return algorithm
    raise AssertionError(f"no algorithm of a job is {job.model.algorithm!r}")
