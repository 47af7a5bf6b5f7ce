"""Which room has a job: for drivers, which alone import estimators."""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.models.estimators import ESTIMATORS
from distsvc.run.algorithms import ROOMS
from distsvc.run.algorithms.algorithm import Room
from distsvc.storage.tables.opening import Table


def begin(job: Job, table: Table) -> Room:
    """Return the room of a job, its parameters checked; `ParameterError` for those at fault."""
    estimator = ESTIMATORS[job.model.algorithm](**job.model.parameters())
    for room in ROOMS:
        found = room.begin(job, table, estimator)
        if found is not None:
            return found
    raise AssertionError(f"no room has algorithm = {job.model.algorithm!r}")
