"""Rows that come once, kept on disk for the passes after the first."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from distsvc.inputs.exactness import Ends
from distsvc.inputs.rows import Input, block_rows


class Kept(Input):
    """An input that can be read once, with a copy of its rows in a temporary file without a name.

    The first pass reads the input and writes the copy, all others read that.
    """

    def __init__(self, source: Input):
        super().__init__(source.X, source.asked)
        self.source, self._whole = source, False
        self._file = tempfile.TemporaryFile(prefix="distsvc-")  # noqa: SIM115 - `close` does
        self.opened()

    def columns(self) -> tuple[Any, Sequence[np.dtype], Sequence[str] | None]:
        """Return those of the source."""
        return self.source.header, [self.source.dtype], self.source.names

    def watched(self) -> Ends:
        """Return those of the source."""
        return self.source.watched()

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the rows, from the input or from its copy."""
        return self._read() if self._whole else self._copied()

    def close(self) -> None:
        """Remove the copy."""
        self._file.close()

    def _copied(self) -> Iterator[np.ndarray]:
        for block in self.source.blocks():
            self._file.write(block.data)
            yield block
        self._whole = True

    def _read(self) -> Iterator[np.ndarray]:
        self._file.seek(0)
        size = block_rows(self.n_features) * self.n_features * self.dtype.itemsize
        while data := self._file.read(size):
            yield np.frombuffer(data, self.dtype).reshape(-1, self.n_features)


@contextmanager
def readable_again(source: Input) -> Iterator[Input]:
    """Give an input that can be read in many passes, within the context."""
    if not source.once:
        yield source
        return
    kept = Kept(source)
    try:
        yield kept
    finally:
        kept.close()
