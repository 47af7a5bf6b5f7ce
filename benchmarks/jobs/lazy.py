"""Estimators on tables that are not in memory, beside the job on the same table."""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.measure import alone, publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import noisy_table, published, run_here, work_folder
from distsvc.run.work.progress import peak_memory_mb

GROUP = 250_000
PARTITION_ROWS = 1_000_000
SEED = 0


def lazy(options: Namespace) -> None:
    """Peak memory of `AutoClustering` on dask, Zarr and streams, beside the job's.

    Labels of dask are written chunk by chunk, as the job writes its own; that of the fit alone is
    ``fit_peak_mb``. Then they are taken into memory, as an array (``array_peak_mb``), and of a
    dataframe as a series with its index, too (``series_peak_mb``).

    The table has `--rows` noisy rows of shuttle, 9 columns of float32, as Parquet and as Zarr. Each
    is fitted in a process of its own, and all labels are computed; the job runs in one process,
    too, and does not scale, so that all labels must be equal.
    """
    with work_folder(options.work) as work:
        table = noisy_table(work / "scale", options.data, "shuttle", options.rows, GROUP)
        array = table.with_suffix(".zarr")
        if not array.exists():
            alone(_to_zarr, table, array)
        rows = [alone(_job, path, work / f"job{path.suffix}") for path in (table, array)]
        for name, make in INPUTS.items():
            if options.methods and name not in options.methods:
                continue
            print(f"fitting {name}", file=sys.stderr, flush=True)
            rows.append(alone(_fit, make, name, table, array, work / f"labels of {name}"))
    job = rows[0]["peak_mb"]
    rows = [row | {"rows": options.rows, "of_the_job": row["peak_mb"] / job} for row in rows]
    show("bars: of_the_job at most 1.2, one digest", rows)
    publish(options.out, "lazy", rows)


def _job(path: Path, out: Path) -> Row:
    started = time.perf_counter()
    columns = {"label": "label"} if path.suffix == ".parquet" else {}
    cluster = {"workers": 0, "partition_rows": PARTITION_ROWS}
    more = {"preprocess": {"scale": "none"}}
    run_here(path, out, columns, {"seed": SEED}, cluster, more=more)
    seconds, peak = time.perf_counter() - started, peak_memory_mb()
    return _row(f"job, {path.suffix[1:]}", seconds, peak, published(out))


def _fit(make: Callable[..., Any], name: str, table: Path, array: Path, out: Path) -> Row:
    from distsvc import AutoClustering

    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = AutoClustering(random_state=SEED).fit(make(table, array)).labels_
    fitted, peaks = peak_memory_mb(), {}
    if hasattr(labels, "dask"):
        _write(labels, out)
    seconds, peak = time.perf_counter() - started, peak_memory_mb()
    series = labels if hasattr(labels, "to_dask_array") else None
    if hasattr(labels, "dask"):
        labels = (labels if series is None else series.to_dask_array()).compute()
        peaks["array_peak_mb"] = peak_memory_mb()
    row = _row(name, seconds, peak, np.asarray(labels))
    if series is not None:
        del labels
        series.compute()
        peaks["series_peak_mb"] = peak_memory_mb()
    return row | {"fit_peak_mb": fitted} | peaks


def _write(labels: Any, out: Path) -> None:
    """Write what dask will compute, chunk by chunk."""
    if hasattr(labels, "to_frame"):
        labels.to_frame().to_parquet(out, write_index=False)
    else:
        labels.to_zarr(str(out), overwrite=True)


def _row(name: str, seconds: float, peak: float, labels: np.ndarray) -> Row:
    digest = hashlib.sha256(np.ascontiguousarray(labels, np.int32)).hexdigest()[:12]
    return {
        "input": name,
        "seconds": seconds,
        "peak_mb": peak,
        "fit_peak_mb": peak,
        "array_peak_mb": None,
        "series_peak_mb": None,
        "digest": digest,
    }


def _columns(table: Path) -> list[str]:
    import pyarrow.parquet as pq

    return [name for name in pq.read_schema(table).names if name != "label"]


def _to_zarr(table: Path, array: Path) -> None:
    """Write the table's columns as one array, in chunks of a row group."""
    import pyarrow.parquet as pq
    import zarr

    file, columns = pq.ParquetFile(table), _columns(table)
    shape = (file.metadata.num_rows, len(columns))
    stored = zarr.create_array(str(array), shape=shape, chunks=(GROUP, shape[1]), dtype="float32")
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, columns)
        rows = np.column_stack([column.to_numpy() for column in group.columns])
        stored[number * GROUP : number * GROUP + len(rows)] = rows


def _dask_array(table: Path, array: Path) -> Any:
    import dask.array as da

    return da.from_zarr(str(array))


def _dask_frame(table: Path, array: Path) -> Any:
    import dask.dataframe as dd

    return dd.read_parquet(table, columns=_columns(table), split_row_groups=True)


def _zarr_array(table: Path, array: Path) -> Any:
    import zarr

    return zarr.open_array(str(array), mode="r")


def _reader(table: Path, array: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # With `pre_buffer`, the default, pyarrow keeps what it has read of the file.
    file, columns = pq.ParquetFile(table, pre_buffer=False), _columns(table)
    schema = pa.schema([file.schema_arrow.field(name) for name in columns])
    return pa.RecordBatchReader.from_batches(schema, file.iter_batches(columns=columns))


def _query(table: Path, array: Path) -> Any:
    import duckdb

    return duckdb.read_parquet(str(table)).project(", ".join(_columns(table)))


def _lazy_frame(table: Path, array: Path) -> Any:
    import polars as pl

    return pl.scan_parquet(table).select(_columns(table))


def _in_memory(table: Path, array: Path) -> Any:
    import zarr

    return zarr.open_array(str(array), mode="r")[:]


INPUTS: dict[str, Callable[[Path, Path], Any]] = {
    "dask array": _dask_array,
    "dask dataframe": _dask_frame,
    "zarr array": _zarr_array,
    "RecordBatchReader": _reader,
    "DuckDB relation": _query,
    "polars LazyFrame": _lazy_frame,
    "NumPy array": _in_memory,
}
