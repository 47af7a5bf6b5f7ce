"""Small tables, and everything that reading one gives."""

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from distsvc.job.config import InputConfig
from distsvc.storage.rows.blocks import Span, Table
from distsvc.storage.tables.opening import open_table, read_blocks

STORED = TypeAdapter(Table)
LAYOUTS = {
    "tiny row groups": [(300, 7)],
    "one row group": [(300, 1000)],
    "several files": [(120, 50), (0, 10), (1, 1), (179, 33)],
}
"""(rows, rows of a row group) of each file of a table."""


def sample(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < 0.1
    return pa.table(
        {
            "row_id": pa.array([f"id-{seed}-{i}" for i in range(n)], pa.string()),
            "a": pa.array(rng.normal(size=n).astype(np.float32)),
            "b": pa.array(rng.normal(size=n), mask=missing),
            "c": pa.array(rng.integers(-5, 5, n), pa.int16()),
            "flag": pa.array(rng.random(n) < 0.5),
            "label": pa.array(["xy"[i % 2] for i in range(n)], pa.string()).dictionary_encode(),
            "split": pa.array(rng.integers(0, 3, n), pa.int8()),
        }
    )


def opened(path, tmp_path, **fields) -> Table:
    return open_table(InputConfig(path=str(path), **fields), tmp_path / "staging")


def everything(table, start=0, stop=None, block_rows=1000):
    """All blocks as (rows, X, ids, labels), each in one piece."""
    stop = table.n_rows if stop is None else stop
    blocks = list(
        read_blocks(table, Span(start, stop, block_rows, with_ids=True, with_labels=True))
    )
    for block in blocks:
        assert 0 < len(block.rows) <= block_rows
        assert block.rows.dtype == np.int64
        assert block.X.dtype == table.dtype
        assert block.X.flags.c_contiguous
        assert block.X.shape == (len(block.rows), len(table.columns))
    rows = np.concatenate([np.empty(0, np.int64), *(block.rows for block in blocks)])
    X = np.concatenate([np.empty((0, len(table.columns))), *(block.X for block in blocks)])
    ids = [value for block in blocks for value in (block.ids or pa.nulls(0)).to_pylist()]
    labels = [value for block in blocks for value in (block.labels or pa.nulls(0)).to_pylist()]
    return rows, X, ids, labels


def matrix(data: pa.Table, columns) -> np.ndarray:
    return np.column_stack(
        [data[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in columns]
    )
