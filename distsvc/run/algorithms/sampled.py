"""Algorithms that the driver trains on a sample in memory: the papers' baselines, and mixtures.

1. The survey draws a sample, or all of a smaller table; a mixture learns from the pilot only.
2. ``train``: the driver fits the estimator.
3. The rule, a few arrays, labels the table.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from distsvc.job.config import Job
from distsvc.models.baselines.rules import Centres, Splits
from distsvc.models.baselines.sampled import SampledEngine
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.mixture_clustering.rule import ComponentRule
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import TRAINED, AlgorithmJob
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.stream import held_sample, whole_sample
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table


class Sampled(AlgorithmJob):
    """Job of an estimator in memory."""

    rules = (Centres, Splits)
    engine: SampledEngine

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: dict[str, Any]) -> Sampled | None:
        """Return the algorithm of a job for any baseline, else None."""
        from distsvc.models.baselines.estimator import Baseline
        from distsvc.models.estimators import ESTIMATORS

        kind = ESTIMATORS.get(job.model.algorithm)
        if kind is None or not issubclass(kind, Baseline):
            return None
        estimator = kind(**parameters)
        estimator.check_parameters()
        engine = SampledEngine(estimator)
        engine.set_width(len(table.columns))
        return cls(parameters, engine)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Fit the estimator to the sample and return its rule."""
        trained = steps.work_out(TRAINED, partial(self._train, steps.run))
        self.engine.restore(trained.facts, trained.arrays)
        return self.engine.rule

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of the sample, and of the estimator's copy or cluster columns."""
        from distsvc.models.baselines.bico import BICO, POINTS_A_CLUSTER
        from distsvc.models.baselines.fuzzy import FuzzyCMeans

        clusters = self.parameters.get("n_clusters") or 1
        columns = 5 * clusters if isinstance(self.engine.estimator, FuzzyCMeans) else 0
        own = max(sizes.sample, 8 * columns * sizes.sample_rows)
        if isinstance(self.engine.estimator, BICO):
            own = 2 * sizes.row_bytes * (self.engine.estimator.size or POINTS_A_CLUSTER * clusters)
        return Held(held_sample(sizes, own))

    def _train(self, run: RunDirectory, checkpoint: Checkpoint) -> Result:
        X = whole_sample(run)
        self.engine.fit_sample(X)
        return Result(*self.engine.solved(), rows=len(X))


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
        # At most 100 arrays of posteriors: all starts of all shapes of covariances.
        own = 6.0 * sizes.row_bytes * rows + 8.0 * 100 * rows
        return Held({"the pilot, and posteriors": own})

    def _train(self, n_rows: int, checkpoint: Checkpoint) -> Result:
        self.engine.learn()
        return Result(*self.engine.solved(), rows=n_rows)
