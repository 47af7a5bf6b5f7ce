"""A look at a table that nobody has clustered yet: what its columns seem to be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.job.config import Job
from distsvc.job.file import parse_job
from distsvc.models.automatic.engine import stays_as_stored
from distsvc.models.columns.described import ColumnDescription, described
from distsvc.models.columns.model import ColumnModel
from distsvc.run.drafts.asked_job import default_job
from distsvc.run.learning.survey import too_few_rows
from distsvc.run.reporting.columns import plain_description
from distsvc.run.work.categories import with_categories
from distsvc.storage.places.scratch import scratch
from distsvc.storage.rows.blocks import Block, Table
from distsvc.storage.rows.categories import MOST_LEVELS
from distsvc.storage.rows.features import Numeric, Vector, nominal_columns
from distsvc.storage.rows.id_detection import ID_NAME, ROW_NUMBER
from distsvc.storage.rows.usable import no_values_error, usable_rows
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

    `described` says what each feature is, by its column. `id` is a column that looks like an id and
    is no feature, None if there is none, and `labels` are columns that look like known classes;
    `logs` columns, learned from as stored, whose logarithm may tell more; `gaps` those with missing
    values; `texts` columns of text that may be categories, with the way to encode them that suits
    the number of their values.
    """

    table: Table
    n_seen: int
    described: dict[str, ColumnDescription]
    id: str | None
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
        block = next(read_blocks(table, 0, table.n_rows, rows))
        _check_usable(job, table, block)
        return _seen(job, table, block)


def _check_usable(job: Job, table: Table, block: Block) -> None:
    """Raise what a run raises of values in the first rows; `DataError` as in `usable_rows`."""
    usable_rows(block, table.shown, table.features, job.missing, unit=False)
    if len(block.X) < table.n_rows:
        return
    if table.n_rows < 2:
        raise too_few_rows(table.n_rows)
    empty = np.flatnonzero(np.isnan(block.X).all(axis=0))
    if len(empty):
        raise no_values_error([table.columns[k] for k in empty])


def _described(job: Job, table: Table, block: Block) -> dict[str, ColumnDescription]:
    """Return what each feature is, by its column, as a run would decide by these rows."""
    X, nominal = block.X.astype(np.float64), nominal_columns(table.features)
    names = [feature.column for feature in table.features]
    if any(isinstance(f, Vector) for f in table.features) or stays_as_stored(X, nominal):
        plain = [plain_description(f, "standard", "") for f in table.features]
        return dict(zip(names, plain, strict=True))
    return dict(zip(names, described(ColumnModel.of(X, nominal), names), strict=True))


def _seen(job: Job, table: Table, block: Block) -> Look:
    stored = [*table.stored, *table.left_out]
    labels = [n for n in stored if _LABEL.search(n) and _are_classes(table, n, len(block.X))]
    ids = [name for name in table.left_out if ID_NAME.search(name)]
    ids += [name for name, why in table.left_out.items() if why == ROW_NUMBER]
    numbers = {
        f.column: table.columns.index(f.column) for f in table.features if isinstance(f, Numeric)
    }
    logs = []
    if len(block.X) >= FEWEST_ROWS:
        values = {name: block.X[:, k] for name, k in numbers.items()}
        logs = [n for n, x in values.items() if n not in labels and _has_a_heavy_tail(x)]
    with_gaps = {table.columns[k] for k in np.flatnonzero(np.isnan(block.X).any(axis=0))}
    gaps = [f.column for f in table.features if not with_gaps.isdisjoint(f.names)]
    texts = [n for n, why in table.left_out.items() if why in _TEXT and n not in (*ids, *labels)]
    ways = {name: _way(table, name, len(block.X)) for name in texts[:MOST_TEXTS]}
    categories = {name: way for name, way in ways.items() if way}
    kinds, found = _described(job, table, block), ids[0] if ids else None
    if any(one.kind != "number" for one in kinds.values()):  # columns are modelled
        logs = []
    return Look(table, len(block.X), kinds, found, labels, logs, gaps, categories)


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


def _has_a_heavy_tail(x: np.ndarray) -> bool:
    """Return whether a few of the values (n,), none below 0, are larger than all others by far."""
    x = x[np.isfinite(x)]
    if len(x) < FEWEST_ROWS or x.min() < 0.0 or x.max() < LARGE:
        return False
    low, middle, high = np.quantile(x, [0.01, 0.5, 0.99])
    return bool(high - middle > HEAVY_TAIL * (middle - low) and high > middle)
