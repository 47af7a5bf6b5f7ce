"""The drift of a run's table from that of the model before, and from that of a reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.errors import DataError, InputNotFoundError
from distsvc.models.nights.drift import (
    ColumnCounts,
    decile_edges,
    stability_index,
    unit_factors,
)
from distsvc.report.content.comparison_parts import ColumnDrift, DriftPart, ReferencePart
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS, REFERENCE
from distsvc.run.labelling.phase import Labelled, outlier_share
from distsvc.run.model.files import checked_model, read_labeller, read_model
from distsvc.run.nights.continuity import LINEAGE
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import read_manifest
from distsvc.storage.rows.columns import truncated

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
            f"{truncated([repr(name) for name in labeller.columns])} at {path}"
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
