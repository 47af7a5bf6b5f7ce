"""Output parts: written whole, listed in a manifest, published by one rename."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from filelock import FileLock, Timeout

from distsvc.errors import DataError, JobFileError, OutputPermissionError, TemporaryError
from distsvc.storage.arrays import read_json, write_json, write_whole

ROW_GROUP_ROWS = 1_048_576
CHUNK_ROWS = 1_048_576
NO_LABEL = -1
ZARR_ARRAYS: dict[str, tuple[type, float]] = {
    "row": (np.int64, NO_LABEL),
    "label": (np.int32, NO_LABEL),
    "score": (np.float32, np.nan),
    "outlier": (np.bool_, False),
}
"""Types and fill values of the output arrays."""

PUBLISHED = ("labels", "zarr.json", *ZARR_ARRAYS, "model", "report.html", "report.json")
"""What lies beside a manifest; with Zarr the output folder is itself the group of the arrays."""

_OPENING = threading.Lock()


class PartBuilder:
    """One part of the output in the making: rows in, one Parquet file out."""

    def __init__(
        self, id_name: str, id_type: pa.DataType | None = None, *, with_reasons: bool = False
    ):
        self.id_name, self.id_type = id_name, id_type or pa.int64()
        self.with_reasons = with_reasons
        self.n_rows = 0
        self._columns: list[list[Any]] = [[] for _ in range(4 + with_reasons)]

    def add(
        self,
        ids: np.ndarray | pa.Array,
        label: np.ndarray,
        score: np.ndarray,
        outlier: np.ndarray,
        reasons: list[str | None] | None = None,
    ) -> None:
        """Add rows: their numbers or ids, label int32, score float32, outlier bool, reasons."""
        self.n_rows += len(label)
        given = [ids, label, score, outlier]
        for column, values in zip(self._columns, given, strict=False):
            column.append(values if isinstance(values, pa.Array) else pa.array(values))
        if self.with_reasons:
            self._columns[-1].append(pa.array(reasons, pa.string()))

    def write(self, path: Path) -> dict[str, Any]:
        """Write the part, read its footer again, and return what the manifest says of it."""
        types = [self.id_type, pa.int32(), pa.float32(), pa.bool_()]
        names = [self.id_name, "label", "score", "outlier"]
        if self.with_reasons:
            types, names = [*types, pa.string()], [*names, "reasons"]
        schema = pa.schema(list(zip(names, types, strict=True)))
        arrays = [pa.chunked_array(c, t) for c, t in zip(self._columns, types, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schema)
        write_whole(path, lambda s: pq.write_table(table, s, row_group_size=ROW_GROUP_ROWS))
        footer = pq.read_metadata(path)
        if footer.num_rows != self.n_rows:
            raise TemporaryError(f"{path} holds {footer.num_rows} rows of {self.n_rows}")
        return {"rows": self.n_rows, **described(path)}


def described(path: Path) -> dict[str, Any]:
    """Return a file's size in bytes and SHA-256."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def create_zarr(folder: Path, parts: Path, n_rows: int) -> int:
    """Create arrays in `folder` for the columns of Parquet `parts`; return their chunks.

    Fill values are ones that no row takes, and chunks that hold nothing else are stored too: with
    Zarr's defaults a chunk of fill values would not exist.
    """
    schema = pq.read_schema(sorted(parts.iterdir())[0])
    if not pa.types.is_integer(schema[0].type):
        raise DataError(
            f"output.format 'zarr' needs whole numbers as ids; column {schema[0].name!r} is "
            f"{schema[0].type}"
        )
    group = zarr.create_group(folder, overwrite=False, attributes={"id": schema[0].name})
    for name, (dtype, fill) in ZARR_ARRAYS.items():
        group.create_array(
            name,
            shape=(n_rows,),
            chunks=(min(CHUNK_ROWS, n_rows),),
            dtype=dtype,
            fill_value=fill,
        )
    return -(-n_rows // CHUNK_ROWS)


def write_zarr_chunk(folder: Path, parts: list[tuple[Path, int]], number: int) -> None:
    """Fill chunk `number` of every array from Parquet parts, given in order with their rows."""
    start = number * CHUNK_ROWS
    stop = min(start + CHUNK_ROWS, sum(rows for _, rows in parts))
    tables, first = [], 0
    for path, rows in parts:
        begin, end = max(start - first, 0), min(stop - first, rows)
        if begin < end:
            tables.append(pq.read_table(path).slice(begin, end - begin))
        first += rows
    table = pa.concat_tables(tables)
    with _OPENING, zarr.config.set({"array.write_empty_chunks": True}):  # not kept in the metadata
        group = zarr.open_group(folder, mode="r+")
        arrays = [group[name] for name in ZARR_ARRAYS]
    for array, column in zip(arrays, table.columns, strict=True):
        array[start:stop] = column.combine_chunks().to_numpy(zero_copy_only=False)


class Output:
    """The folder where a run is published; `manifest.json` in it is the commit."""

    def __init__(self, path: str):
        self.path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it against other runs; if left empty, it is removed again.

        Raises
        ------
        OutputPermissionError
            The folder can't be made or written.
        TemporaryError
            Another run holds it.

        """
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        runs = self.path / ".runs"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            lock = FileLock(runs / "lock", timeout=0)
            lock.acquire()
        except Timeout:
            raise TemporaryError(f"another run is writing to {self.path}") from None
        except OSError as error:
            raise OutputPermissionError(
                f"output.path {self.path} can't be written: {error}"
            ) from None
        try:
            for stale in runs.iterdir():
                if stale.is_dir():
                    shutil.rmtree(stale)
            yield
        finally:
            (runs / "lock").unlink(missing_ok=True)
            lock.release()
            with suppress(OSError):  # the first one that is not empty
                for folder in (runs, *made):
                    folder.rmdir()

    @contextmanager
    def run_folder(self, name: str) -> Iterator[Path]:
        """Make a folder for a run's files and remove it at the end, however the run ends."""
        folder = self.path / ".runs" / name
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def manifest(self) -> dict[str, Any] | None:
        """Return what is published here, or None."""
        path = self.path / "manifest.json"
        if not path.exists():
            return None
        content = read_json(path)
        if not isinstance(content, dict) or "job_sha256" not in content:
            raise DataError(f"{path} is not a manifest of distsvc")
        return content

    def check_free(self, job_sha256: str, input_sha256: str, overwrite: bool) -> bool:
        """Return whether the identical run is already published here.

        Raises
        ------
        JobFileError
            Something else is, and `overwrite` is false.

        """
        found = self.manifest()
        if found is None:
            present = [name for name in PUBLISHED if (self.path / name).exists()]
            if present and not overwrite:
                raise JobFileError(
                    f"output.path {self.path} holds {', '.join(present)} without a manifest; "
                    "give --overwrite to replace it"
                )
            return False
        same_job = found["job_sha256"] == job_sha256
        if same_job and found["input_sha256"] == input_sha256:
            return True
        if not overwrite:
            what = "by a different configuration"
            what = "from an input that has changed since" if same_job else what
            raise JobFileError(
                f"output.path {self.path} was already published {what}; "
                "give --overwrite to replace it, or another path"
            )
        return False

    def publish(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Move a run's results here and commit them by writing the manifest last.

        What was published before is withdrawn first: at no moment does a manifest list files of
        another run. Nothing is left when this fails.
        """
        self._withdraw()
        try:
            for name in PUBLISHED:
                if (folder / name).exists():
                    os.replace(folder / name, self.path / name)
            write_json(self.path / "manifest.json", manifest)
            (self.path / "_SUCCESS").touch()
        except BaseException:
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        for name in ("_SUCCESS", "manifest.json", *PUBLISHED):
            old = self.path / name
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
