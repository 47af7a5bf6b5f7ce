"""The labeller of a run: the rule that labels its rows, and the published ids of its clusters.

The labeller also has the bin edges by which labelled rows are counted. A run that continues an
earlier run also has the labeller of the earlier run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from distsvc.errors import DataError, UnusableRowsError, times_in_words
from distsvc.models.nights.drift import decile_edges, unit_factors
from distsvc.models.rows.scaling import MAX_ROW_LENGTH, check_length
from distsvc.models.rules.rule import Rule, Typical
from distsvc.run.algorithms import rule_named
from distsvc.run.work.directory import Result, RunDirectory

HISTOGRAM_BINS = 60
RULE = "rule"
COUNTED, COUNTS = "counted", ("column_counts", "score_counts", "cluster_counts")
"""Names of a stored result and its arrays: counts of the table that the model learned from."""

OWN, PREVIOUS, REFERENCE = "", "previous-", "reference-"
"""Prefixes of the names of stored results.

They distinguish results of the run itself, of the previous run, and of the reference for drift.
"""

MIN_UNIT_ROWS, MAX_UNIT_ROWS = 100, 1024
"""Minimum and maximum number of rows that are examined for changes of a unit."""


@dataclass(frozen=True)
class Labeller:
    """A rule, the ids of its clusters, and bin edges for counts."""

    rule: Rule
    ids: np.ndarray  # (k,) int32: published ids of the clusters
    next_id: int  # above every id ever used
    score_edges: np.ndarray  # (HISTOGRAM_BINS + 1,); the outermost bins are unbounded
    column_edges: np.ndarray  # (d, DRIFT_BINS - 1): edges of the values of `columns`
    columns: Sequence[str]
    typical: Typical  # typical rows of the clusters, for reasons

    @classmethod
    def of(
        cls,
        rule: Rule,
        ids: tuple[np.ndarray, int],
        columns: Sequence[str],
        raw: np.ndarray,
        pilot: np.ndarray,
    ) -> Self:
        """Return the labeller of a rule, with bin edges that are computed from the pilot.

        `raw` and `pilot` are the pilot's rows as stored and as prepared. `ids` has the ids of the
        clusters (k,), and the next unused id.
        """
        edges = score_edges(rule.unrounded_scores(pilot), rule.words.boundary)
        typical = Typical.of(pilot, rule.label(pilot), rule.n_clusters, rule.words.has_outliers)
        return cls(rule, *ids, edges, decile_edges(raw), columns, typical)

    def places(self, columns: Sequence[str]) -> slice | list[int]:
        """Return the positions of the rule's columns in a table."""
        if list(columns) == list(self.columns):
            return slice(None)
        return [list(columns).index(name) for name in self.columns]

    def changed_units(self, rows: np.ndarray) -> list[str]:
        """Return a warning for each column of rows (n, d) in another unit than the model's table.

        The rows have the rule's columns. The first `MAX_UNIT_ROWS` are examined, if there are at
        least `MIN_UNIT_ROWS`.
        """
        rows = rows[:MAX_UNIT_ROWS]
        if len(rows) < MIN_UNIT_ROWS:
            return []
        factors = unit_factors(self.column_edges, rows.astype(np.float64))
        return [
            f"values of {name!r} in the first {len(rows):,} rows are {times_in_words(factor)} "
            f"the values of the model's table: the unit of {name!r} may have changed"
            for name, factor in zip(self.columns, factors, strict=True)
            if np.isfinite(factor)
        ]

    @classmethod
    def read(cls, run: RunDirectory, of: str = OWN) -> Self:
        """Return a labeller that is stored in a run; `DataError` if it is damaged.

        `of` is the prefix of the stored result, such as `PREVIOUS`.
        """
        found = run.read(of + RULE)
        try:
            rule = rule_named(found.facts.get("algorithm", "")).restored(found.facts, found.arrays)
        except DataError as error:
            raise DataError(f"{run.address}: result {of + RULE}: {error}") from None
        facts, arrays = found.facts, found.arrays
        edges, typical = (arrays["score_edges"], arrays["column_edges"]), typical_of(facts, arrays)
        return cls(rule, arrays["ids"], facts["next_id"], *edges, facts["columns"], typical)

    def write(self, run: RunDirectory, of: str = OWN) -> None:
        rule, arrays = self.rule, {"ids": self.ids, "score_edges": self.score_edges}
        facts = {"algorithm": rule.form, "n_clusters": rule.n_clusters, "next_id": self.next_id}
        facts |= {"columns": list(self.columns)}
        facts |= {"typical_score": self.typical.score, "least_score": self.typical.least}
        arrays |= rule.arrays() | {"column_edges": self.column_edges}
        arrays |= {"typical": self.typical.values}
        run.write(of + RULE, Result(rule.facts() | facts, arrays))


def score_edges(scores: np.ndarray, boundary: float | None) -> np.ndarray:
    """Return the edges (HISTOGRAM_BINS + 1,) of a histogram of scores (m,)."""
    # A few very low scores would put all other rows into one bin. With a boundary, bins therefore
    # begin 5 interquartile ranges below the lower quartile, or if that is lower, as far below the
    # boundary as the highest score is above it.
    low, high = 0.0, 1.0
    if np.isfinite(scores).all():
        low, high = float(scores.min()), float(scores.max())
        if boundary is not None:
            lower, upper = np.quantile(scores, [0.25, 0.75])
            end = min(lower - 5.0 * (upper - lower), 2.0 * boundary - high)
            low = max(low, float(end))
    if high == low:
        low, high = low - 1.0, high + 1.0
    return np.linspace(low, high, HISTOGRAM_BINS + 1)


def typical_of(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Typical:
    """Return the typical rows in a stored labeller; `DataError` if one is too long."""
    try:
        check_length(arrays["typical"], 2.0 * MAX_ROW_LENGTH)
    except UnusableRowsError:
        raise DataError(
            f"array typical: expected rows with a length of at most {2.0 * MAX_ROW_LENGTH:g}, "
            "found a longer one"
        ) from None
    return Typical(arrays["typical"], facts["typical_score"], facts["least_score"])


def read_labellers(run: RunDirectory, of: str) -> tuple[Labeller, Labeller | None]:
    """Return the labeller of this run, and the labeller of the previous run or None.

    If `of` is `PREVIOUS`, the previous model labels this run, and both labellers are equal.
    """
    labeller = Labeller.read(run, of)
    if of == PREVIOUS:
        return labeller, labeller
    return labeller, Labeller.read(run, PREVIOUS) if run.has(PREVIOUS + RULE) else None
