"""Categories of a table: their values are counted once, or known from the run before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from distsvc.run.work.progress import Meter
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.categories import AS_CODES, Category, Uncounted
from distsvc.storage.rows.columns import check_names
from distsvc.storage.rows.features import Feature
from distsvc.storage.tables.counting import ValueCounts

STRANGE = 0.5
"""Share of a table's first rows by which a bucket may be larger before a warning."""

GROWN = 0.05
"""Share of all rows by which a bucket may grow before a warning."""


def with_categories(
    table: Table,
    partitions: Sequence[tuple[int, int]],
    before: Sequence[Feature] = (),
    meter: Meter | None = None,
) -> tuple[Table, list[str]]:
    """Return a table whose categories are known, and what is remarkable about them.

    Their values are counted in one reading of those columns, after ``where``. What the run before
    made of the same column in the same way is kept, so that both models know the same columns.

    `DataError` where a column has too many values, or too long ones, or can't be read, or makes a
    feature that is called like another column.
    """
    uncounted = {f.column: f for f in table.features if isinstance(f, Uncounted)}
    if not uncounted:
        return table, []
    cut = {name for name, feature in uncounted.items() if feature.kind == AS_CODES}
    counting = ValueCounts(table, list(uncounted), cut)
    if meter is not None:
        meter.begin(len(partitions))
    for start, stop in partitions:
        counting.add(start, stop)
        if meter is not None:
            meter.finished(stop - start)
    kept = {f.column: f for f in before if isinstance(f, Category)}
    features, notes = [], []
    for feature in table.features:
        if isinstance(feature, Uncounted):
            counts, known = counting.counts[feature.column], kept.get(feature.column)
            if known is not None and known.kind == feature.kind:
                notes += _grown(known, counts)
                feature = known
            else:
                feature = feature.counted(counts)
        features.append(feature)
    check_names(table.shown, features)
    return replace(table, features=tuple(features)), notes


def strangers(table: Table, X: np.ndarray) -> list[str]:
    """Return a warning of each category most of whose values in the first rows X (n, d) are new.

    Numbers in a column that held text, or the words of another language, would else be one cluster
    without a word.
    """
    notes, first = [], 0
    for feature in table.features:
        stop = first + len(feature.names)
        if isinstance(feature, Category):
            share = float(feature.in_bucket(X[:, first:stop]).mean())
            if share > feature.rest + STRANGE:
                notes.append(
                    f"{share:.0%} of the first {len(X):,} rows have a value of {feature.column!r} "
                    "that the model does not know: is the column what it was?"
                )
        first = stop
    return notes


def _grown(known: Category, counts: dict[str, int]) -> list[str]:
    """Return a warning where many more rows are in a bucket than when its values were counted."""
    values, n_rows = set(known.known), max(sum(counts.values()), 1)
    rest = sum(n for value, n in counts.items() if value not in values) / n_rows
    if rest <= known.rest + GROWN:
        return []
    return [
        f"{rest:.1%} of the rows have a new or rare value of {known.column!r}, which counts as "
        f"'other' ({known.rest:.1%} when the categories were chosen); a run without "
        "continuity.previous chooses them anew, and its cluster ids start at 0"
    ]
