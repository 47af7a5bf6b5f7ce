"""A look at a table that nobody has clustered yet: what its columns seem to be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.job.file import parse_job
from distsvc.run.drafts.asked_job import default_job
from distsvc.run.work.categories import with_categories
from distsvc.storage.places.scratch import scratch
from distsvc.storage.rows.blocks import Block, Table
from distsvc.storage.rows.categories import MOST_LEVELS
from distsvc.storage.rows.codes import ID_NAME, ROW_NUMBER
from distsvc.storage.rows.features import Numeric
from distsvc.storage.tables.counting import ValueCounts
from distsvc.storage.tables.opening import open_table, read_blocks
from distsvc.storage.tables.sources import source_of

FIRST_ROWS = 10_000
"""Rows that are looked at."""

FIRST_VALUES = 2**24
"""Of wide tables fewer rows, with so many values in all."""

FEWEST_ROWS = 20
"""Of fewer rows, nothing is said of their values."""

HEAVY_TAIL, LARGE = 20.0, 100.0
"""A column of which a logarithm may tell more: how much longer the upper half of its range is than
the lower, without the hundredth at either end, and its largest value, at least."""

_LABEL = re.compile(r"^(labels?|class(es)?|target|species|category|y)$", re.IGNORECASE)
_TEXT = ("string", "large_string")

MOST_TEXTS = 5
"""Columns of text whose values are counted."""

MOST_CLASSES = 100
"""Different values of a column that looks like known classes."""

REPEATED = 2
"""Rows that a value of a category has at least, on average; a name has fewer."""


@dataclass(frozen=True)
class Look:
    """A table as it looks by the first `n_seen` rows, whose values were looked at.

    `ids` and `labels` are columns that look like ids, and like known classes; `logs` columns whose
    logarithm may tell more; `gaps` those with missing values; `texts` columns of text that may be
    categories, with the way to encode them that suits the number of their values.
    """

    table: Table
    n_seen: int
    ids: list[str]
    labels: list[str]
    logs: list[str]
    gaps: list[str]
    texts: dict[str, str]


def look_at(path: str, exclude: Sequence[str] = ()) -> Look:
    """Look at a table's columns, without those to `exclude`, and at its first rows.

    A table of a format without row ranges, such as CSV, is converted on the way.

    Errors as of `open_table`: the table is not there, or no job can read it.
    """
    with scratch("staging") as staging:
        job = parse_job(default_job(path, exclude))
        table = open_table(job.input, staging, mixed=job.is_mixed)
        rows = max(1, min(FIRST_ROWS, FIRST_VALUES // max(len(table.columns), 1)))
        table, _ = with_categories(table, [(0, min(rows, table.n_rows))])
        return _seen(table, next(read_blocks(table, 0, table.n_rows, rows)))


def _seen(table: Table, block: Block) -> Look:
    stored = [*table.stored, *table.left_out]
    labels = [n for n in stored if _LABEL.search(n) and _are_classes(table, n, len(block.X))]
    numbering = [name for name, why in table.left_out.items() if why == ROW_NUMBER]
    ids = [name for name in stored if ID_NAME.search(name)]
    ids += [name for name in numbering if name not in ids]
    numbers = {
        f.column: table.columns.index(f.column) for f in table.features if isinstance(f, Numeric)
    }
    logs = []
    if len(block.X) >= FEWEST_ROWS:
        values = {name: block.X[:, k] for name, k in numbers.items()}
        ids += [n for n, x in values.items() if n not in ids and _counts_rows(x)]
        logs = [n for n, x in values.items() if n not in (*ids, *labels) and _has_a_heavy_tail(x)]
    with_gaps = {table.columns[k] for k in np.flatnonzero(np.isnan(block.X).any(axis=0))}
    gaps = [f.column for f in table.features if not with_gaps.isdisjoint(f.names)]
    texts = [n for n, why in table.left_out.items() if why in _TEXT and n not in (*ids, *labels)]
    ways = {name: _way(table, name, len(block.X)) for name in texts[:MOST_TEXTS]}
    categories = {name: way for name, way in ways.items() if way}
    return Look(table, len(block.X), ids, labels, logs, gaps, categories)


def _way(table: Table, name: str, n_rows: int) -> str:
    """Return how the first rows of a text column are best encoded; nothing where it is no category.

    Those are texts that are long, the same in all rows, or another in nearly every row.
    """
    n_values = _n_values(table, name, n_rows)
    if n_values < 2 or (n_rows >= FEWEST_ROWS and n_values * REPEATED > n_rows):
        return ""
    return "onehot" if n_values <= MOST_LEVELS else "frequency"


def _are_classes(table: Table, name: str, n_rows: int) -> bool:
    """Return whether a column has few values in the first rows, each of several rows."""
    if not source_of(table).states_width:  # svmlight text, whose only other column is the label
        return True
    n_values = _n_values(table, name, n_rows)
    return 1 <= n_values <= MOST_CLASSES and (n_rows < FEWEST_ROWS or n_values * REPEATED <= n_rows)


def _n_values(table: Table, name: str, n_rows: int) -> int:
    """Return how many values a column has in the first rows; 0 where these can't be counted."""
    counted = ValueCounts(table, [name])
    try:
        counted.add(0, n_rows)
    except (DataError, pa.ArrowException):
        return 0
    return len(counted.counts[name])


def _counts_rows(x: np.ndarray) -> bool:
    """Return whether values (n,) number the rows, one after the other."""
    return bool((np.diff(x) == 1.0).all())


def _has_a_heavy_tail(x: np.ndarray) -> bool:
    """Return whether a few of the values (n,), none below 0, are larger than all others by far."""
    x = x[np.isfinite(x)]
    if len(x) < FEWEST_ROWS or x.min() < 0.0 or x.max() < LARGE:
        return False
    low, middle, high = np.quantile(x, [0.01, 0.5, 0.99])
    return bool(high - middle > HEAVY_TAIL * (middle - low) and high > middle)
