"""The plan of a run: its table, cut into partitions, and its policy for missing values.

A partition is the work of a task, and becomes a file of labels.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from distsvc.errors import DataError, EmptyInputError, shown
from distsvc.job.config import Job, OutputConfig
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.run.work.progress import Meter
from distsvc.storage.places.store import store_of
from distsvc.storage.rows.blocks import Block, Span, Table
from distsvc.storage.rows.columns import check_names, truncated
from distsvc.storage.rows.features import (
    AS_CODES,
    BUCKET,
    Category,
    Codes,
    Feature,
    Uncounted,
    text_counts,
)
from distsvc.storage.rows.usable import counts_as_missing, select_rows, usable_rows
from distsvc.storage.tables.opening import notes_on_columns, read_blocks
from distsvc.storage.tables.values import add_counts, matching_batches

PARTITION_BYTES, MAX_PARTITIONS, SMALL_PARTITIONS = 2**28, 10**7, 64
"""Maximum bytes of a partition, since a worker may load a whole partition into memory; maximum
number of partitions; maximum number of partitions that have fewer rows than a block."""

BLOCK_BYTES, MAX_BLOCK_ROWS, PILOT_BYTES, MAX_FIRST_VALUES = 2**25, 65_536, 2**24, 2**26
"""Maximum bytes of a block, rows of a block, and bytes of the pilot.

The last number is the maximum number of values in the first rows, which decide `Plan.shift`.
"""

Range = tuple[int, int]
"""Row range [start, stop)."""


def _point(numbers: Sequence[float]) -> np.ndarray:
    found = np.array(numbers, np.float64)
    found.flags.writeable = False
    return found


StoredPoint = Annotated[np.ndarray, PlainValidator(_point), PlainSerializer(np.ndarray.tolist)]


@dataclass(frozen=True)
class Plan:
    """The settings with which the driver and all workers read a table."""

    table: Table
    partitions: list[Range]  # tasks in table order, each with a file of labels
    block_rows: int  # rows in memory at a time
    missing: str  # policy: ``error``, ``drop``, ``median``, or ``auto``, where values stay NaN
    unit: bool  # rows are divided by their lengths, so rows of zeros can't be used
    seed: int  # seed of the row keys
    pilot_rows: int
    shift: StoredPoint  # (d,): a point near the data, subtracted before squares are summed
    output: OutputConfig  # with an absolute path or URL
    notes: list[str]  # notes on storage, columns and categories

    @classmethod
    def of(
        cls, job: Job, table: Table, before: Sequence[Feature] = (), meter: Meter | None = None
    ) -> Self:
        """Return the plan of a job's table, and count the values of its categories.

        `before` are the features of the previous model, whose categories keep their levels. The
        `meter` counts the partitions that are read.
        """
        about = notes_on_columns(table) if job.input.columns is None else []
        counted = {feature.column for feature in table.features if isinstance(feature, Uncounted)}
        table, notes = with_categories(table, cut(job, table), before, meter)
        d = len(table.columns)
        first_rows = max(1, min(1024, MAX_FIRST_VALUES // d))
        first = next(read_blocks(table, Span(0, table.n_rows, first_rows)), None)
        if first is None:
            raise EmptyInputError(
                f"{table.shown} has no rows: input.where = {job.input.where!r} leaves none of its "
                f"{table.n_rows}"
            )
        table, new = unknown_values(table, first, counted)
        known = np.where(np.isfinite(first.X), first.X, 0.0).astype(np.float64)
        return cls(
            table=table,
            partitions=cut(job, table),
            block_rows=job.cluster.block_rows or choose_block_rows(d),
            missing=job.missing,
            unit=job.preprocess.scale in ("unit", "auto"),
            seed=job.model.seed,
            pilot_rows=pilot_rows(d),
            shift=np.median(known, axis=0),
            output=job.output.model_copy(update={"path": store_of(job.output.path).address}),
            notes=[*table.notes, *about, *notes, *new],
        )

    def blocks(self, number: int, **columns: bool) -> Iterator[Block]:
        """Yield the blocks of a partition, without the rows that the policy drops."""
        span = Span(*self.partitions[number], self.block_rows, **columns)
        shown, features = self.table.shown, self.table.features
        for block in read_blocks(self.table, span):
            yield select_rows(block, usable_rows(block, shown, features, self.missing, self.unit))


STORED_PLAN = TypeAdapter(Plan)
"""Converts plans to JSON values and back."""


def cut(job: Job, table: Table) -> list[Range]:
    """Return the partitions of a table; `DataError` if they are too many."""
    # A partition has at least the rows of a block or a 64th of the table, since it costs a task
    # and a file.
    d = max(len(table.columns), 1)
    rows = min(job.cluster.partition_rows, max(PARTITION_BYTES // (8 * d), 1))
    rows = max(rows, min(choose_block_rows(d), table.n_rows // SMALL_PARTITIONS))
    if table.n_rows > rows * MAX_PARTITIONS:
        raise DataError(
            f"{table.shown}: expected at most {MAX_PARTITIONS * rows:,} rows, found "
            f"{table.n_rows:,} by its metadata; is the table damaged?"
        )
    return plan_partitions(table.layout.extents, rows)


def pilot_rows(n_columns: int) -> int:
    """Return the maximum number of rows in the pilot."""
    return max(100, min(PILOT_ROWS, PILOT_BYTES // (8 * n_columns)))


def plan_partitions(extents: Sequence[int], partition_rows: int) -> list[Range]:
    """Return ranges of about `partition_rows` rows; `extents` are row counts of storage units."""
    # Small units are joined. A unit of more than twice `partition_rows` is cut evenly, and decoded
    # several times.
    partitions: list[Range] = []
    start = stop = 0
    for rows in extents:
        if start < stop and stop + rows - start > partition_rows:
            partitions.append((start, stop))
            start = stop
        stop += rows
        if rows > 2 * partition_rows:
            pieces = -(-rows // partition_rows)
            edges = [start + rows * i // pieces for i in range(pieces + 1)]
            partitions.extend(itertools.pairwise(edges))
            start = stop
    if start < stop:
        partitions.append((start, stop))
    return partitions


def choose_block_rows(n_columns: int) -> int:
    """Return the number of rows to read at a time, in a table of `n_columns` columns."""
    return max(1, min(MAX_BLOCK_ROWS, BLOCK_BYTES // (8 * n_columns)))


def with_categories(
    table: Table,
    partitions: Sequence[Range],
    before: Sequence[Feature] = (),
    meter: Meter | None = None,
) -> tuple[Table, list[str]]:
    """Choose the levels of a table's categories by their counts; return the table and notes.

    `before` are the features of the previous model. If a category has the same encoding there, its
    levels stay, so that both models have the same columns.
    """
    uncounted = {f.column: f for f in table.features if isinstance(f, Uncounted)}
    if not uncounted:
        return table, []
    as_codes = {name for name, feature in uncounted.items() if feature.kind == AS_CODES}
    all_counts = {name: Counter[str]() for name in uncounted}
    if meter is not None:
        meter.begin(len(partitions))
    for start, stop in partitions:
        add_counts(all_counts, table, start, stop, as_codes)
        if meter is not None:
            meter.finished(stop - start)
    earlier = {f.column: f for f in before if isinstance(f, Category)}
    features, notes, new_values = list[Feature](), list[str](), dict[str, str]()
    for feature in table.features:
        if isinstance(feature, Uncounted):
            counts, known = all_counts[feature.column], earlier.get(feature.column)
            if known is not None and known.kind == feature.kind:
                feature = known
                if note := _more_other_values(known, counts):
                    notes.append(note)
                    new_values[known.column] = known.commonest_unknown(counts)
            else:
                feature = feature.counted(counts)
        features.append(feature)
    check_names(table.shown, features)
    return replace(table, features=tuple(features), new_values=new_values), notes


def unknown_values(table: Table, first: Block, counted: Set[str]) -> tuple[Table, list[str]]:
    """Search the first rows for values of categories that the previous model does not know.

    Return the table with such values in `new_values`, and warnings. There is also a warning about
    columns without values. Categories in `counted` are left out, since their levels were chosen
    from this table.
    """
    # Without a warning, a column of text that now has numbers would silently become one cluster.
    known = {
        feature.column: feature
        for feature in table.features
        if isinstance(feature, Category) and feature.column not in {*table.without_values, *counted}
    }
    notes = counts_as_missing(table.without_values, table.shown)
    if not known:
        return table, notes
    span = Span(int(first.rows[0]), int(first.rows[-1]) + 1, len(first.rows))
    batches, new_values = list(matching_batches(table, span, list(known))), table.new_values
    for name, feature in known.items():
        counts = sum((text_counts(batch[name]) for batch in batches), Counter[str]())
        if note := feature.change(counts, len(first.X)):
            notes.append(note)
            new_values = new_values | {name: feature.commonest_unknown(counts)}
    return replace(table, new_values=new_values), notes


def _more_other_values(known: Category, counts: dict[str, int]) -> str | None:
    """Return a warning if rare values are much more frequent than when the model was learned."""
    rest = known.risen_rest(counts)
    if rest is None:
        return None
    is_missing = isinstance(known, Codes) and not known.rest
    if is_missing and counts.keys().isdisjoint(known.known):
        of_before = truncated([repr(value) for value in known.known])
        raise DataError(
            f"column {known.column!r} has only values that are new to the previous run, such as "
            f"{shown(next(iter(counts)))}, expected {of_before}: mend the table, or remove "
            "continuity.previous, so that cluster ids start at 0"
        )
    return (
        f"{rest:.1%} of the values of {known.column!r} ({known.rest:.1%} when the categories were "
        f"chosen) are new or rare, such as {known.commonest_unknown(counts)}, and count as "
        f"{'missing' if is_missing else repr(BUCKET)}; to choose the categories again, remove the "
        "section [continuity], so that cluster ids start at 0"
    )
