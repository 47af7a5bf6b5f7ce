"""Choice of a job's algorithm by its parameters."""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.job.parameters import completed
from distsvc.run.algorithms import ALGORITHMS
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.storage.rows.blocks import Table


def begin(job: Job, table: Table) -> AlgorithmJob:
    """Return the algorithm of a job with checked parameters; ParameterError for invalid ones."""
    parameters = completed(job.model.algorithm, job.model.parameters())
    for kind in ALGORITHMS:
        algorithm = kind.begin(job, table, parameters)
        if algorithm is not None:
            return algorithm
    raise AssertionError(f"no algorithm of a job is {job.model.algorithm!r}")
