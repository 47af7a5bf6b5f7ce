"""The sizes that decide the memory of a job, and terms of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

MB = 1e6

Terms = dict[str, float]
"""Bytes by their purpose."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows and columns in the pieces of a job.

    Attributes
    ----------
    n_columns : int
        Columns that are clustered.
    partition_rows, block_rows, sample_rows : int
        Rows of the largest partition, of a block, and of the sample kept by the survey.
    value_bytes : int
        Bytes of a value as read: 4 or 8.

    """

    n_rows: int
    n_columns: int
    partitions: int
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
        """Bytes of the sample as read."""
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
    """Memory of a learning algorithm: on the driver, and in each thread of a worker."""

    driver: Terms = field(default_factory=dict)
    worker: Terms = field(default_factory=dict)
