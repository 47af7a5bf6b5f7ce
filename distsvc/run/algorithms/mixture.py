"""Mixture of normals and categories as a job.

1. The survey draws the pilot; the model learns from these rows only.
2. ``train``: the driver searches for the number of components.
3. The mixture, a few arrays, labels the table.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from distsvc.job.config import Job
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.mixture_clustering.rule import ComponentRule
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import TRAINED, AlgorithmJob
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table

MAX_POSTERIORS = 100
"""Maximum number of posterior arrays in memory: all starts of all covariance shapes."""


class MixtureJob(AlgorithmJob):
    """Job of a mixture of normals and categories."""

    rules = (ComponentRule,)
    engine: MixtureEngine

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: dict[str, Any]) -> MixtureJob | None:
        """Return the algorithm of a job for a mixture, else None."""
        if job.model.algorithm != "mixture":
            return None
        return cls(parameters, MixtureEngine(parameters, job.model.seed))

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Fit the pilot on the driver."""
        trained = steps.work_out(TRAINED, partial(self._train, len(survey.pilot)))
        self.engine.restore(trained.facts, trained.arrays)
        return self.engine.rule

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of the pilot, its copies in the mixture, and posteriors."""
        rows = min(PILOT_ROWS, sizes.sample_rows)
        own = 6.0 * sizes.row_bytes * rows + 8.0 * MAX_POSTERIORS * rows
        return Held({"the pilot, and posteriors": own})

    def _train(self, n_rows: int, checkpoint: Checkpoint) -> Result:
        self.engine.learn()
        return Result(*self.engine.solved(), rows=n_rows)
