"""A copy on disk of rows that can be read only once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from distsvc.inputs.exactness import Ends
from distsvc.inputs.rows import Columns, Input, block_rows


class Spool(Input):
    """An input whose first pass writes its rows to a temporary file, which other passes read."""

    def __init__(self, source: Input, file: IO[bytes]):
        super().__init__(source.X, source.asked)
        self.source, self._file, self._whole = source, file, False
        self.opened()

    def columns(self) -> Columns:
        return self.source.header, [self.source.dtype], self.source.names

    def watched(self) -> Ends:
        return self.source.watched()

    def pieces(self) -> Iterator[np.ndarray]:
        if not self._whole:
            for block in self.source.blocks():
                self._file.write(block.data)
                yield block
            self._whole = True
            return
        self._file.seek(0)
        size = block_rows(self.n_features) * self.n_features * self.dtype.itemsize
        while data := self._file.read(size):
            yield np.frombuffer(data, self.dtype).reshape(-1, self.n_features)


@contextmanager
def readable_again(source: Input) -> Iterator[Input]:
    """Yield an input that can be read in many passes: the source, or a `Spool` of it."""
    if not source.once:
        yield source
        return
    with tempfile.TemporaryFile(prefix="distsvc-") as file:
        yield Spool(source, file)
