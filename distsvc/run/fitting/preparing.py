"""The step after the survey: scaling, origin, and notes about far rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.errors import DataError
from distsvc.job.config import PreprocessConfig
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.columns.maps import AS_FOUND, GivenColumn
from distsvc.models.columns.model import ColumnModel
from distsvc.models.graph.clarity import clarity
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.rows.scaling import ColumnSums, Scaling
from distsvc.models.rows.spread import ColumnSpread, known
from distsvc.models.rows.stand_ins import repeated_columns, stand_ins, undone_log
from distsvc.run.algorithms.algorithm import Learner
from distsvc.run.learning.aside import RowAside
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.survey import Survey
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import (
    Feature,
    Log,
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
from distsvc.storage.tables.counting import check_exact

SHOWN = 5
"""Far rows, or columns that they decide, that a note names."""

CLEARLY = 1.1
"""Times the standing with standard columns that rows of unit length need to be preferred."""

DECIDES = 0.9
"""Share of the squared length of a row, on average, from which one column decides it."""


def prepare(
    steps: Steps, config: PreprocessConfig, algorithm: Learner, survey: Survey
) -> np.ndarray:
    """Settle scaling and origin, and give the engine its pilot; return it prepared (m, d).

    The sample holds rows as the table has them, so every learner prepares them alike.
    """
    engine = algorithm.engine
    with steps.progress.phase("prepare"):
        table = steps.run.plan.table
        together = one_hot_columns(table.features)
        missing = missing_values(table.features, survey.n_rows - survey.sums.counts)
        if missing:
            told = truncated([f"{name} ({rows:,})" for name, rows in missing.items()])
            steps.progress.event("missing values", columns=told)
        scaling, notes = make_scaling(config, survey, table.columns, together)
        if config.scale == "auto":
            scaling, told = clearer(scaling, survey, steps.run.plan.seed)
            notes.append(told)
        check_exact(table, survey.sums.least, survey.sums.most)
        notes += told_of_aside(survey.aside, table.columns)
        notes += told_of_stand_ins(survey, config, table.features, steps.run.plan.missing)
        columns, pilot = None, survey.lowest
        vectors = any(isinstance(feature, Vector) for feature in table.features)
        if (
            isinstance(engine, AutomaticEngine | MixtureEngine)
            and config.scale is None
            and not vectors
        ):
            nominal, given = nominal_columns(table.features), given_columns(table)
            columns = engine.model_columns(pilot.X, pilot.keys, nominal, given)
            check_scales(columns, given, survey.sums, table.columns)
        if columns is None:
            scaling.check(survey.sums, table.columns)
            notes += told_of_far_rows(survey, scaling.kind, table.features)
            notes += told_of_lengths(survey, scaling, table.features)
            engine.set_pilot(scaling.apply(pilot.X), survey.n_rows)
            origin = engine.centre
        else:
            engine.set_pilot(columns.latent(pilot.X, pilot.keys), survey.n_rows)
            origin = columns.origin(engine.centre)
        engine.notes.extend(notes)
        preparation = Preparation(scaling, origin, algorithm.rules[0].float64, columns)
        steps.run.write(PREPARATION, preparation.result())
        return preparation(survey.pilot)


def given_columns(table: Table) -> list[GivenColumn]:
    """Return the kind and scale of each column of numbers as far as the job gives them."""
    found = []
    for feature in table.features:
        kind = table.column_kinds.get(feature.column)
        of = AS_FOUND if kind is None else GivenColumn(kind.kind, kind.scale)
        found += [of] * len(feature.names)
    return found


def check_scales(
    columns: ColumnModel | None,
    given: Sequence[GivenColumn],
    sums: ColumnSums,
    names: Sequence[str],
) -> None:
    """Raise DataError if a scale that the job gives is not defined for a column's values."""
    for j, of in enumerate(given):
        low, high = float(sums.least[j]), float(sums.most[j])
        if of.scale and columns is not None and columns.columns[j] is None and low < high:
            raise DataError(
                f"columns.{names[j]}: scale {of.scale!r} is not defined for values from {low:g} to "
                f"{high:g}; give another scale, or none"
            )


def make_scaling(
    config: PreprocessConfig, survey: Survey, columns: Sequence[str], together: Sequence[slice] = ()
) -> tuple[Scaling, list[str]]:
    """Turn the column sums into the scaling that the job asks for, and return notes.

    The columns of a slice of `together` are the values of one column.
    """
    sums, notes = survey.sums, []
    empty = [name for name, n in zip(columns, sums.counts, strict=True) if n == 0]
    if empty:
        raise no_values_error(empty)
    fill = np.zeros(len(columns))
    if config.missing == "median":
        fill, n_missing = _fill(sums, survey, together)
        if n_missing:
            notes.append(f"{n_missing} missing values were replaced by their columns' medians")
    elif config.missing == "auto":
        fill = np.where(sums.counts < survey.n_rows, _medians(sums, survey, together), 0.0)
    varies = sums.least < sums.most
    for group in together:  # a rare value may not come up at all
        varies[group] = varies[group].any()
    constant = [name for name, does_vary in zip(columns, varies, strict=True) if not does_vary]
    if constant:
        notes.append(f"constant columns carry no information: {truncated(constant)}")
    if config.scale == "robust":
        scaling = Scaling.robust(sums, survey.pilot, fill)
    else:
        kind = "standard" if config.scale in (None, "auto") else config.scale
        scaling = Scaling.from_sums(sums, kind, fill)
    return scaling.together(sums, together), notes


def clearer(standard: Scaling, survey: Survey, seed: int) -> tuple[Scaling, str]:
    """Return the scaling by which rows hang together more clearly, standard or by length; a note.

    Rows are compared along a graph of near ones. Columns are standard where that is nearly as
    clear: a tie would be broken by the sample, and a table would change its scale over nights.
    """
    by_length = Scaling.from_sums(survey.sums, "unit", standard.fill)
    standings = [clarity(one.apply(survey.pilot), seed) for one in (standard, by_length)]
    chosen = by_length if standings[1] > CLEARLY * standings[0] else standard
    return chosen, (
        f"preprocess.scale = 'auto' is '{chosen.kind}' here: along a graph of near rows the answer "
        f"stands at {standings[0]:.2f} with 'standard', at {standings[1]:.2f} with 'unit'"
    )


def _fill(sums: ColumnSums, survey: Survey, together: Sequence[slice]) -> tuple[np.ndarray, int]:
    """Return the pilot's medians (d,) and how many values they replace, which `sums` then count."""
    fill = _medians(sums, survey, together)
    missing = survey.n_rows - sums.counts
    for group in together:
        missing[group.start + 1 : group.stop] = 0  # all are missing where one is
    n_missing = int(missing.sum())
    sums.impute(fill, survey.n_rows)
    return fill, n_missing


def _medians(sums: ColumnSums, survey: Survey, together: Sequence[slice]) -> np.ndarray:
    """Return the pilot's medians (d,), and means of columns without values there.

    Of one-hot columns the median is the value of more than half of the rows, or none.
    """
    means, _ = sums.mean_and_variance()
    pilot = np.where(np.isnan(survey.pilot).all(axis=0), means, survey.pilot)
    medians = np.nanmedian(pilot, axis=0)
    for group in together:
        medians[group] = np.floor(medians[group])
    return np.asarray(medians)


def told_of_aside(rows: Sequence[RowAside], columns: Sequence[str]) -> list[str]:
    """Return a note, or none, about the rows that nothing was learned from."""
    if not rows:
        return []
    told = [f"row {far.row} ({columns[far.column]} = {far.value:,.6g})" for far in rows]
    return [
        f"set aside, as far from all other rows: {truncated(told, SHOWN)}; nothing was learned "
        "from these, and they are labelled like any other"
    ]


def told_of_far_rows(survey: Survey, kind: str, features: Sequence[Feature]) -> list[str]:
    """Return a note, or none, about columns that are scaled as `kind` says."""
    if kind not in ("standard", "minmax"):
        return []
    sums = survey.sums
    deviations = np.sqrt(sums.mean_and_variance()[1])
    ends = zip(sums.least.tolist(), sums.most.tolist(), deviations.tolist(), strict=True)
    columns = names_of(features)
    values_of_categories = {n for group in one_hot_columns(features) for n in columns[group]}
    values_of_categories |= levels_of(features).keys()
    found: dict[str, ColumnSpread] = {}
    for name, values, end in zip(columns, known(survey.pilot), ends, strict=True):
        column = ColumnSpread.of(values, *end) if values.size else None
        if column is not None and column.decided(kind) and name not in values_of_categories:
            found[name] = column
    if not found:
        return []
    numbers = {feature.column for feature in features if isinstance(feature, Numeric)}
    as_log = [name for name, column in found.items() if column.near_as_log and name in numbers]
    told = [f"{name} ({_words(column)})" for name, column in found.items()]
    return [
        f"a few far rows decide the scale of {truncated(told, SHOWN)}, and all others look "
        f"alike there: {_advice(as_log, len(found))}"
    ]


def told_of_lengths(survey: Survey, scaling: Scaling, features: Sequence[Feature]) -> list[str]:
    """Return a note, or none, about a column that decides the lengths by which rows are divided."""
    names, firsts = groups_of(features)
    if scaling.kind != "unit" or len(names) < 2:
        return []
    share = np.add.reduceat((scaling.apply(survey.pilot) ** 2).mean(axis=0), firsts)
    k = int(share.argmax())
    if not share[k] >= DECIDES:
        return []
    return [
        f"preprocess.scale = 'unit' divides rows by their lengths, and {names[k]!r} makes up "
        f"{share[k]:.0%} of these, squared: the other columns hardly count; leave it out of "
        "input.columns, or give another scale"
    ]


def told_of_stand_ins(
    survey: Survey, config: PreprocessConfig, features: Sequence[Feature], missing: str = "error"
) -> list[str]:
    """Return a note, or none, about numbers that may stand for missing values, such as -9999.

    They are told as the table has them, not as logarithms.
    """
    names, told, found = names_of(features), [], set(config.missing_values)
    of_columns = [feature for feature in features for _ in feature.names]
    pilot = _without_logs(survey.pilot, of_columns)
    for k in repeated_columns(pilot).tolist():
        if not isinstance(of_columns[k], Numeric | Log | Vector):
            continue
        for one in stand_ins(pilot[:, k][~np.isnan(pilot[:, k])]):
            found.add(one.value)
            told.append(
                f"{_number(one.value)} in {names[k]} ({one.share:.1%} of the rows; nearly all "
                f"others lie from {one.low:,.6g} to {one.high:,.6g})"
            )
    if not told:
        return []
    listed = ", ".join(map(_number, sorted(found)))
    keys = f"missing_values = [{listed}]"
    if missing == "error":
        keys += " and missing = 'median' (or 'drop')"
    return [
        f"numbers that may stand for missing values: {truncated(told, SHOWN)}; if they do, "
        f"give {keys} in [preprocess]"
    ]


def _without_logs(pilot: np.ndarray, of_columns: Sequence[Feature]) -> np.ndarray:
    """Return pilot rows (m, d) with the numbers that are stored where the job takes logarithms."""
    logs = [
        k
        for k, feature in enumerate(of_columns)
        if isinstance(feature, Log) or (isinstance(feature, Vector) and feature.log)
    ]
    if logs:
        pilot = pilot.copy()
        pilot[:, logs] = undone_log(pilot[:, logs])
    return pilot


def _number(value: float) -> str:
    """Return a number as a job file has it."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _words(column: ColumnSpread) -> str:
    bulk = (
        f"are {column.low:,.6g}"
        if column.low == column.high
        else f"lie from {column.low:,.6g} to {column.high:,.6g}"
    )
    return f"95 of 100 rows {bulk}, the farthest is {column.farthest:,.6g}"


def _advice(as_log: list[str], n: int) -> str:
    robust = "preprocess.scale = 'robust' draws far values in"
    if not as_log:
        return robust
    few = [*map(repr, as_log[:SHOWN]), *(["..."] if len(as_log) > SHOWN else [])]
    rest = "" if len(as_log) == n else " for these"
    return f"preprocess.log = [{', '.join(few)}] suits values of so many sizes{rest}; or {robust}"
