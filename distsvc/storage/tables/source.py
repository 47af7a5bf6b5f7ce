"""The interface of an input format."""

from collections.abc import Iterator, Set
from functools import partial
from typing import Any, ClassVar, Protocol

from distsvc.job.config import InputConfig
from distsvc.storage.places.location import Location, Versions
from distsvc.storage.places.store import Store
from distsvc.storage.rows.blocks import Batches, Block, Span, Table, arrow_blocks
from distsvc.storage.rows.columns import Scan
from distsvc.storage.rows.where import Condition
from distsvc.storage.tables.files import Files


class Source(Protocol):
    """Interface of an input format, such as Parquet, CSV or Zarr."""

    name: ClassVar[str]  # name in plans and reports
    title: ClassVar[str]  # name in messages
    suffixes: ClassVar[tuple[str, ...]]  # suffixes of files or stores, in lower case
    # If False, a column that no row mentions is valid, and all zero.
    states_width: ClassVar[bool] = True
    joins: ClassVar[bool] = True  # whether a job may list several paths of one table

    def is_store(self, location: Location) -> bool:
        """Return True if a location is one table as a whole, such as a Zarr group."""
        return False

    def found(self, location: Location) -> Files:
        """Return the files that a Delta or Iceberg table's log lists; no files for a Zarr store."""
        return Files(location, location, {})

    def claim(self, found: Files) -> Files:
        """Return the files that this format can read. By default, the suffixes decide."""
        return found.named(self.suffixes)

    def versions(self, found: Files) -> Versions:
        """Return the version of each file, by which a change of the table is noticed later."""
        return found.versions

    def needed(self, found: Files, condition: Condition | None) -> Files:
        """Return the files that may contain rows matching a condition."""
        return found

    def scan(self, found: Files, config: InputConfig, staging: Store, categories: Set[str]) -> Scan:
        """Read a table's metadata: columns, types and storage units.

        Text formats such as CSV are first converted into `staging`. The columns `categories` are
        read as text, even if their values look like numbers. `DataError` names the faulty file, and
        the line or column. `JobFileError` if the job needs what the format lacks, such as an id.
        """
        ...

    def notes(self, found: Files, scan: Scan, versions: Versions, columns: Set[str]) -> list[str]:
        """Return warnings about the storage of the columns that a job uses."""
        return []

    def blocks(self, table: Table, span: Span) -> Iterator[Block]:
        """Yield rows of a table, as `opening.read_blocks` does."""
        return arrow_blocks(table, span, partial(self.batches, table, span))

    def batches(self, table: Table, span: Span, columns: list[str]) -> Batches:
        """Yield the rows of a span, some thousands at a time, as Arrow arrays by column.

        Formats with columns of numbers only don't need this method.
        """
        raise TypeError(f"{self.title} has only columns of numbers")

    def folder(self, table: Table) -> Location:
        """Return the folder that holds the files of a table."""
        return Location.of(table.layout.path).at(table.layout.root)

    def decoding_bytes(self, table: Table, block_rows: int) -> int:
        """Return the maximum memory in bytes that `blocks` needs besides the blocks it yields."""
        return 0

    def sparse_rows(self, table: Table) -> Any:
        """Return all rows as CSR of float64, or None for dense formats."""
        return None
