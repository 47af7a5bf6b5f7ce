"""Clustering of a table, or labelling with the previous run's model."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from distsvc.errors import EmptyInputError, one_line, things
from distsvc.job.config import Job
from distsvc.job.parameters import clusters_wanted
from distsvc.models.rows.numbering import few_clusters_notes
from distsvc.models.rules.joined import clusters_to_join, joined
from distsvc.report.content.parts import relabel
from distsvc.run.algorithms.algorithm import AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.labelling.labeller import PREVIOUS, RULE, Labeller
from distsvc.run.labelling.phase import Labelled, label_table
from distsvc.run.learning.preparation import PREPARATION
from distsvc.run.learning.survey import ExtremeRow, survey_table
from distsvc.run.nights.checks import RunMetrics, reasons_to_refit
from distsvc.run.nights.comparison import DECISION, drift_of, refit_because
from distsvc.run.nights.continuity import Previous, answer_before, ids_of
from distsvc.run.preparing import MAX_NAMED, prepare
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.publishing.lineages import Lineage
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import (
    units_of,
)
from distsvc.storage.rows.usable import no_values_error


def cluster_table(
    steps: Steps,
    job: Job,
    algorithm: AlgorithmJob,
    lineage: Lineage | None = None,
    previous: Previous | None = None,
) -> tuple[Learned, Labelled]:
    """Survey, prepare, fit and label a table; return the learned model and the labelled table."""
    all_rows = algorithm.all_rows or steps.run.plan.unit
    survey = survey_table(steps, algorithm.sample_ranges, all_rows)
    before = None
    if job.continuity.prefer_previous and steps.run.has(PREVIOUS + RULE):
        before = answer_before(steps.run, survey)
    columns = None if before is None else before.columns
    prepared_pilot = prepare(steps, job.preprocess, algorithm, survey, columns)
    if before is not None:
        algorithm.go_on_from(before)
    rule = algorithm.fit(steps, survey)
    pilot_share = len(prepared_pilot) / max(survey.n_rows, 1)
    smallest = (job.model.min_cluster_rows or 0) * pilot_share
    into = clusters_to_join(rule, prepared_pilot, job.model.most_clusters, smallest)
    if into is not None:
        rule = joined(rule, into)
    ids = ids_of(steps, rule, survey, job.continuity, lineage, previous)
    table = steps.run.plan.table
    Labeller.of(rule, ids, table.columns, survey.pilot, prepared_pilot).write(steps.run)
    labelled = label_table(steps, surveyed=survey.lowest)
    sizes, wanted = labelled.counts.sizes.sum(axis=1), clusters_wanted(algorithm.parameters)
    notes = algorithm.engine.notes
    notes.extend(extreme_row_notes(survey.extreme_rows, labelled, table))
    notes.extend(note for note in few_clusters_notes(sizes, wanted) if note not in notes)
    learned = algorithm.learned()
    return (learned if into is None else with_joined(learned, into, job)), labelled


def with_joined(learned: Learned, into: np.ndarray, job: Job) -> Learned:
    """Return the learned model after a merge of clusters, with a note on the merge.

    Cluster c becomes cluster ``into[c]``; `into` is (k,) int32.
    """
    keys = [
        f"model.{name} = {value}"
        for name in ("max_clusters", "min_cluster_rows")
        if (value := getattr(job.model, name)) is not None
    ]
    n = len(into) - int(into.max()) - 1
    note = (
        f"{things(n, 'cluster')} of {len(into)} merged into the nearest, since {' and '.join(keys)}"
    )
    inner = learned.parts

    def parts(run: RunDirectory, pilot: PilotRows) -> Parts:
        ids, found = into.tolist(), inner(run, pilot)
        return found | {name: relabel(part, ids) for name, part in found.items() if part}

    facts = learned.facts
    if "n_clusters" in facts:
        facts = facts | {"n_clusters": int(into.max()) + 1}
    return replace(learned, facts=facts, warnings=[*learned.warnings, note], parts=parts)


def assign_table(
    steps: Steps, job: Job, previous: Previous | None
) -> tuple[Learned, Labelled] | None:
    """Label a table with the previous model; None if the job or drift requires a new model."""
    run = steps.run
    if previous is None or job.model.mode == "refit" or refit_because(run):
        return None
    labelled = label_table(steps, PREVIOUS)
    if not labelled.counts.n_rows:
        raise EmptyInputError(
            f"{run.plan.table.shown}: no row can be used, since each has a missing value"
        )
    why = []
    if job.model.mode == "auto":
        measured = RunMetrics(labelled, drift=drift_of(run, labelled))
        why = reasons_to_refit(job.checks, measured)
    run.write(DECISION, Result({"because": why}))
    if why:
        if names := run.plan.table.without_values:
            raise no_values_error(names, run.plan.table.shown, in_lineage=True)
        steps.progress.event("learns a new model", because="; ".join(why))
        return None
    for name in RULE, PREPARATION:
        run.write(name, run.read(PREVIOUS + name))
    facts = {"learned_by": previous.run_id, "n_clusters": labelled.counts.n_clusters}
    model = previous.model
    learned = Learned(model.algorithm, model.parameters, facts, folder=previous.folder)
    return learned, labelled


def extreme_row_notes(rows: Sequence[ExtremeRow], labelled: Labelled, table: Table) -> list[str]:
    """Return at most one note, which names the extreme rows by id or number.

    If the rule has outliers, the note names the extreme rows that are not outliers.
    """
    if not rows:
        return []
    from distsvc.report.formats import measured  # takes time to import

    ignored, words = labelled.ignored, labelled.labeller.rule.words
    ids = dict(zip(ignored.ignored_rows.tolist(), ignored.ignored_ids.tolist(), strict=True))
    named, inside, units = [], list[str](), units_of(table.features, table.types)
    outliers = set(ignored.ignored_rows[ignored.ignored_outliers].tolist())
    for far in rows:
        name = f"{table.id} {one_line(ids[far.row])}" if ids[far.row] else f"row {far.row}"
        column = table.columns[far.column]
        unit = units.get(column)
        value = measured(far.value, unit) if unit else f"{far.value:,.6g}"
        named.append(f"{name} ({column} = {value})")
        inside += [] if far.row in outliers else [name]
    n = len(rows) - len(inside)
    end = f"; {n} of {len(rows)} {'is an outlier' if n == 1 else 'are outliers'}"
    end += f" (not {truncated(inside, MAX_NAMED)})" if n else ""
    return [
        f"extreme rows: {truncated(named, MAX_NAMED)}; ignored while learning, and labelled like "
        f"any other{end if words.has_outliers and inside else ''}"
    ]
