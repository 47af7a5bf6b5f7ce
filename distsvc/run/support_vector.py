"""Support vector clustering as the model of a job."""

from __future__ import annotations

from typing import Any

import numpy as np

from distsvc.models.checks import seed_of
from distsvc.models.support_vector.boundary_engine import BoundaryEngine
from distsvc.models.support_vector.engines import engine_for
from distsvc.models.support_vector.estimator import SupportVectorClustering
from distsvc.models.support_vector.level_engine import LevelTreeEngine


class SupportVectorModel:
    """The engine that a job's parameters ask for."""

    engine: LevelTreeEngine | BoundaryEngine

    def __init__(self, **parameters: Any):
        self.estimator = SupportVectorClustering(**parameters)

    def begin(self) -> None:
        """Check the parameters."""
        given = self.estimator.get_params()
        self.engine = engine_for(given, seed_of(self.estimator.random_state))

    def get_params(self) -> dict[str, Any]:
        """Return all parameters."""
        return self.estimator.get_params()

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        """Return the key ranges of the sample."""
        return self.engine.key_ranges(n_rows)

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Take the pilot."""
        self.engine.set_pilot(pilot, n_rows)

    def fitted_facts(self) -> dict[str, Any]:
        """Return the numbers that the fit arrived at."""
        return self.engine.fitted_facts()

    @property
    def notes_(self) -> list[str]:
        """Remarks."""
        return self.engine.notes

    @notes_.setter
    def notes_(self, notes: list[str]) -> None:
        self.engine.notes = notes

    @property
    def centre_(self) -> np.ndarray:
        """Mean of the pilot."""
        return self.engine.centre
