"""Ways to number clusters from night to night: by runs that go on, and two to compare with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.harness.rows import Row
from benchmarks.harness.runs import published, run_here, write_columns
from distsvc.run.reporting import files as report_files

KEPT = 9
"""Runs: the last one, and as many as a cluster may be gone."""

REACH = 2.0
"""How far a centroid moves at most, in root mean square distances of its cluster's rows."""


class Runs:
    """Jobs below a folder, each of which goes on from the one before; nine are kept.

    Each leaves the clusters of the one before only for better ones, unless it is `alone`.
    """

    def __init__(self, folder: Path, match: float, alone: bool = False):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.match, self.number, self.alone = folder, match, 0, alone

    def ids(self, X: np.ndarray, seed: int) -> tuple[np.ndarray, Row]:
        """Cluster a night's rows X (n, d); return the published ids (n,) and its report."""
        table, out = self.folder / "rows.parquet", self.folder / str(self.number)
        write_columns(table, X)
        more: Row = {}
        if self.number:
            before = str(self.folder / str(self.number - 1))
            more["continuity"] = {
                "previous": before, "min_overlap": self.match, "prefer_previous": not self.alone
            }  # fmt: skip
            more["checks"] = {"max_rows_moved": False}  # what moves is measured, not held back
            shutil.rmtree(self.folder / str(self.number - KEPT), ignore_errors=True)
        report = run_here(table, out, {}, {"seed": seed}, {"workers": 0}, more=more)
        self.number += 1
        return published(out), report.content


@contextmanager
def without_pages() -> Iterator[None]:
    """Leave out the pages of runs, whose pictures take longer than small tables do."""
    with patch.object(report_files, "page_of", lambda _: "left out"):
        yield


def by_size(labels: np.ndarray) -> np.ndarray:
    """Return clusters numbered by their size, the largest 0, as without continuity."""
    _, places, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank[places]


class ByCentroid:
    """Clusters that keep the id of the nearest centroid of the night before, one to one.

    A centroid that is farther than `REACH` times the spread of its cluster begins a new id.
    """

    def __init__(self) -> None:
        self.next_id = 0
        self.known: dict[int, tuple[np.ndarray, float]] = {}

    def ids(self, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the id (n,) of every row of X (n, d), by its cluster."""
        _, places = np.unique(labels, return_inverse=True)
        groups = [X[places == j] for j in range(places.max() + 1)]
        found = [(rows.mean(axis=0), float(np.sqrt(rows.var(axis=0).sum()))) for rows in groups]
        before = list(self.known)
        ids = np.full(len(found), -1)
        if before:
            distances = np.array(
                [[np.linalg.norm(c - self.known[i][0]) for c, _ in found] for i in before]
            )
            limits = np.array([REACH * self.known[i][1] for i in before])
            cost = np.where(distances <= limits[:, None], distances, 1e9)
            pairs = zip(*linear_sum_assignment(cost), strict=True)
            for i, j in pairs:
                if cost[i, j] < 1e9:
                    ids[j] = before[i]
        for j in np.flatnonzero(ids < 0):
            ids[j], self.next_id = self.next_id, self.next_id + 1
        self.known = {int(i): one for i, one in zip(ids, found, strict=True)}
        return ids[places]
