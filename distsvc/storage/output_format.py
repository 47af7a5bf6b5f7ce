"""What the format of an output must offer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa


class OutputFormat(Protocol):
    """Makes what is published of the Parquet parts that the workers leave in a run's folder.

    Parts are given as their file below the run's folder and their number of rows, in order. The
    methods below are those of a format that publishes the parts as they are.

    Attributes
    ----------
    name : str
        As in ``output.format``.
    published : tuple of str
        The files and folders that it leaves beside the manifest.

    """

    name: ClassVar[str]
    published: ClassVar[tuple[str, ...]]

    def check(self, id_name: str, id_type: pa.DataType, names: Sequence[str]) -> None:
        """Check that the format can hold the columns of a run, before anything is computed.

        Raises
        ------
        DataError
            The table's ids can't be held.
        JobFileError
            A column that the job asks for can't be held.

        """
        return

    def begin(self, folder: Path, parts: Sequence[tuple[str, int]]) -> int:
        """Prepare the run's folder and return the number of tasks that `fill` does."""
        return 0

    def fill(self, folder: Path, parts: Sequence[tuple[str, int]], number: int) -> None:
        """Do one of the tasks; in any order, on any worker, more than once if need be."""
        return

    def finish(self, folder: Path) -> None:
        """Leave in the run's folder what is published, once all tasks are done."""
        return
