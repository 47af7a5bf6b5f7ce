"""Common part of both kinds of support vector clustering as a job."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from distsvc.job.config import Job
from distsvc.job.parameters import COMPOSED, Given, composed
from distsvc.models.support_vector.boundary.base import SupportVectorEngine
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import DomainPart
from distsvc.report.content.report import Sample
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.rows.blocks import Table


class SupportVectorJob(AlgorithmJob):
    """Support vector clustering with one of the two engines."""

    engine_type: ClassVar[type[SupportVectorEngine]]
    engine: SupportVectorEngine

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: Given) -> Self | None:
        """Return the algorithm of a job with this engine, else None."""
        from distsvc.models.support_vector.engines import engine_for

        algorithm = job.model.algorithm
        if algorithm not in ("support-vector", *COMPOSED):
            return None
        whole = composed(algorithm, parameters) if algorithm in COMPOSED else parameters
        engine = engine_for(whole, job.model.seed)
        return cls(parameters, engine) if type(engine) is cls.engine_type else None


def domain_part(
    run: RunDirectory, engine: SupportVectorEngine, sample: Sample
) -> DomainPart | None:
    """Return f on a grid about the drawn rows, support vectors and equilibria, in raw units."""
    if len(run.plan.table.columns) != 2:
        return None
    preparation = Preparation.read(run)
    drawn = np.column_stack([sample.x, sample.y])
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    n = PAGE_LIMITS.grid_points
    x, y = (np.linspace(a, b, n) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.column_stack([v.ravel() for v in np.meshgrid(x, y)])
    f = engine.rule.unrounded_scores(preparation(grid)).reshape(n, n)
    if f.max() > 0.0:
        # Lower values would pull the drawn boundary inwards: f is interpolated between grid points.
        f = np.maximum(f, -3.0 * f.max())
    scaling = preparation.scaling

    def raw(Z: np.ndarray) -> list[list[float]]:
        scaled = (Z + engine.centre).astype(np.float32).astype(float)
        rows: list[list[float]] = scaling.raw(scaled).tolist()
        return rows

    return DomainPart(
        grid_x=x.tolist(),
        grid_y=y.tolist(),
        f=np.round(f.astype(float), 5).tolist(),
        support_vectors=raw(engine.support_vectors),
        equilibria=raw(engine.equilibria),
    )
