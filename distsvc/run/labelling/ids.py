"""Ids that rows share, or do not have: counted while the rows are labelled.

Each id becomes 64 bits. Of a table of more than `MOST` rows those of a random part of the ids are
kept, the same part in every partition, so that all rows of an id are kept or none is. Memory is
that of `MOST` numbers, however long the table is.
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

MOST = 2**22
"""Ids that are compared: all of a table of so many rows, and a part of a longer one's."""

Arrays = dict[str, np.ndarray]


@dataclass
class IdCounts:
    """The ids of labelled rows: the keys (n,) uint64 of each partition, and how many are null.

    With `bits` above 0 they are those of one in 2^bits ids.
    """

    bits: int
    keys: list[np.ndarray] = field(default_factory=list)
    missing: int = 0

    @classmethod
    def of_table(cls, n_rows: int) -> IdCounts:
        """Return the counts of no rows yet of a table of at most so many."""
        return cls(max((n_rows - 1) // MOST, 0).bit_length())

    def add(self, ids: pa.Array) -> None:
        """Count some rows' ids."""
        self.keys.append(_kept(id_keys(ids.drop_null()), self.bits))
        self.missing += ids.null_count

    def arrays(self) -> Arrays:
        """Return the counts of a partition, for `merge`."""
        keys = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        return {"ids": keys, "missing_ids": np.array(self.missing)}

    def merge(self, result: Result) -> None:
        """Take in the counts of the next partition."""
        self.keys.append(result.arrays["ids"])
        self.missing += int(result.arrays["missing_ids"])

    def told(self, parts: Store, files: Callable[[int], Sequence[str]], column: str) -> IdReport:
        """Return how many rows share an id.

        The labelled `parts` have an example in a column; `files` are those of a partition.
        """
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
    """How many rows share their id with another, the first such id, and how many have none.

    With `bits` above 0 the former are those of one in 2^bits ids.
    """

    shared: int
    missing: int
    bits: int
    example: Any

    @property
    def of_part(self) -> str:
        """Words for the part of the ids that were compared, where it is not all."""
        return f" (among one in {2**self.bits:,} ids, which were compared)" if self.bits else ""

    def notes(self, column: str) -> list[str]:
        """Return warnings about ids that do not tell rows apart."""
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
    """Return whether ids of an Arrow type are compared: all but nested values and the like."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        or _is_text(kind)
    )


def id_keys(ids: pa.Array) -> np.ndarray:
    """Return keys (n,) uint64 of ids that are not null: equal ones of equal ids, and no others.

    Whole numbers and times have keys of their own. Texts, as which all other ids are taken, have
    the same key by chance only: in one of a million tables of `MOST` ids.
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


def _kept(keys: np.ndarray, bits: int) -> np.ndarray:
    """Return the keys of one in 2^bits ids."""
    return keys[keys >> np.uint64(64 - bits) == 0] if bits else keys
