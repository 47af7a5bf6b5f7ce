"""A run beside the one that it continues: clusters, drift, and the outcome of checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from distsvc.errors import DataError, InputNotFoundError
from distsvc.job.config import Job
from distsvc.job.parameters import Given
from distsvc.models.nights.drift import (
    ColumnCounts,
    decile_edges,
    stability_index,
    unit_factors,
)
from distsvc.models.rules.fields import Facts
from distsvc.report.content.comparison_parts import (
    CheckPart,
    ColumnDrift,
    DriftPart,
    LineagePart,
    Moves,
    ReferencePart,
    StoryPart,
)
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS, REFERENCE
from distsvc.run.labelling.phase import Labelled, outlier_share
from distsvc.run.model.files import checked_model, read_labeller, read_model
from distsvc.run.nights.checks import Measured, checked
from distsvc.run.nights.continuity import LINEAGE, UNCLAIMED
from distsvc.run.nights.previous import Previous, rows_of_runs
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import read_manifest
from distsvc.storage.rows.columns import some
from distsvc.storage.tables.opening import new_columns, unchosen_columns

MOST_OUTSIDE, ABOUT = 0.25, 0.05
"""Share of the rows outside above which there is a warning, and by how much nu may be passed."""


@dataclass(frozen=True)
class Comparison:
    """The report's parts on a run beside another, and the outcome of checks."""

    lineage: LineagePart | None
    drift: DriftPart | None
    reference: ReferencePart | None
    checks: list[CheckPart]
    notes: list[str]


def compare_and_check(
    run: RunDirectory,
    job: Job,
    previous: Previous | None,
    labelled: Labelled,
    facts: Facts,
    told: Sequence[str] = (),
) -> Comparison:
    """Compare a labelled run with the one before, and do the job's checks.

    Of the fit's `facts` there may be its ``agreement``, how likely the answer holds, or how far
    trees agree, and whether it ``followed`` the run before; `told` are warnings from before.
    """
    agreement, followed = facts.get("agreement"), facts.get("followed")
    lineage = _lineage(run, job, previous, labelled)
    if lineage is not None:
        lineage = lineage.model_copy(update={"followed": followed})
    drift, reference = drift_of(run, labelled), reference_drift(run, labelled)
    known = Measured(labelled, lineage, drift, agreement, reference=reference)
    checks = _checked(run, job, previous, known)
    warned = [check.words for check in checks if check.state == "warned"]
    notes = [*warned, *told, *_notes(run, job, lineage), *_told_of_ids(run, labelled)]
    if previous is not None and previous.way_back and any(c.state == "failed" for c in checks):
        notes.append(previous.way_back)
    notes += told_of_outliers(labelled.outlier_share, _parameters(job, previous))
    return Comparison(lineage, drift, reference, checks, notes)


def _checked(
    run: RunDirectory, job: Job, previous: Previous | None, known: Measured
) -> list[CheckPart]:
    """Return the outcome of the job's checks, and of the usual ones where it names earlier runs."""
    plan, asked = run.plan, job.checks.rows_against_last
    if plan.missing == "drop" and plan.table.where is None:
        known = replace(known, dropped=1.0 - known.labelled.counts.n_rows / plan.table.n_rows)
    if previous is not None:
        n_runs = 1 if asked is None else asked.nights
        before = rows_of_runs(previous, n_runs)
        known = replace(known, rows_before=before, new_columns=_unknown(run, job))
    return checked(job.checks, known, guarded=bool(job.continuity.previous))


def _parameters(job: Job, previous: Previous | None) -> list[Given]:
    """Return the parameters of the job, and of the model that may have labelled its rows."""
    asked: list[Given] = [job.model.parameters()]
    if previous is not None and job.model.mode != "refit":
        asked.append(previous.model.parameters)
    return asked


def told_of_outliers(share: float | None, asked: Sequence[Given]) -> list[str]:
    """Return a warning, or none, where more rows are outside than usual, and than asked for.

    `asked` are the parameters by which the rows may have been labelled.
    """
    if share is None or share <= MOST_OUTSIDE:
        return []
    wanted = max((given.get("nu") or 0.0 for given in asked), default=0.0)
    if share <= wanted + ABOUT or any(given.get("C") is not None for given in asked):
        return []
    return [
        f"{share:.1%} of the rows lie outside, and the job did not ask for so many: the model may "
        "not suit the table; nu sets that share"
    ]


def _told_of_ids(run: RunDirectory, labelled: Labelled) -> list[str]:
    """Return warnings about ids that do not tell rows apart."""
    return labelled.ids.notes(str(run.plan.table.id)) if labelled.ids is not None else []


def _notes(run: RunDirectory, job: Job, lineage: LineagePart | None) -> list[str]:
    """Return warnings about the run that this one continues."""
    if lineage is None:
        return []
    notes, lacking = [], lineage.not_published
    if lineage.path is None:
        notes.append(f"nothing is published at {lacking} or before: cluster ids start at 0")
    elif lacking:
        notes.append(f"nothing is published at {lacking}: cluster ids continue from {lineage.path}")
    unclaimed = run.read(LINEAGE).facts.get(UNCLAIMED) if run.has(LINEAGE) else None
    if unclaimed:
        notes.append(
            "ids of new clusters could not be claimed for this run alone, so another that goes on "
            f"from the same one may give them, too: {unclaimed}"
        )
    extra = _unknown(run, job)
    if extra:
        names = truncated(extra)
        notes.append(
            f"ignored, since the model of the run before does not know them: {names}; "
            "a refit takes them if input.columns names all features"
        )
    return notes


def _unknown(run: RunDirectory, job: Job) -> list[str]:
    """Return the columns that could be features, and that the model of the run before lacks."""
    extra = unchosen_columns(run.plan.table) if job.model.mode != "refit" else []
    extra = [name for name in extra if name in (job.input.columns or extra)]
    return extra + new_columns(run.plan.table)


def _lineage(
    run: RunDirectory, job: Job, previous: Previous | None, labelled: Labelled
) -> LineagePart | None:
    own, rows = labelled.labeller, labelled.counts.sizes.sum(axis=1)
    if not job.continuity.previous:
        return None
    wanted = job.continuity.previous[0]
    if previous is None:
        stories = [_story(int(i), "appeared", 0.0, 0, int(n)) for i, n in enumerate(rows)]
        return LineagePart(
            path=None, run_id=None, mode="refit", not_published=wanted, rows=0, moved=None,
            next_id=own.next_id, clusters=stories,
        )  # fmt: skip
    part = partial(
        LineagePart,
        path=previous.path,
        run_id=previous.run_id,
        not_published=wanted if previous.nights else None,
        next_id=own.next_id,
    )
    if not run.has(LINEAGE):
        then = run.read(PREVIOUS + COUNTED).arrays["cluster_counts"].sum(axis=1)
        pairs = zip(own.ids, then, rows, strict=True)
        stories = [_story(int(i), "survived", 1.0, int(a), int(b)) for i, a, b in pairs]
        n_rows = labelled.counts.n_rows
        return part(mode="assign", rows=n_rows, moved=None, clusters=stories)
    found = run.read(LINEAGE)
    facts, overlap = found.facts, found.arrays["overlap"]
    then = run.read(PREVIOUS + COUNTED).arrays["cluster_counts"].sum(axis=1).tolist()
    rows_before = dict(zip(facts["before"], then, strict=True))
    rows_now = dict(zip(own.ids.tolist(), rows.tolist(), strict=True))
    stories = told_stories(facts["clusters"], rows_before, rows_now)
    i, j = np.nonzero(overlap)
    ids = np.asarray(facts["before"], np.int64)[i], own.ids[j]
    moves = Moves(before=ids[0].tolist(), after=ids[1].tolist(), rows=overlap[i, j].tolist())
    more = {"rows": facts["rows"], "moved": facts["moved"], "because": refit_because(run)}
    return part(**more, mode="refit", clusters=stories, moves=moves)


def told_stories(
    found: Iterable[Mapping[str, Any]], before: Mapping[int, int], now: Mapping[int, int]
) -> list[StoryPart]:
    """Return the stories of the clusters that have rows in the table before or in this one.

    `before` and `now` are the rows of each id. A model can have a cluster that no row of the table
    belongs to; it is not reported as new, nor as gone on the next night.
    """
    stories = [
        _story(
            s["id"],
            s["event"],
            s["jaccard"],
            before.get(s["id"], 0),
            now.get(s["id"], 0),
            s["others"],
        )
        for s in found
    ]
    return [one for one in stories if one.rows_before or one.rows_after]


def _story(
    number: int, event: Any, jaccard: float, before: int, after: int, others: Sequence[int] = ()
) -> StoryPart:
    story = partial(StoryPart, id=number, event=event, jaccard=jaccard)
    return story(rows_before=before, rows_after=after, others=list(others))


DECISION = "decision"
"""The result that tells whether the model before still fits."""


def refit_because(run: RunDirectory) -> list[str]:
    """Return the limits on drift that the table passed, if the model before was tried."""
    return list(run.read(DECISION).facts["because"]) if run.has(DECISION) else []


def drift_of(run: RunDirectory, labelled: Labelled) -> DriftPart | None:
    """Return the drift from the table of the model before; None if there is none."""
    counts, then = labelled.counts, labelled.before
    if then is None:
        return None
    before = run.read(PREVIOUS + COUNTED)
    refit = run.has(LINEAGE)
    scores = run.read(LINEAGE).arrays["scores"] if refit else counts.histogram
    old = ColumnCounts(then.column_edges, before.arrays["column_counts"])
    shifted = stability_index(before.arrays["score_counts"][None], scores[None])[0]
    now = decile_edges(labelled.pilot.X[:, then.places(run.plan.table.columns)])
    factors = unit_factors(then.column_edges, now)
    return DriftPart(
        columns=_columns(then.columns, old, counts.columns[PREVIOUS], factors),
        score=float(shifted) if scores.sum() else None,
        score_rows=int(scores.sum()),
        outlier_share_before=outlier_share(then, before.arrays["cluster_counts"]),
        outlier_share_after=labelled.outlier_share,
    )


def keep_reference(
    path: str | None, run: RunDirectory, output: Store, columns: Sequence[str]
) -> None:
    """Keep what drift from the table of a reference is measured by, if there is one.

    The run is none to itself: nothing is kept where the reference is its `output`. Columns that the
    table, which has `columns`, lacks are left out.

    Raises
    ------
    InputNotFoundError
        No run is published at the path.
    DataError
        It is damaged, or has no column in common with the table.

    """
    if path is None or run.has(REFERENCE) or store_of(path).address == output.address:
        return
    store = store_of(path)
    try:
        manifest = read_manifest(store)
    except InputNotFoundError:
        raise InputNotFoundError(
            f"continuity.reference: no run is published at {path}, from whose table drift is to be "
            "measured"
        ) from None
    folder = checked_model(store)
    _, labeller, arrays = read_labeller(read_model(folder), folder)
    of = [k for k, name in enumerate(labeller.columns) if name in columns]
    if not of:
        raise DataError(
            f"continuity.reference: expected a run with columns of this table, found none of "
            f"{some([repr(name) for name in labeller.columns])} at {path}"
        )
    facts = {"path": path, "run_id": manifest.run_id, "run_date": manifest.run_date}
    kept = {name: arrays[name][of] for name in ("column_edges", "column_counts")}
    run.write(REFERENCE, Result(facts | {"columns": [labeller.columns[k] for k in of]}, kept))


def reference_drift(run: RunDirectory, labelled: Labelled) -> ReferencePart | None:
    """Return the drift from the table of the job's reference; None if there is none."""
    if not run.has(REFERENCE):
        return None
    found = run.read(REFERENCE)
    old = ColumnCounts(found.arrays["column_edges"], found.arrays["column_counts"])
    columns = _columns(found.facts["columns"], old, labelled.counts.columns[REFERENCE])
    named = {name: found.facts[name] for name in ("path", "run_id", "run_date")}
    return ReferencePart(columns=columns, **named)


def _columns(
    names: Sequence[str], old: ColumnCounts, now: ColumnCounts, factors: np.ndarray | None = None
) -> list[ColumnDrift]:
    """Return the drift of every column, the largest first.

    `factors` (d,) are those of columns in another unit, NaN for the others.
    """
    if factors is None:
        factors = np.full(len(names), np.nan)
    indices = stability_index(old.counts, now.counts).tolist()
    missing = old.missing.tolist(), now.missing.tolist()
    columns = [
        ColumnDrift(
            column=name,
            index=index,
            missing_before=one,
            missing_after=other,
            factor=None if np.isnan(factor) else float(factor),
        )
        for name, index, one, other, factor in zip(names, indices, *missing, factors, strict=True)
    ]
    return sorted(columns, key=lambda column: -column.index)
