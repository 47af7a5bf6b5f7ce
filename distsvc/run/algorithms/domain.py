"""The domain of novelty, drawn for tables with two columns."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from distsvc.models.support_vector.labelling import DecisionFunction
from distsvc.report.content import Sample
from distsvc.report.model_parts import DomainPart
from distsvc.run.directory import RunDirectory
from distsvc.run.preparation import PREPARATION, Preparation

GRID = 120


class Fitted(Protocol):
    """What both engines of support vector clustering know: f, and centred points (n, d) float32."""

    centre: np.ndarray
    decision: DecisionFunction
    equilibria: np.ndarray

    @property
    def support_vectors(self) -> np.ndarray:
        """Of the decision function."""


def domain_part(run: RunDirectory, engine: Fitted, sample: Sample) -> DomainPart | None:
    """Return f on a grid about the drawn rows, support vectors and equilibria, in raw units."""
    if len(run.plan.table.columns) != 2:
        return None
    preparation = Preparation.restored(run.read(PREPARATION))
    drawn = np.column_stack([sample.x, sample.y])
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    x, y = (np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.column_stack([v.ravel() for v in np.meshgrid(x, y)])
    f = engine.decision(preparation(grid)).reshape(GRID, GRID)
    scaling = preparation.scaling

    def raw(Z: np.ndarray) -> list[list[float]]:
        scaled = (Z + engine.centre).astype(np.float32).astype(float)
        return (scaled * scaling.scale + scaling.centre).tolist()

    return DomainPart(
        grid_x=x.tolist(),
        grid_y=y.tolist(),
        f=np.round(f.astype(float), 5).tolist(),
        support_vectors=raw(engine.support_vectors),
        equilibria=raw(engine.equilibria),
    )
