"""The drift of a run's table from that of the model before."""

from __future__ import annotations

from distsvc.models.nights.drift import ColumnCounts, stability_index
from distsvc.report.content.comparison_parts import ColumnDrift, DriftPart
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS
from distsvc.run.labelling.phase import Labelled, outlier_share
from distsvc.run.nights.continuity import LINEAGE
from distsvc.run.work.directory import RunDirectory

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
    now = counts.columns[PREVIOUS]
    indices = stability_index(old.counts, now.counts).tolist()
    missing = old.missing.tolist(), now.missing.tolist()
    columns = [
        ColumnDrift(column=name, index=index, missing_before=one, missing_after=other)
        for name, index, one, other in zip(then.columns, indices, *missing, strict=True)
    ]
    shifted = stability_index(before.arrays["score_counts"][None], scores[None])[0]
    return DriftPart(
        columns=sorted(columns, key=lambda column: -column.index),
        score=float(shifted) if scores.sum() else None,
        score_rows=int(scores.sum()),
        outlier_share_before=outlier_share(then, before.arrays["cluster_counts"]),
        outlier_share_after=labelled.outlier_share,
    )
