"""Labelling with the model of another run, and learning a new one where the table has drifted."""

from __future__ import annotations

from distsvc.errors import EmptyInputError
from distsvc.job.config import Job
from distsvc.run.algorithms.algorithm import Learned
from distsvc.run.labelling.labeller import PREVIOUS, RULE
from distsvc.run.labelling.phase import Labelled, label_table
from distsvc.run.learning.preparation import PREPARATION
from distsvc.run.nights.checks import Measured, reasons_to_refit
from distsvc.run.nights.drift import DECISION, drift_of, refit_because
from distsvc.run.nights.previous import Previous
from distsvc.run.work.directory import Result
from distsvc.run.work.phases import Steps


def assign_table(
    steps: Steps, job: Job, previous: Previous | None
) -> tuple[Learned, Labelled] | None:
    """Label the table with the model of another run, if the job asks for that and it still fits.

    Returns the same as `cluster_table`; None where a model is to be learned: at once, or because
    the table passes a limit on drift.

    `EmptyInputError` where every row has missing values, and the model's job drops such rows.
    """
    run = steps.run
    if previous is None or job.model.mode == "refit":
        return None
    if not refit_because(run):
        labelled = label_table(steps, PREVIOUS)
        if not labelled.counts.n_rows:
            raise EmptyInputError(f"{run.plan.table.shown} has no rows without a missing value")
        why = []
        if job.model.mode == "auto":
            measured = Measured(labelled, drift=drift_of(run, labelled))
            why = reasons_to_refit(job.checks, measured)
        run.write(DECISION, Result({"because": why}))
        if not why:
            for name in RULE, PREPARATION:
                run.write(name, run.read(PREVIOUS + name))
            facts = {"learned_by": previous.run_id, "n_clusters": labelled.counts.n_clusters}
            model = previous.model
            learned = Learned(model.algorithm, model.parameters, facts, folder=previous.folder)
            return learned, labelled
        steps.progress.event("learns a new model", because="; ".join(why))
    return None
