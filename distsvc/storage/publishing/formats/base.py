"""The interface of an output format, and Parquet, which publishes the parts as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import DataError
from distsvc.storage.places.store import Store


class OutputFormat(Protocol):
    """Turns the Parquet parts that the workers write into published files.

    Parts are given as the store they are in and, in order, their files with their numbers of
    rows. The methods below are those of a format that publishes the parts as they are, which
    `publishes_parts` says; else they are a step on the way. `name` is as in ``output.format``.
    """

    name: ClassVar[str]
    publishes_parts: ClassVar[bool]

    def check(self, id_name: str, id_type: pa.DataType, names: Sequence[str]) -> None:
        """Check that the format can hold the columns of a run, before anything is computed.

        Raises `DataError` for ids of the table, and `JobFileError` for a column that the
        job asks for, that can't be held.
        """
        return

    def begin(self, store: Store, source: Store, parts: Sequence[tuple[str, int]]) -> int:
        """Prepare the store of the published files; return the number of tasks of `fill`.

        The store is empty or begun; the parts are in `source`.
        """
        return 0

    def fill(
        self, store: Store, source: Store, parts: Sequence[tuple[str, int]], number: int
    ) -> dict[str, dict[str, int | str]]:
        """Do one of the tasks; in any order, on any worker, more than once if need be.

        Returns what `described` says of the files that it wrote, by their names in the store.
        """
        return {}

    def owns(self, files: Sequence[str]) -> bool:
        """Return whether these published files are of this format."""
        return bool(files) and all(name.endswith(".parquet") for name in files)

    def read(
        self, files: Sequence[str], local: Callable[[str], Path], columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Yield published columns part by part, from these files only.

        `local` returns where one of the files can be read.
        """
        for name in files:
            path = local(name)
            try:
                part = pq.ParquetFile(path).read(columns=list(columns))
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{path} can't be read: {error}") from error
            lacking = [column for column in columns if part.column_names.count(column) != 1]
            if lacking:
                raise DataError(f"{path}: expected one column {lacking[0]!r}, as the manifest says")
            yield part


class ParquetLabels(OutputFormat):
    """A folder of one file for each partition; it holds every type of id."""

    name = "parquet"
    publishes_parts = True
