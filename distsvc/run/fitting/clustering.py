"""Clusters a table, or labels it with the model of the previous run."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from distsvc.errors import EmptyInputError
from distsvc.job.config import Job
from distsvc.models.rules.joined import clusters_to_join, joined
from distsvc.report.content.parts import ReportPart, relabel
from distsvc.run.algorithms.algorithm import AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.fitting.preparing import prepare
from distsvc.run.labelling.labeller import PREVIOUS, RULE, Labeller
from distsvc.run.labelling.phase import Labelled, label_table
from distsvc.run.learning.preparation import PREPARATION
from distsvc.run.learning.survey import survey_table
from distsvc.run.nights.checks import RunMetrics, reasons_to_refit
from distsvc.run.nights.comparison import DECISION, drift_of, refit_because
from distsvc.run.nights.continuity import ids_of, labels_before
from distsvc.run.nights.previous import Previous
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.publishing.lineages import Lineage


def cluster_table(
    steps: Steps, job: Job, algorithm: AlgorithmJob, lineage: Lineage | None = None
) -> tuple[Learned, Labelled]:
    """Survey, prepare, fit and label a table; return the answer and the labelled table."""
    all_rows = algorithm.all_rows or steps.run.plan.unit
    survey = survey_table(steps, algorithm.sample_ranges, all_rows)
    prepared_pilot = prepare(steps, job.preprocess, algorithm, survey)
    if job.continuity.prefer_previous and steps.run.has(PREVIOUS + RULE):
        before = labels_before(steps.run, survey)
        if before is not None:
            algorithm.go_on_from(before)
    rule = algorithm.fit(steps, survey)
    pilot_share = len(prepared_pilot) / max(survey.n_rows, 1)
    smallest = (job.model.min_cluster_rows or 0) * pilot_share
    into = clusters_to_join(rule, prepared_pilot, job.model.most_clusters, smallest)
    if into is not None:
        rule = joined(rule, into)
    ids = ids_of(steps, rule, survey, job.continuity, lineage)
    columns = steps.run.plan.table.columns
    Labeller.of(rule, ids, columns, survey.pilot, prepared_pilot).write(steps.run)
    labelled = label_table(steps, surveyed=survey.lowest)
    learned = algorithm.learned(job)
    return (learned if into is None else with_joined(learned, into, job)), labelled


def with_joined(learned: Learned, into: np.ndarray, job: Job) -> Learned:
    """Return an answer with cluster c joined into cluster ``into[c]``, (k,) int32."""
    keys = [
        f"model.{name} = {value}"
        for name in ("max_clusters", "min_cluster_rows")
        if (value := getattr(job.model, name)) is not None
    ]
    n = len(into) - int(into.max()) - 1
    note = (
        f"{n} cluster{'' if n == 1 else 's'} of {len(into)} went with the nearest other one, since "
        f"{' and '.join(keys)}"
    )
    inner = learned.parts

    def parts(run: RunDirectory, pilot: PilotRows) -> Parts:
        found = inner(run, pilot)
        ids, given = into.tolist(), cast("dict[str, ReportPart | None]", found)
        known = {name: relabel(part, ids) for name, part in given.items() if part}
        return cast(Parts, {**found, **known})

    facts = learned.facts
    if "n_clusters" in facts:
        facts = facts | {"n_clusters": int(into.max()) + 1}
    return replace(learned, facts=facts, warnings=[*learned.warnings, note], parts=parts)


def assign_table(
    steps: Steps, job: Job, previous: Previous | None
) -> tuple[Learned, Labelled] | None:
    """Label a table with the previous model; None if the job or its drift needs a new model.

    `EmptyInputError` if every row has missing values that the model's job drops.
    """
    run = steps.run
    if previous is None or job.model.mode == "refit" or refit_because(run):
        return None
    labelled = label_table(steps, PREVIOUS)
    if not labelled.counts.n_rows:
        raise EmptyInputError(f"{run.plan.table.shown} has no rows without a missing value")
    why = []
    if job.model.mode == "auto":
        measured = RunMetrics(labelled, drift=drift_of(run, labelled))
        why = reasons_to_refit(job.checks, measured)
    run.write(DECISION, Result({"because": why}))
    if why:
        steps.progress.event("learns a new model", because="; ".join(why))
        return None
    for name in RULE, PREPARATION:
        run.write(name, run.read(PREVIOUS + name))
    facts = {"learned_by": previous.run_id, "n_clusters": labelled.counts.n_clusters}
    model = previous.model
    learned = Learned(model.algorithm, model.parameters, facts, folder=previous.folder)
    return learned, labelled
