"""How far a run's table has drifted from that of the model before, and what checks look at."""

from __future__ import annotations

import numpy as np

from distsvc.models.nights.drift import ColumnCounts, stability_index
from distsvc.report.content.night_parts import ColumnDrift, DriftPart
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.labeller import COUNTED, OWN, PREVIOUS, RULE, Labeller
from distsvc.run.nights.checks import Found
from distsvc.run.nights.continuity import LINEAGE
from distsvc.run.work.directory import RunDirectory

DECISION = "decision"
"""The result that tells whether the model before still fits."""


def refit_because(run: RunDirectory) -> list[str]:
    """Return which limits on drift the table passed, if the model before was tried."""
    return list(run.read(DECISION).facts["because"]) if run.has(DECISION) else []


def drift_of(run: RunDirectory, counts: Counts) -> DriftPart:
    """Return how far the table is from that of the model before."""
    before, then = run.read(PREVIOUS + COUNTED), Labeller.read(run, PREVIOUS)
    refit = run.has(LINEAGE)
    scores = run.read(LINEAGE).arrays["scores"] if refit else counts.histogram
    now, old = (
        counts.columns[PREVIOUS],
        ColumnCounts(then.column_edges, before.arrays["column_counts"]),
    )
    indices = stability_index(old.counts, now.counts)
    columns = [
        ColumnDrift(
            column=name,
            index=float(index),
            missing_before=float(one),
            missing_after=float(other),
        )
        for name, index, one, other in zip(
            then.columns, indices, old.missing, now.missing, strict=True
        )
    ]
    shifted = stability_index(before.arrays["score_counts"][None], scores[None])[0]
    return DriftPart(
        columns=sorted(columns, key=lambda column: -column.index),
        score=float(shifted) if scores.sum() else None,
        score_rows=int(scores.sum()),
        outlier_share_before=_outside(then, before.arrays["cluster_counts"]),
        outlier_share_after=_outside(Labeller.read(run, _in_use(run)), counts.sizes),
    )


def found_of(
    run: RunDirectory,
    counts: Counts,
    drift: DriftPart | None,
    moved: float | None = None,
    agreement: float | None = None,
) -> Found:
    """Return what the checks look at."""
    labeller = Labeller.read(run, _in_use(run))
    worst = drift.columns[0] if drift else None
    return Found(
        rows=counts.n_rows,
        clusters=labeller.rule.n_clusters,
        outlier_share=_outside(labeller, counts.sizes),
        rows_moved=moved,
        drift=worst.index if worst else None,
        drifted=worst.column if worst else "",
        agreement=agreement,
    )


def _in_use(run: RunDirectory) -> str:
    """Return whose labeller labels the rows: the run's own, once it has one."""
    return OWN if run.has(RULE) else PREVIOUS


def _outside(labeller: Labeller, sizes: np.ndarray) -> float | None:
    if not labeller.rule.words.has_outliers:
        return None
    return float(sizes[:, 1].sum() / max(sizes.sum(), 1))
