"""Interim."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.storage.parts import PartBuilder


@dataclass(frozen=True)
class Column:
    """A column."""

    name: str
    type: Any
    fill: Any
    meaning: str


COLUMNS = (
    Column("row", pa.int64(), -1, "the input's id, or the row's number"),
    Column("label", pa.int32(), -1, ""),
    Column("score", pa.float32(), np.nan, ""),
    Column("outlier", pa.bool_(), False, ""),
    Column(
        "reasons",
        pa.string(),
        None,
        "string, null inside: the columns that pull the row out most, with their shares of all that do",
    ),
)


class Part:
    """Interim."""

    def __init__(self, id_name, id_type, names):
        self._b = PartBuilder(id_name, id_type, with_reasons="reasons" in names)

    def add(self, ids, c):
        self._b.add(ids, c["label"], c["score"], c["outlier"], c.get("reasons"))

    def write(self, path):
        return self._b.write(path)
