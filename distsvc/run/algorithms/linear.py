"""Linear one-class models: a hyperplane or a ball with most rows inside.

1. ``train``: the driver solves the sample in memory, or all of a smaller table.
2. ``begin``: one reading gives every row of a larger table its first alpha.
3. ``pass``, repeatedly: the driver descends on few rows, and a reading finds the next ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from distsvc.job.config import Job, PreprocessConfig
from distsvc.job.parameters import check_parameters
from distsvc.models.linear.engine import MEMORY_BYTES, BallEngine, LinearEngine, OneClassEngine
from distsvc.models.linear.rule import BallRule, OneClassRule
from distsvc.models.linear.working_set import working_rows
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import TRAINED, AlgorithmJob
from distsvc.run.algorithms.linear_passes import descend_table
from distsvc.run.learning.preparation import Preparation, prepared
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.stream import held_sample, whole_sample
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.sources import source_of

PROBLEMS: dict[str, type[LinearEngine]] = {
    "linear-one-class": OneClassEngine,
    "linear-svdd": BallEngine,
}
KEEPS_ZEROS = PreprocessConfig(scale="none", missing="error")

VECTORS = 14
"""Number of the solver's vectors of sample length: alpha, gradients, squares, orders and copies."""


class Linear(AlgorithmJob):
    """Two problems with one solver; `PROBLEMS` has their engines."""

    rules = (OneClassRule, BallRule)
    all_rows = True  # nu is a share of them
    readings = ("begin", "pass")
    engine: LinearEngine

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: dict[str, Any]) -> Linear | None:
        """Return the algorithm of a job for a linear one-class model, else None."""
        if job.model.algorithm not in PROBLEMS:
            return None
        check_parameters(job.model.algorithm, parameters)
        given = job.preprocess.model_copy(update={"missing": job.missing})
        X = source_of(table).sparse_rows(table) if given == KEEPS_ZEROS else None
        sparse = X is not None and 12 * X.nnz <= MEMORY_BYTES
        engine = PROBLEMS[job.model.algorithm](parameters, job.model.seed)
        engine.set_width(len(table.columns), sparse)
        return cls(parameters, engine)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Solve the sample in memory.

        If it is not the whole table, continue with passes over all rows.
        """
        engine, run = self.engine, steps.run
        trained = steps.work_out(TRAINED, partial(self._train, run))
        engine.restore(trained.facts, trained.arrays)
        if trained.facts["n_rows"] < survey.n_rows:
            descend_table(steps, engine, survey.n_rows)
        if not engine.solution.converged:
            engine.notes.append(
                f"training ended before its tolerance, with a violation of {engine.violation:.2g}; "
                "raise max_iter or tol"
            )
        return engine.rule(self._mean(run, survey))

    def _mean(self, run: RunDirectory, survey: Survey) -> np.ndarray:
        """Return the mean (d,) of the prepared rows, or of the pilot's if scaling is not linear."""
        if not Preparation.read(run).scaling.is_linear:
            return prepared(run, survey.pilot).mean(axis=0, dtype=np.float64)
        return prepared(run, survey.sums.mean_and_variance()[0][None, :])[0]

    def _train(self, run: RunDirectory, checkpoint: Checkpoint) -> Result:
        engine, table = self.engine, run.plan.table
        Z = source_of(table).sparse_rows(table) if engine.sparse else whole_sample(run)
        engine.fit_rows(Z, checkpoint)
        facts, arrays = engine.solved()
        return Result(facts | {"n_rows": Z.shape[0]}, arrays, rows=Z.shape[0])

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of rows with the solver's vectors, and of lists of candidates.

        A ball's rows are centred, which needs a copy.
        """
        if self.engine.sparse:
            rows = min(2.0 * MEMORY_BYTES, 24.0 * sizes.n_rows * sizes.n_columns)
            return Held({"sparse rows": rows, "the solver's vectors": VECTORS * 8 * sizes.n_rows})
        copied = sizes.sample if self.engine.is_ball else 0
        own = copied + VECTORS * 8 * sizes.sample_rows
        lists = 8.0 * min(working_rows(sizes.n_columns), sizes.n_rows) * (sizes.row_bytes + 24)
        if sizes.sample_rows >= sizes.n_rows:
            lists = 0.0
        alpha = 2.0 * 8 * sizes.partition_rows if lists else 0.0
        worker = {"lists of candidates": lists, "alpha of a partition": alpha}
        return Held(held_sample(sizes, max(own, 2 * lists)), worker)
