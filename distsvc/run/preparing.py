"""Preparation of rows: the choice of scaling or column models, and notes on unusual columns."""

from collections.abc import Sequence

import numpy as np

from distsvc.errors import DataError, things
from distsvc.job.config import PreprocessConfig
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.columns.maps import AS_FOUND, GivenColumn
from distsvc.models.columns.model import ColumnModel
from distsvc.models.graph.engine import clarity
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.rows.robust_scale import ColumnSpread, present_values
from distsvc.models.rows.sampling import rows_of
from distsvc.models.rows.scaling import ColumnSums, Scaling
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.survey import Survey
from distsvc.run.work.phases import Steps
from distsvc.run.work.sentinels import sentinel_notes, spike_notes
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import (
    Feature,
    Numeric,
    Vector,
    groups_of,
    levels_of,
    missing_values,
    names_of,
    nominal_columns,
    one_hot_columns,
)
from distsvc.storage.rows.usable import no_values_error
from distsvc.storage.tables.values import check_exact

MAX_NAMED = 5
"""Maximum number of rows or columns that a note names."""


def prepare(
    steps: Steps,
    config: PreprocessConfig,
    algorithm: AlgorithmJob,
    survey: Survey,
    before: ColumnModel | None = None,
) -> np.ndarray:
    """Scale or model the columns, and store this preparation; return the prepared pilot (m, D).

    It also sets the engine's pilot and adds notes about unusual columns. `before` is the previous
    run's column model.
    """
    engine = algorithm.engine
    with steps.progress.phase("prepare"):
        table = steps.run.plan.table
        together = one_hot_columns(table.features)
        missing = missing_values(table.features, survey.n_rows - survey.sums.counts)
        new = table.new_values
        empty = [f"{name} ({rows:,})" for name, rows in missing.items() if name not in new]
        unknown = [
            f"{name} ({missing[name]:,}, such as {new[name]})" for name in new if name in missing
        ]
        for event, listed in (("missing values", empty), ("new values", unknown)):
            if listed:
                steps.progress.event(event, columns=truncated(listed))
        scaling, notes = make_scaling(config, survey, table.columns, together)
        if config.scale == "auto":
            scaling, note = standard_or_unit(scaling, survey, steps.run.plan.seed)
            notes.append(note)
        check_exact(table, survey.sums.least, survey.sums.most)
        policy = config.missing_values, steps.run.plan.missing
        notes += sentinel_notes(survey.pilot, table.features, *policy)
        notes += spike_notes(survey.pilot, table.features)
        columns, pilot = None, survey.lowest
        vectors = any(isinstance(feature, Vector) for feature in table.features)
        as_found = config.scale is None and not vectors
        if as_found and isinstance(engine, AutomaticEngine | MixtureEngine):
            nominal, given = nominal_columns(table.features), given_columns(table)
            columns = engine.model_columns(pilot.X, pilot.keys, nominal, given, before)
            check_scales(columns, table, survey.sums)
        if columns is None:
            scaling.check(survey.sums, table.columns)
            notes += extreme_column_notes(survey, scaling.kind, table.features)
            notes += dominant_column_notes(survey, scaling, table.features)
            engine.set_pilot(scaling.apply(pilot.X), survey.n_rows)
            origin = engine.centre
        else:
            rows = rows_of(steps.run.plan.seed, pilot.keys)
            engine.set_pilot(columns.latent(pilot.X, rows), survey.n_rows)
            origin = columns.origin(engine.centre)
        engine.notes.extend(notes)
        preparation = Preparation(scaling, origin, algorithm.rules[0].float64, columns)
        steps.run.write(PREPARATION, preparation.result())
        return preparation(survey.pilot)


def given_columns(table: Table) -> list[GivenColumn]:
    """Return the kind and scale that the job gives to each column, by default `AS_FOUND`."""
    found = []
    for feature in table.features:
        kind = table.column_kinds.get(feature.column)
        of = AS_FOUND if kind is None else GivenColumn(kind.kind, kind.scale)
        found += [of] * len(feature.names)
    return found


def check_scales(columns: ColumnModel | None, table: Table, sums: ColumnSums) -> None:
    """Raise DataError if a given scale is not defined for the values of its column."""
    for j, of in enumerate(given_columns(table)):
        low, high = float(sums.least[j]), float(sums.most[j])
        if of.scale and columns is not None and columns.columns[j] is None and low < high:
            raise DataError(
                f"columns.{table.columns[j]}: scale {of.scale!r} is not defined for values from "
                f"{low:g} to {high:g}; give another scale, or remove `scale`"
            )


def make_scaling(
    config: PreprocessConfig, survey: Survey, columns: Sequence[str], together: Sequence[slice] = ()
) -> tuple[Scaling, list[str]]:
    """Return the scaling that the job configures, and notes for the page.

    The notes are about missing values and constant columns. Each slice of `together` selects the
    columns of one category that is encoded one-hot.
    """
    sums, notes = survey.sums, []
    empty = [name for name, n in zip(columns, sums.counts, strict=True) if n == 0]
    if empty:
        raise no_values_error(empty)
    fill = np.zeros(len(columns))
    if config.missing == "median":
        fill, missing = _medians(sums, survey, together), survey.n_rows - sums.counts
        for group in together:
            missing[group.start + 1 : group.stop] = 0  # all columns of a group are missing together
        n_missing = int(missing.sum())
        sums.impute(fill, survey.n_rows)
        if n_missing:
            notes.append(f"{things(n_missing, 'missing value')} replaced by medians of the columns")
    elif config.missing == "auto":
        fill = np.where(sums.counts < survey.n_rows, _medians(sums, survey, together), 0.0)
    varies = sums.least < sums.most
    for group in together:  # a rare value may be absent
        varies[group] = varies[group].any()
    constant = [name for name, does_vary in zip(columns, varies, strict=True) if not does_vary]
    if constant:
        notes.append(f"constant columns, which do not change the result: {truncated(constant)}")
    if config.scale == "robust":
        scaling = Scaling.robust(sums, survey.pilot, fill)
    else:
        kind = "standard" if config.scale in (None, "auto") else config.scale
        scaling = Scaling.from_sums(sums, kind, fill)
    return scaling.together(sums, together), notes


def standard_or_unit(standard: Scaling, survey: Survey, seed: int) -> tuple[Scaling, str]:
    """Return the better one of the scalings "standard" and "unit", and a note on their scores.

    The score is the clarity of the pilot's neighbour graph. Scaling "unit" must score clearly
    higher. `seed` is the seed of the neighbour search.
    """
    # "unit" needs a clear advantage, or the scaling of a table would change from night to night.
    by_length = Scaling.from_sums(survey.sums, "unit", standard.fill)
    scores = [clarity(one.apply(survey.pilot), seed) for one in (standard, by_length)]
    chosen = by_length if scores[1] > 1.1 * scores[0] else standard
    return chosen, (
        f"preprocess.scale = 'auto' chose '{chosen.kind}': the neighbour graph scored "
        f"{scores[0]:.2f} with 'standard' and {scores[1]:.2f} with 'unit'"
    )


def _medians(sums: ColumnSums, survey: Survey, together: Sequence[slice]) -> np.ndarray:
    """Return the medians (d,) of the pilot's columns, or the table's mean for an empty column.

    `together` has the slices of one-hot columns, whose medians are rounded down to 0 or 1.
    """
    means, _ = sums.mean_and_variance()
    pilot = np.where(np.isnan(survey.pilot).all(axis=0), means, survey.pilot)
    medians = np.nanmedian(pilot, axis=0)
    for group in together:
        medians[group] = np.floor(medians[group])
    return np.asarray(medians)


def extreme_column_notes(survey: Survey, kind: str, features: Sequence[Feature]) -> list[str]:
    """Return at most one note on columns whose scale depends on a few extreme values.

    Only the scalings "standard" and "minmax" depend on them; `kind` is the job's scaling.
    """
    if kind not in ("standard", "minmax"):
        return []
    sums = survey.sums
    deviations = np.sqrt(sums.mean_and_variance()[1])
    ends = zip(sums.least.tolist(), sums.most.tolist(), deviations.tolist(), strict=True)
    columns = names_of(features)
    values_of_categories = {n for group in one_hot_columns(features) for n in columns[group]}
    values_of_categories |= levels_of(features).keys()
    found: dict[str, ColumnSpread] = {}
    for name, values, end in zip(columns, present_values(survey.pilot), ends, strict=True):
        column = ColumnSpread.of(values, *end) if values.size else None
        if column is not None and column.decided(kind) and name not in values_of_categories:
            found[name] = column
    if not found:
        return []
    numbers = {feature.column for feature in features if isinstance(feature, Numeric)}
    as_log = [name for name, column in found.items() if column.near_as_log and name in numbers]
    named = []
    for name, column in found.items():
        bulk = f"between {column.low:,.6g} and {column.high:,.6g}"
        bulk = f"{column.low:,.6g}" if column.low == column.high else bulk
        rows = f"95 % of the rows {bulk}, the farthest {column.farthest:,.6g}"
        named.append(f"{name!r} ({rows})")
    advice = "preprocess.scale = 'robust'"
    if as_log:
        few = [*map(repr, as_log[:MAX_NAMED]), *(["..."] if len(as_log) > MAX_NAMED else [])]
        log = f"preprocess.log = [{', '.join(few)}]"
        in_all = len(as_log) == len(found)
        advice = f"{log}, or {advice}" if in_all else f"{advice}, or for some columns {log}"
    return [f"extreme values decide the scale of {truncated(named, MAX_NAMED)}: use {advice}"]


def dominant_column_notes(
    survey: Survey, scaling: Scaling, features: Sequence[Feature]
) -> list[str]:
    """Return at most one note on a column that makes up most of the rows' lengths."""
    names, firsts = groups_of(features)
    if scaling.kind != "unit" or len(names) < 2:
        return []
    share = np.add.reduceat((scaling.apply(survey.pilot) ** 2).mean(axis=0), firsts)
    k = int(share.argmax())
    if not share[k] >= 0.9:
        return []
    return [
        f"preprocess.scale = 'unit' divides rows by their lengths, and {names[k]!r} makes up "
        f"{share[k]:.0%} of the squared lengths, so the other columns hardly count: exclude "
        f"{names[k]!r}, or give another preprocess.scale"
    ]
