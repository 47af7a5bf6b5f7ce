"""The sizes of a job that decide its memory, and the terms of such a sum."""

from __future__ import annotations

from dataclasses import dataclass, field

MB = 1e6

Terms = dict[str, float]
"""Bytes by their purpose."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of the pieces of a job.

    `n_columns` are those that are clustered, `partition_rows` the rows of the largest partition,
    `block_rows` those in memory at a time, `sample_rows` those that the survey keeps for learning,
    and `value_bytes` the bytes of a value as rows are read: 4 or 8.
    """

    n_rows: int
    n_columns: int
    parts: int
    partition_rows: int
    block_rows: int
    sample_rows: int
    pilot_rows: int
    value_bytes: int = 8

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of float64."""
        return 8 * self.n_columns

    @property
    def sample(self) -> int:
        """Bytes of the sample as float64."""
        return self.row_bytes * self.sample_rows

    @property
    def raw_sample(self) -> int:
        """Bytes of the sample as the table has it."""
        return self.value_bytes * self.n_columns * self.sample_rows

    @property
    def part(self) -> float:
        """Bytes of the largest partition's rows of the sample."""
        return self.raw_sample * self.partition_rows / self.n_rows

    @property
    def block(self) -> int:
        """Bytes of a block of rows."""
        return self.value_bytes * self.n_columns * min(self.block_rows, self.partition_rows)


@dataclass(frozen=True)
class Held:
    """The memory of an algorithm that learns: on the driver, and in each thread of a worker."""

    driver: Terms = field(default_factory=dict)
    worker: Terms = field(default_factory=dict)
