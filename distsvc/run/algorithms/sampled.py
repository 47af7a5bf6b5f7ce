"""The baselines of the papers: fitted in memory on a sample, the whole of a smaller table."""

from __future__ import annotations

from functools import partial
from typing import Any

from distsvc.models.baselines.rules import Centres, Splits
from distsvc.models.baselines.sampled import SampledEngine
from distsvc.run.algorithms.algorithm import (
    Checkpoint,
    Held,
    Job,
    Result,
    Room,
    Rule,
    RunDirectory,
    Sizes,
    Steps,
    Survey,
    Table,
)
from distsvc.run.learning.stream import held_sample, whole_sample

BASELINES = ("bico", "spdc", "depddp", "fuzzy-c-means")
TRAINED = "train"


class Sampled(Room):
    """An estimator that knows nothing of jobs."""

    rules = (Centres, Splits)
    learning = (TRAINED,)

    def __init__(self, engine: SampledEngine):
        self.parameters, self.engine = engine.estimator.get_params(), engine

    @classmethod
    def begin(cls, job: Job, table: Table, estimator: Any) -> Sampled | None:
        """Return the room of a job for one of the baselines."""
        if job.model.algorithm not in BASELINES:
            return None
        estimator.check_parameters()
        engine = SampledEngine(estimator)
        engine.set_width(len(table.columns))
        return cls(engine)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Fit the sample; what labels rows is a rule of a few arrays."""
        trained = steps.work_out(TRAINED, partial(self._train, steps.run))
        self.engine.restore(trained.facts, trained.arrays)
        return self.engine.rule

    def held(self, sizes: Sizes) -> Held:
        """Return the sample, and what estimators make of it: a copy, or a few columns a cluster."""
        from distsvc.models.baselines.bico import BICO, POINTS_A_CLUSTER
        from distsvc.models.baselines.fuzzy import FuzzyCMeans

        clusters = self.parameters.get("n_clusters") or 1
        columns = 5 * clusters if isinstance(self.engine.estimator, FuzzyCMeans) else 0
        own = max(sizes.sample, 8 * columns * sizes.sample_rows)
        if isinstance(self.engine.estimator, BICO):
            own = 2 * sizes.row * (self.engine.estimator.size or POINTS_A_CLUSTER * clusters)
        return Held(held_sample(sizes, own))

    def _train(self, run: RunDirectory, checkpoint: Checkpoint) -> Result:
        X = whole_sample(run)
        self.engine.fit_sample(X, checkpoint)
        return Result(*self.engine.solved(), rows=len(X))
