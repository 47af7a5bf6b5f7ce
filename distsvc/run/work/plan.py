"""The facts about the input that every task needs: the table, its cut, and the values it may have.

Cutting a table is arithmetic on row numbers (`distsvc.run.work.partitions`). A part becomes a file
of labels. Where parts are small, a task does several, which are its partition, and leaves one
result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distsvc.errors import DataError, EmptyInputError
from distsvc.job.config import Job, OutputConfig
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.run.work.categories import strangers, with_categories
from distsvc.run.work.partitions import choose_block_rows, joined, plan_parts
from distsvc.run.work.progress import Meter
from distsvc.storage.places.store import store_of
from distsvc.storage.rows.blocks import Block, Table
from distsvc.storage.rows.features import Feature
from distsvc.storage.rows.usable import infinite_value_error, select_rows, usable_rows
from distsvc.storage.tables.opening import notes_on_columns, read_blocks

PILOT_BYTES = 16 * 2**20
FIRST_VALUES = 2**26
"""Of the rows near which the data is thought to be."""
MOST_PARTITIONS = 10**7
PARTITION_BYTES = 2**28
"""Of a partition's rows, which a worker may have to hold when all belong to the sample."""


@dataclass(frozen=True)
class Plan:
    """The reading of a table: the same on the driver and on every worker.

    Attributes
    ----------
    parts : list of (int, int)
        Row ranges [start, stop) in table order; there is a file of labels for each.
    partitions : list of (int, int)
        Row ranges of one or more whole parts, each the work of a task; `block_rows` are in memory
        at a time.
    missing : str
        ``error``, ``drop`` or ``median``, or ``auto`` if missing values stay NaN.
    unit : bool
        Whether rows are divided by their lengths, so that those of zeros can't be used.
    seed : int
        Decides the keys of the rows.
    shift : ndarray of shape (d,), float64
        A point near the data, about which sums of squares are taken; read-only.
    output : OutputConfig
        As in the job, with an absolute path or URL.
    notes : list of str
        What is remarkable about storage, columns and categories, for the top of the page.

    """

    table: Table
    parts: list[tuple[int, int]]
    partitions: list[tuple[int, int]]
    block_rows: int
    missing: str
    unit: bool
    seed: int
    pilot_rows: int
    shift: np.ndarray
    output: OutputConfig
    notes: list[str]

    @classmethod
    def of(
        cls, job: Job, table: Table, before: Sequence[Feature] = (), meter: Meter | None = None
    ) -> Plan:
        """Cut the table, and find a point near its data for sums of squares to be taken about.

        Categories that are not known yet are counted before; those that `before` has, the features
        of the run that this one goes on from, are kept. `meter` shows how far that is.
        """
        about = notes_on_columns(table) if job.input.columns is None else []
        table, notes = with_categories(table, joined(cut(job, table), 1), before, meter)
        d, parts = len(table.columns), cut(job, table)
        first = next(
            read_blocks(table, 0, table.n_rows, max(1, min(1024, FIRST_VALUES // d))), None
        )
        if first is None:
            raise EmptyInputError(
                f"{table.shown} has no rows: input.where = {job.input.where!r} leaves none of its "
                f"{table.n_rows}"
            )
        known = np.where(np.isfinite(first.X), first.X, 0.0).astype(np.float64)
        return cls(
            table=table,
            parts=parts,
            partitions=joined(parts, d),
            block_rows=job.cluster.block_rows or choose_block_rows(d),
            missing=job.missing,
            unit=job.preprocess.scale in ("unit", "auto"),
            seed=job.model.seed,
            pilot_rows=pilot_rows(d),
            shift=np.median(known, axis=0),
            output=job.output.model_copy(update={"path": store_of(job.output.path).address}),
            notes=[*table.notes, *about, *notes, *strangers(table, first.X)],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as what JSON can hold."""
        output = {"output": self.output.model_dump(), "shift": self.shift.tolist()}
        return vars(self) | {"table": self.table.to_dict()} | output

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Plan:
        """Return the plan that `to_dict` described."""
        shift = np.array(content["shift"], np.float64)
        shift.flags.writeable = False
        fields = {
            "table": Table.from_dict(content["table"]),
            "parts": [(start, stop) for start, stop in content["parts"]],
            "partitions": [(start, stop) for start, stop in content["partitions"]],
            "shift": shift,
            "output": OutputConfig.model_validate(content["output"]),
        }
        return cls(**content | fields)

    def blocks(self, number: int, **columns: bool) -> Iterator[Block]:
        """Yield the blocks of a partition, less rows with missing values where the job drops them.

        Raises `DataError` for infinity, for NaN where missing values are errors, and for a row of
        zeros where rows are divided by their lengths, which is dropped like one with a missing
        value.
        """
        start, stop = self.partitions[number]
        for block in read_blocks(self.table, start, stop, self.block_rows, **columns):
            features = self.table.features
            yield select_rows(
                block, usable_rows(block, self.table.shown, features, self.missing, self.unit)
            )

    def parts_of(self, number: int) -> range:
        """Return the numbers of a partition's parts."""
        start, stop = self.partitions[number]
        return range(bisect_left(self.parts, (start,)), bisect_left(self.parts, (stop,)))

    def unusable(self, block: Block, row: int, column: int) -> DataError:
        """Return the error for a value of a block that can't be used."""
        return infinite_value_error(block, row, column, self.table.shown, self.table.features)


def cut(job: Job, table: Table) -> list[tuple[int, int]]:
    """Return the parts of a table; `DataError` where they would be too many."""
    d = max(len(table.columns), 1)
    rows = min(job.cluster.partition_rows, max(PARTITION_BYTES // (8 * d), 1))
    if table.n_rows > rows * MOST_PARTITIONS:
        raise DataError(
            f"{table.shown} says it has {table.n_rows} rows of {d} columns, which are "
            f"more than {MOST_PARTITIONS} partitions of {rows} rows"
        )
    return plan_parts(table.layout.extents, rows)


def pilot_rows(n_columns: int) -> int:
    """Return how many rows the pilot of a table of so many columns has, at most."""
    return max(100, min(PILOT_ROWS, PILOT_BYTES // (8 * n_columns)))
