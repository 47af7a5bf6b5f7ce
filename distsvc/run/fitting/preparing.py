"""The step that settles what makes a table's row a learner's, from the survey."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.errors import DataError
from distsvc.job.config import PreprocessConfig
from distsvc.models.rows.scaling import ColumnSums, Scaling
from distsvc.run.algorithms.algorithm import Room
from distsvc.run.fitting.far_rows import told_of_aside, told_of_far_rows
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.survey import Survey
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.features import one_hot_columns

SHOWN = 20


def prepare(steps: Steps, config: PreprocessConfig, room: Room, survey: Survey) -> np.ndarray:
    """Settle scaling and origin, and all that takes a pilot; return the prepared pilot (m, d).

    The sample holds rows as the table has them, so every learner prepares them alike.
    """
    engine = room.engine
    with steps.progress.phase("prepare"):
        table = steps.run.plan.table
        together = one_hot_columns(table.features)
        scaling, notes = make_scaling(config, survey, table.columns, together)
        scaling.check(survey.sums, table.columns)
        notes += told_of_aside(survey.aside, table.columns)
        notes += told_of_far_rows(survey, config.scale, table.features)
        engine.set_pilot(scaling.apply(survey.pilot), survey.n_rows)
        engine.notes.extend([*steps.run.plan.notes, *notes])
        preparation = Preparation(scaling, engine.centre, room.rules[0].float64)
        steps.run.write(PREPARATION, preparation.result())
        return preparation(survey.pilot)


def make_scaling(
    config: PreprocessConfig,
    survey: Survey,
    columns: Sequence[str],
    together: Sequence[slice] = (),
) -> tuple[Scaling, list[str]]:
    """Turn the column sums into the scaling that the job asks for, and say what is remarkable.

    The columns of a slice of `together` are the values of one column.
    """
    sums, notes = survey.sums, []
    empty = [name for name, n in zip(columns, sums.counts, strict=True) if n == 0]
    if empty:
        raise DataError(f"column {empty[0]!r} has no value in any row")
    fill = np.zeros(len(columns))
    if config.missing == "median":
        fill, n_missing = _fill(sums, survey, together)
        if n_missing:
            notes.append(f"{n_missing} missing values were replaced by their columns' medians")
    varies = sums.least < sums.most
    for group in together:  # a rare value may not come up at all
        varies[group] = varies[group].any()
    constant = [name for name, some in zip(columns, varies, strict=True) if not some]
    if constant:
        more = f" and {len(constant) - SHOWN} more" if len(constant) > SHOWN else ""
        shown = ", ".join(constant[:SHOWN])
        notes.append(f"constant columns carry no information: {shown}{more}")
    if config.scale == "robust":
        scaling = Scaling.robust(sums, survey.pilot, fill)
    else:
        scaling = Scaling.from_sums(sums, config.scale, fill)
    return scaling.together(sums, together), notes


def _fill(sums: ColumnSums, survey: Survey, together: Sequence[slice]) -> tuple[np.ndarray, int]:
    """Return the pilot's medians (d,) and how many values they replace, which `sums` then count.

    Of one-hot columns that is the value of more than half of the rows, or none.
    """
    means, _ = sums.mean_and_variance()
    pilot = np.where(np.isnan(survey.pilot).all(axis=0), means, survey.pilot)
    fill = np.nanmedian(pilot, axis=0)
    missing = survey.n_rows - sums.counts
    for group in together:
        fill[group] = np.floor(fill[group])
        missing[group.start + 1 : group.stop] = 0  # all are missing where one is
    n_missing = int(missing.sum())
    sums.impute(fill, survey.n_rows)
    return fill, n_missing
