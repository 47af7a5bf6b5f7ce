"""Labelling with the model of another run, and learning a new one where the table has drifted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

from distsvc.errors import DataError
from distsvc.job.config import Job
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import Pilot, Room, Survey, Table
from distsvc.run.labelling.labeller import PREVIOUS, RULE
from distsvc.run.labelling.phase import LABEL, Labelled, label_table, parts_place
from distsvc.run.learning.preparation import PREPARATION
from distsvc.run.nights.checks import reasons_to_refit
from distsvc.run.nights.drift import DECISION, drift_of, found_of, refit_because
from distsvc.run.nights.previous import Previous
from distsvc.run.work.directory import Result
from distsvc.run.work.phases import Steps


class Published(Room):
    """The model of another run: it labels, and was learned elsewhere."""

    rules: ClassVar[tuple[type[Rule], ...]] = ()
    learning: ClassVar[tuple[str, ...]] = ()

    def __init__(self, previous: Previous):
        self.folder, content = previous.folder, previous.content
        fitted = {"learned_by": previous.run_id, "n_clusters": content["facts"]["n_clusters"]}
        self.parameters = content["parameters"]
        self.engine: Any = SimpleNamespace(notes=[], fitted_facts=lambda: fitted)
        self._algorithm = content["algorithm"]

    @classmethod
    def begin(cls, job: Job, table: Table, estimator: Any) -> None:
        """Return None: no job learns it."""
        return

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Raise an error: there is nothing to learn."""
        raise NotImplementedError

    def algorithm(self, job: Job) -> str:
        """Return the algorithm that the model is by, whatever the job would learn."""
        return str(self._algorithm)


def assign_table(
    steps: Steps, job: Job, previous: Previous | None
) -> tuple[Room, Pilot, Labelled] | None:
    """Label the table with the model of another run, if the job asks for that and it still fits.

    Returns that model as a room, the pilot and what labelling counted; None where a
    model is to be learned: at once, or since a limit on drift is passed.

    Raises
    ------
    DataError
        Every row has missing values, and the model's job drops such rows.

    """
    run = steps.run
    if previous is None or job.model.mode == "refit":
        return None
    if not refit_because(run):
        labelled = label_table(steps, PREVIOUS)
        if not labelled.counts.n_rows:
            raise DataError(f"{run.plan.table.shown} has no rows without a missing value")
        drift = drift_of(run, labelled.counts)
        why = []
        if job.model.mode == "auto":
            why = reasons_to_refit(job.checks, found_of(run, labelled.counts, drift))
        run.write(DECISION, Result({"because": why}))
        if not why:
            for name in RULE, PREPARATION:
                run.write(name, run.read(PREVIOUS + name))
            assert labelled.pilot is not None
            return Published(previous), labelled.pilot, labelled
        steps.progress.event("learns a new model", because="; ".join(why))
    if not run.names(LABEL.name):
        parts_place(run).clear("")  # the labels of the model that does not fit
    return None
