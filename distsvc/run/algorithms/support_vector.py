"""The domain of novelty of support vector clustering, for the page."""

from __future__ import annotations

import numpy as np

from distsvc.models.support_vector.boundary.base import SupportVectorEngine
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import DomainPart
from distsvc.report.content.report import Sample
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.directory import RunDirectory


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
