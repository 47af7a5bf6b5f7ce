"""Duplicate and missing ids, counted while rows are labelled.

Each id is hashed to 64 bits. A table of more than `MAX_IDS` rows is sampled by hash, so all rows of
an id are compared or none, and memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import shown
from distsvc.models.rows.sampling import row_keys, text_keys
from distsvc.run.work.directory import Result
from distsvc.storage.places.store import Store

MAX_IDS = 2**22
"""Approximate maximum number of ids that are compared."""


@dataclass
class IdCounts:
    """Keys of the ids of each partition, and the number of missing ids.

    Keys are arrays (n,) uint64. With `bits` above 0, one in 2^bits ids has a key.
    """

    bits: int
    keys: list[np.ndarray] = field(default_factory=list)
    missing: int = 0

    @classmethod
    def of_table(cls, n_rows: int) -> IdCounts:
        """Return empty counts for a table of at most `n_rows` rows."""
        return cls(max((n_rows - 1) // MAX_IDS, 0).bit_length())

    def add(self, ids: pa.Array) -> None:
        """Count the ids of some rows."""
        keys = id_keys(ids.drop_null())
        self.keys.append(keys[keys >> np.uint64(64 - self.bits) == 0] if self.bits else keys)
        self.missing += ids.null_count

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts of a partition, for `merge`."""
        keys = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        return {"ids": keys, "missing_ids": np.array(self.missing)}

    def merge(self, result: Result) -> None:
        """Add the counts of the next partition."""
        self.keys.append(result.arrays["ids"])
        self.missing += int(result.arrays["missing_ids"])

    def report(self, parts: Store, files: Callable[[int], Sequence[str]], column: str) -> IdReport:
        """Return the report; an example is read from the `files` of a partition in `parts`."""
        ordered = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        ordered.sort()
        same = ordered[1:] == ordered[:-1]
        repeated = ordered[1:][same]
        if not len(repeated):
            return IdReport(0, self.missing, self.bits, None)
        shared = np.append(same, False) | np.append(False, same)
        found = (keys[np.isin(keys, repeated)] for keys in self.keys)
        number, first = next((k, keys[0]) for k, keys in enumerate(found) if len(keys))
        read = [pq.read_table(parts.local(name), columns=[column]) for name in files(number)]
        ids = pa.concat_tables(read).column(0).combine_chunks().drop_null()
        place = int(np.flatnonzero(id_keys(ids) == first)[0])
        return IdReport(int(shared.sum()), self.missing, self.bits, ids[place].as_py())


@dataclass(frozen=True)
class IdReport:
    """Numbers of rows with shared and with missing ids, and an example."""

    shared: int
    missing: int
    bits: int
    example: Any

    @property
    def of_part(self) -> str:
        """Words for the compared share of the ids; empty if it is all."""
        return f" (among one in {2**self.bits:,} ids, which were compared)" if self.bits else ""

    def notes(self, column: str) -> list[str]:
        """Return warnings about shared and missing ids."""
        notes = []
        if self.shared:
            notes.append(
                f"{self.shared:,} rows share their id with another row{self.of_part}: {column!r} "
                f"is {shown(self.example)} in several, for example"
            )
        if self.missing:
            have = "row has" if self.missing == 1 else "rows have"
            notes.append(f"{self.missing:,} {have} no id: {column!r} is missing there")
        return [f"{note}; [checks] unique_id = true holds such a run back" for note in notes]


def counts_ids(kind: pa.DataType) -> bool:
    """Return True if ids of an Arrow type are compared: no nested values and intervals."""
    t = pa.types
    plain = (t.is_integer, t.is_floating, t.is_boolean, t.is_decimal, t.is_temporal, _is_text)
    return any(is_kind(kind) for is_kind in plain) and not t.is_interval(kind)


def id_keys(ids: pa.Array) -> np.ndarray:
    """Return keys (n,) uint64 of ids that are not null.

    Integers and times have unique keys. Other ids are hashed as text; two of `MAX_IDS` texts share
    a key in one of a million tables.
    """
    kind = ids.type
    if pa.types.is_temporal(kind):
        ids = ids.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(ids.type):
        return row_keys(0, ids.to_numpy(zero_copy_only=False))
    if not len(ids):
        return np.zeros(0, np.uint64)
    texts = ids.cast(pa.large_binary() if _is_text(kind) else pa.large_string())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset :][: len(texts) + 1]
    return text_keys(np.frombuffer(data or b"", np.uint8), ends)


def _is_text(kind: Any) -> bool:
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return texts or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
