"""Counts of labelled rows; they add up over partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import pyarrow as pa

from distsvc.models.nights.drift import ColumnCounts, counts_between
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.labeller import HISTOGRAM_BINS
from distsvc.run.work.directory import Result

Places = slice | list[int]


class PartEntry(TypedDict):
    """Manifest entry of a file of labels; `stored` is its path in `parts_place`."""

    file: str
    stored: str
    rows: int
    bytes: int
    sha256: str


@dataclass
class Counts:
    """Numbers of labelled rows, int64.

    Attributes
    ----------
    sizes : ndarray of shape (k, 2)
        Rows of each cluster inside and outside.
    histogram : ndarray of shape (HISTOGRAM_BINS,)
        Rows by score.
    columns : dict of ColumnCounts
        Values by column, for each set of edges (of this run, the previous one, the reference).
    places : dict
        Positions of these columns in a block.
    classes : dict of ndarray of shape (k,)
        Rows of each known class by cluster.
    parts : list of PartEntry

    """

    sizes: np.ndarray
    histogram: np.ndarray
    columns: dict[str, ColumnCounts]
    places: dict[str, Places]
    classes: dict[str, np.ndarray] = field(default_factory=dict)
    parts: list[PartEntry] = field(default_factory=list)

    @classmethod
    def empty(
        cls,
        n_clusters: int,
        edges: Mapping[str, np.ndarray] | None = None,
        places: Mapping[str, Places] | None = None,
    ) -> Counts:
        """Return the counts of no rows."""
        columns = {name: ColumnCounts.empty(of) for name, of in (edges or {}).items()}
        sizes, histogram = np.zeros((n_clusters, 2), np.int64), np.zeros(HISTOGRAM_BINS, np.int64)
        return cls(sizes, histogram, columns, dict(places or {}))

    @property
    def n_rows(self) -> int:
        """Number of labelled rows."""
        return int(self.sizes.sum())

    @property
    def n_clusters(self) -> int:
        """Number of clusters with rows; a rule can have more."""
        return used_clusters(self.sizes)

    def add(
        self, X: np.ndarray, columns: Columns, edges: np.ndarray, classes: pa.Array | None
    ) -> None:
        """Count raw rows X (n, d), their published columns and known classes (n,)."""
        for name, of in self.columns.items():
            of.add(np.ascontiguousarray(X[:, self.places[name]]))
        label, score, k = columns["label"], columns["score"], len(self.sizes)
        both = np.bincount(2 * label + columns["outlier"], minlength=2 * k)
        self.sizes += both.reshape(-1, 2)
        self.histogram += counts_between(score, edges)
        if classes is not None:
            _add_up(self.classes, _by_class(classes, label, k))

    def result(
        self, parts: Sequence[Mapping[str, int | str]], more: Mapping[str, np.ndarray]
    ) -> Result:
        """Return the result of a partition: its counts, its files, and `more` arrays."""
        classes = np.array(list(self.classes.values()), np.int64).reshape(-1, len(self.sizes))
        arrays = {"sizes": self.sizes, "histogram": self.histogram, "classes": classes}
        arrays |= {f"{name}columns": of.counts for name, of in self.columns.items()}
        facts = {"parts": [dict(part) for part in parts], "classes": list(self.classes)}
        return Result(facts, arrays | dict(more), rows=self.n_rows)

    def merge(self, other: Result, files: Sequence[str]) -> None:
        """Add the counts of a partition, whose labels are in `files`."""
        self.sizes += other.arrays["sizes"]
        self.histogram += other.arrays["histogram"]
        for name, of in self.columns.items():
            of.counts[...] += other.arrays[f"{name}columns"]
        names = other.facts["classes"]
        _add_up(self.classes, dict(zip(names, other.arrays["classes"], strict=True)))
        parts: list[PartEntry] = other.facts["parts"]
        self.parts += [{**of, "file": file} for of, file in zip(parts, files, strict=True)]


def used_clusters(sizes: np.ndarray) -> int:
    """Return the number of clusters with rows, from the rows (k, 2) inside and outside."""
    return int(sizes.any(axis=1).sum())


def _add_up(totals: dict[str, np.ndarray], counts: dict[str, np.ndarray]) -> None:
    for name, rows in counts.items():
        totals[name] = totals.get(name, 0) + rows


def _by_class(classes: pa.Array, label: np.ndarray, n_clusters: int) -> dict[str, np.ndarray]:
    """Return the rows of each class by cluster."""
    encoded = classes.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    names = [str(value) for value in encoded.dictionary.to_pylist()] + ["null"]
    table = np.bincount(codes * n_clusters + label, minlength=len(names) * n_clusters)
    by_class = zip(names, table.reshape(-1, n_clusters), strict=True)
    return {name: counts for name, counts in by_class if counts.any()}
