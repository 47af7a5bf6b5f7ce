"""The page's first sentence: the answer of a run in plain words."""

from __future__ import annotations

from distsvc.report.content.report import Report
from distsvc.report.formats import percent, things


def n_clusters(report: Report) -> str:
    """Return the number of clusters in words: "3 clusters"."""
    return things(len(report.clusters), "cluster")


def answer(report: Report) -> str:
    """Return the run's result as one plain sentence."""
    outside, share = report.outliers.rows, report.outliers.share
    rows = things(report.input.n_rows, "row")
    found = f"{n_clusters(report)} in {rows}"
    if not report.outliers.defined:
        return f"{found}."
    if report.outliers.only:
        return f"{things(outside, 'outlier')} ({percent(share)}) in {rows}."
    where = "the cluster" if len(report.clusters) == 1 else "every cluster"
    if outside == 0:
        return f"{found}; no row lies outside {where}."
    if outside == report.input.n_rows:
        return f"{found}; all of the rows lie outside {where}."
    return f"{found}; {percent(share)} of the rows lie outside {where}."
