"""The labeller of a run: a rule with the ids of its clusters, and the edges of counts.

A run has one of its own. One that continues another run has that run's as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distsvc.errors import DataError, UnusableRowsError
from distsvc.models.nights.drift import decile_edges
from distsvc.models.rows.validation import LONGEST, check_length
from distsvc.models.rules.reasons import Typical
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms import rule_named
from distsvc.run.work.directory import Result, RunDirectory

HISTOGRAM_BINS = 60
FENCE = 5.0
RULE = "rule"
COUNTED, COUNTS = "counted", ("column_counts", "score_counts", "cluster_counts")
"""The result with the counts of a model's own table, and its arrays."""

OWN, PREVIOUS = "", "previous-"
REFERENCE = "reference-"
"""The name of the edges, and counts, of the run that drift is measured from on all nights."""
"""Prefixes of the names of results: of the run's own labeller, and of the previous run's."""


@dataclass(frozen=True)
class Ids:
    """The published label of every cluster (k,) int32, and a number above all ever given."""

    of_labels: np.ndarray
    next: int

    @classmethod
    def first(cls, n_clusters: int) -> Ids:
        """Return the ids of clusters that go on from none: their labels."""
        return cls(np.arange(n_clusters, dtype=np.int32), n_clusters)


@dataclass(frozen=True)
class Labeller:
    """Labels rows by a rule, and says how its clusters are published and its scores counted.

    Attributes
    ----------
    ids : ndarray of shape (k,), int32
        The published label of every cluster; `next_id` is above every id that was ever given.
    score_edges : ndarray of shape (HISTOGRAM_BINS + 1,), float64
        Of the score histogram, whose outermost bins take the rest.
    column_edges : ndarray of shape (d, BINS - 1), float64
        Between which the values are counted of the `columns` that the rule was learned from.
    typical : Typical
        The typical rows that reasons compare with.

    """

    rule: Rule
    ids: np.ndarray
    next_id: int
    score_edges: np.ndarray
    column_edges: np.ndarray
    columns: Sequence[str]
    typical: Typical

    @classmethod
    def of(
        cls, rule: Rule, ids: Ids, columns: Sequence[str], raw: np.ndarray, pilot: np.ndarray
    ) -> Labeller:
        """Return the labeller with a rule; edges follow from the pilot, raw and prepared (m, d)."""
        edges = score_edges(rule.unrounded_scores(pilot), rule.words.boundary)
        typical = Typical.of(pilot, rule.label(pilot), rule.n_clusters, rule.words.has_outliers)
        return cls(rule, ids.of_labels, ids.next, edges, decile_edges(raw), columns, typical)

    def places(self, columns: Sequence[str]) -> slice | list[int]:
        """Return the positions of the rule's columns among a table's, or all of these."""
        if list(columns) == list(self.columns):
            return slice(None)
        return [list(columns).index(name) for name in self.columns]

    @classmethod
    def read(cls, run: RunDirectory, of: str = OWN) -> Labeller:
        """Return the labeller of a run; `DataError` where its result is damaged."""
        found = run.read(of + RULE)
        try:
            rule = rule_named(found.facts.get("algorithm", "")).restored(found.facts, found.arrays)
        except DataError as error:
            raise DataError(f"{run.address}: result {of + RULE}: {error}") from None
        arrays = {name: found.arrays[name] for name in ("ids", "score_edges", "column_edges")}
        facts = found.facts
        return cls(
            rule,
            next_id=facts["next_id"],
            columns=facts["columns"],
            typical=typical_of(facts, found.arrays),
            **arrays,
        )

    def write(self, run: RunDirectory, of: str = OWN) -> None:
        """Write the result that `read` reads."""
        rule, arrays = self.rule, {"ids": self.ids, "score_edges": self.score_edges}
        facts = {"algorithm": rule.form, "n_clusters": rule.n_clusters, "next_id": self.next_id}
        facts |= {"columns": list(self.columns)}
        facts |= {"typical_score": self.typical.score, "least_score": self.typical.least}
        arrays |= rule.arrays() | {"column_edges": self.column_edges}
        arrays |= {"typical": self.typical.values}
        run.write(of + RULE, Result(rule.facts() | facts, arrays))


def score_edges(scores: np.ndarray, boundary: float | None) -> np.ndarray:
    """Return the edges (HISTOGRAM_BINS + 1,) float64 of a histogram of scores (m,).

    Where a boundary divides rows inside from rows outside, a few rows may lie so far out that bins
    down to their scores would leave one for all others. So bins end five interquartile ranges below
    the lower quartile, or as far below the boundary as the highest score is above it, if that is
    lower. Infinite scores are not told apart.
    """
    low, high = 0.0, 1.0
    if np.isfinite(scores).all():
        low, high = float(scores.min()), float(scores.max())
        if boundary is not None:
            lower, upper = np.quantile(scores, [0.25, 0.75])
            end = min(lower - FENCE * (upper - lower), 2.0 * boundary - high)
            low = max(low, float(end))
    if high == low:
        low, high = low - 1.0, high + 1.0
    return np.linspace(low, high, HISTOGRAM_BINS + 1)


def typical_of(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Typical:
    """Return the typical rows in the facts and arrays of a labeller, among others.

    `DataError` where a typical row is longer than any that a rule may be given.
    """
    try:
        check_length(arrays["typical"], 2.0 * LONGEST)
    except UnusableRowsError:
        raise DataError(
            f"array typical: expected rows of a length of at most {2.0 * LONGEST:g}, found a longer"
            " one"
        ) from None
    return Typical(arrays["typical"], facts["typical_score"], facts["least_score"])


def read_labellers(run: RunDirectory, of: str = OWN) -> tuple[Labeller, Labeller | None]:
    """Return the labeller in use, and that of the run before, which is None if there is none.

    Both are the same where the run before labels the table; errors as in `Labeller.read`.
    """
    labeller = Labeller.read(run, of)
    if of == PREVIOUS or not run.has(PREVIOUS + RULE):
        return labeller, labeller if of == PREVIOUS else None
    return labeller, Labeller.read(run, PREVIOUS)
