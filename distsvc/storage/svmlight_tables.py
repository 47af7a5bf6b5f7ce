"""LIBSVM / svmlight text: parsed once into sparse arrays, and read from those in row ranges.

A line is a label and ``index:value`` pairs, indices ascending from 1, or from 0 where any line has
a 0; what follows ``#`` is a comment. Columns are named by their indices, f1, f2 and so on. The
label is a column named ``label``, which is never a feature.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from distsvc.config import InputConfig
from distsvc.errors import DataError, JobFileError
from distsvc.storage import files
from distsvc.storage.arrays import map_array, write_array
from distsvc.storage.columns import Scan

LABEL = "label"
_COLUMN = re.compile(r"f\d+")
_UNIT_ROWS = 16_384
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


def convert_svmlight(found: files.Files, config: InputConfig, staging: Path) -> Path:
    """Parse files, in the order of their names, into a folder of sparse arrays; return its path.

    The whole table is in memory meanwhile, at 12 bytes for each value that is there.

    Raises
    ------
    DataError
        A line is not svmlight text: indices that are negative or do not ascend, or no numbers. File
        and line are named.
    JobFileError
        The job asks for an id or a filter, or for a label that is not named ``label``.

    """
    for field, value in (("id", config.id), ("where", config.where)):
        if value is not None:
            raise JobFileError(f"input.{field}: svmlight text can't have it, found {value!r}")
    if config.label not in (None, LABEL):
        raise JobFileError(
            f"input.label: the label of svmlight text is named {LABEL!r}, found {config.label!r}"
        )
    key = hashlib.sha256(json.dumps([found.root, found.versions()]).encode()).hexdigest()[:16]
    target = Path(os.path.abspath(staging)) / f"svmlight-{key}"
    if not (target / "first_and_width.npy").exists():
        parts, labels = zip(*[_parse(found, name) for name in found.names], strict=True)
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize(part.shape[0], width)
        X = sparse.vstack(parts, format="csr")
        first = 1 - int((X.indices == 0).any())
        X = X[:, first:]
        target.mkdir(parents=True, exist_ok=True)
        arrays = {"data": X.data, "indices": X.indices.astype(np.int32)}
        arrays |= {"indptr": X.indptr.astype(np.int64), "labels": np.concatenate(labels)}
        arrays |= {"first_and_width": np.array([first, X.shape[1]])}
        for name, array in arrays.items():
            write_array(target / f"{name}.npy", array)
    return target


def scan(path: Path, wanted: tuple[str, ...] = ()) -> Scan:
    """Return what a converted file has: its columns, and units of rows.

    Columns that are `wanted` by an index which no row of the file has are there too, and zero: text
    says nothing of the table's width, and a model may come from a wider one.
    """
    n_rows = map_array(path / "labels.npy").size
    features = feature_names(path)
    names = [*features, *(name for name in wanted if _COLUMN.fullmatch(name)), LABEL]
    extents = [min(_UNIT_ROWS, n_rows - first) for first in range(0, n_rows, _UNIT_ROWS)]
    return Scan(
        types=dict.fromkeys(names, pa.float64()),
        shown=dict.fromkeys(names, "double"),
        problems={},
        default=features,
        extents=tuple(extents),
    )


def feature_names(path: Path) -> tuple[str, ...]:
    """Return the columns of a converted file."""
    first, width = map_array(path / "first_and_width.npy").tolist()
    return tuple(f"f{k}" for k in range(first, first + width))


def blocks(
    path: Path, columns: tuple[str, ...], start: int, stop: int, block_rows: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield row numbers (n,), dense rows (n, d) float64 and labels (n,) of rows [start, stop)."""
    labels = map_array(path / "labels.npy")
    X = matrix(path)
    places = {name: k for k, name in enumerate(feature_names(path))}
    held = [k for k, name in enumerate(columns) if name in places]
    chosen = [places[columns[k]] for k in held]
    for first in range(start, stop, block_rows):
        last = min(first + block_rows, stop)
        part = np.zeros((last - first, len(columns)))
        part[:, held] = X[first:last].toarray()[:, chosen]
        yield np.arange(first, last, dtype=np.int64), part, np.array(labels[first:last])


def matrix(path: Path) -> Any:
    """Return all rows of a converted file as CSR; values are read when they are used."""
    width = int(map_array(path / "first_and_width.npy")[1])
    indptr = np.array(map_array(path / "indptr.npy"))
    arrays = map_array(path / "data.npy"), map_array(path / "indices.npy"), indptr
    return sparse.csr_matrix(arrays, (indptr.size - 1, width), copy=False)


def _parse(found: files.Files, name: str) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    path = files.join(found.root, name)
    try:
        with files.reading(path), _open(found.fs, path) as stream:
            X, labels = load_svmlight_file(stream, zero_based=True)
    except DataError as error:
        raise DataError(_first_fault(found.fs, path) or str(error)) from None
    return X, labels


def _open(fs: Any, path: str) -> Any:
    opener = _OPENERS.get(Path(path.partition("?")[0]).suffix.lower())
    stream = fs.open(path, "rb")
    return opener(stream) if opener else stream


def _first_fault(fs: Any, path: str) -> str | None:
    """Say what is wrong with the first bad line of a file, or None if no line is to blame."""
    try:
        with _open(fs, path) as stream:
            for number, line in enumerate(stream, start=1):
                fault = _fault(line.partition(b"#")[0].decode(errors="replace").split())
                if fault:
                    return f"{files.shown(path)}, line {number}: {fault}"
    except (OSError, EOFError):
        return None
    return None


def _fault(words: list[str]) -> str | None:
    last = -1
    for place, word in enumerate(words):
        index, _, value = word.partition(":")
        try:
            float(value if place else word)
            found = int(index) if place else 1
        except ValueError:
            expected = "index:value" if place else "a number as label"
            return f"expected {expected}, found {word!r}"
        if place and found < 0:
            return f"indices must not be negative, found {found}"
        if place and found <= last:
            return f"indices must ascend, found {found} after {last}"
        last = found if place else -1
    return None
