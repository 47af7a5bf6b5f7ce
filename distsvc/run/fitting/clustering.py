"""Learning from a table and labelling it: survey, prepare, fit, name the clusters, label."""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.run.algorithms.algorithm import Pilot, Room
from distsvc.run.fitting.preparing import prepare
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.labelling.phase import Labelled, label_table
from distsvc.run.learning.survey import survey_table
from distsvc.run.nights.continuity import ids_of
from distsvc.run.work.phases import Steps


def cluster_table(steps: Steps, job: Job, room: Room) -> tuple[Pilot, Labelled]:
    """Do it all; return the pilot, and what labelling counted.

    The table is read once for its statistics and a random sample (twice where rows are left out or
    set aside), and once to label it; some algorithms read it in between.
    """
    all_rows = room.all_rows or steps.run.plan.unit
    survey = survey_table(steps, room.sample_ranges, all_rows)
    prepared_pilot = prepare(steps, job.preprocess, room, survey)
    rule = room.fit(steps, survey)
    ids = ids_of(steps, rule, survey, job.continuity.match)
    columns = steps.run.plan.table.columns
    Labeller.of(rule, ids, columns, survey.pilot, prepared_pilot).write(steps.run)
    return survey.lowest, label_table(steps)
