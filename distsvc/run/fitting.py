"""Clustering of a table, or labelling with the previous run's model; preparation of rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from distsvc.errors import DataError, EmptyInputError, one_line, things
from distsvc.job.config import Job, PreprocessConfig
from distsvc.job.parameters import clusters_wanted
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.columns.maps import AS_FOUND, GivenColumn
from distsvc.models.columns.model import ColumnModel
from distsvc.models.graph.engine import clarity
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.rows.numbering import few_clusters_notes
from distsvc.models.rows.robust_scale import ColumnSpread, present_values
from distsvc.models.rows.sampling import rows_of
from distsvc.models.rows.scaling import ColumnSums, Scaling
from distsvc.models.rules.joined import clusters_to_join, joined
from distsvc.report.content.parts import relabel
from distsvc.run.algorithms.algorithm import AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.labelling.labeller import PREVIOUS, RULE, Labeller
from distsvc.run.labelling.phase import Labelled, label_table
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.survey import ExtremeRow, Survey, survey_table
from distsvc.run.nights.checks import RunMetrics, reasons_to_refit
from distsvc.run.nights.comparison import DECISION, drift_of, refit_because
from distsvc.run.nights.continuity import Previous, answer_before, ids_of
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.run.work.sentinels import sentinel_notes, spike_notes
from distsvc.storage.publishing.lineages import Lineage
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
    units_of,
)
from distsvc.storage.rows.usable import no_values_error
from distsvc.storage.tables.values import check_exact


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
        raise EmptyInputError(f"{run.plan.table.shown} has a missing value in every row")
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
        notes.append(f"constant columns carry no information: {truncated(constant)}")
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
        named.append(f"{name} ({rows})")
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
