"""Learning from a table and labelling it: survey, prepare, fit, name the clusters, label."""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.run.algorithms.algorithm import Learned, Learner
from distsvc.run.fitting.preparing import prepare
from distsvc.run.labelling.labeller import PREVIOUS, RULE, Labeller
from distsvc.run.labelling.phase import Labelled, label_table
from distsvc.run.learning.survey import survey_table
from distsvc.run.nights.continuity import ids_of, labels_before
from distsvc.run.work.phases import Steps
from distsvc.storage.publishing.lineages import Lineage


def cluster_table(
    steps: Steps, job: Job, algorithm: Learner, lineage: Lineage | None = None
) -> tuple[Learned, Labelled]:
    """Cluster a table; return the description of the answer, and the labelled table.

    The table is read once for its statistics and a random sample (twice where rows are left out or
    set aside), and once to label it; some algorithms read it in between.
    """
    all_rows = algorithm.all_rows or steps.run.plan.unit
    survey = survey_table(steps, algorithm.sample_ranges, all_rows)
    prepared_pilot = prepare(steps, job.preprocess, algorithm, survey)
    if job.continuity.prefer_previous and steps.run.has(PREVIOUS + RULE):
        before = labels_before(steps.run, survey)
        if before is not None:
            algorithm.go_on_from(before)
    rule = algorithm.fit(steps, survey)
    ids = ids_of(steps, rule, survey, job.continuity, lineage)
    columns = steps.run.plan.table.columns
    Labeller.of(rule, ids, columns, survey.pilot, prepared_pilot).write(steps.run)
    labelled = label_table(steps, surveyed=survey.lowest)
    return algorithm.learned(job), labelled
