"""Files of LIBSVM or svmlight text, which are converted once to sparse arrays.

A line is a label and ``index:value`` pairs with ascending indices. The indices of a table begin
with 0 if any line has index 0, else with 1. Column f7 has the values of index 7. The column
``label`` has the labels, and is never a feature. A comment follows ``#``.
"""

import bz2
import gzip
import hashlib
import io
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from distsvc.errors import DataError, JobFileError
from distsvc.job.config import InputConfig
from distsvc.storage.places.arrays import map_array, write_array
from distsvc.storage.places.location import Location
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.rows.blocks import Block, Layout, Span, Table
from distsvc.storage.rows.columns import MAX_WIDTH, Scan, too_many_columns
from distsvc.storage.rows.features import is_sentinel
from distsvc.storage.tables.files import Files
from distsvc.storage.tables.source import Source

SVM_LABEL = "label"
_COLUMN = re.compile(r"f\d+")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


class Svmlight(Source):
    """Files with a suffix of svmlight text, compressed or not, converted to a CSR matrix."""

    name = "svmlight"
    title = "svmlight text"
    suffixes = tuple(
        name + packed for name in (".svm", ".svmlight", ".libsvm") for packed in ("", *_OPENERS)
    )
    states_width = False

    def claim(self, found: Files) -> Files:
        own = found.named(self.suffixes)
        return own if own.names == found.names else found.named(())

    def scan(self, found: Files, config: InputConfig, staging: Store, categories: Set[str]) -> Scan:
        """Parse all files in memory, and store them as a sparse matrix in `staging`.

        The job may name columns that occur in no row; all their values are zero.
        """
        _check_job(config)
        place = _converted(found, staging)
        n_rows = map_array(place.local("labels.npy")).size
        features = feature_names(place)
        wanted = [name for name in config.columns or () if _COLUMN.fullmatch(name)]
        names = [*features, *wanted, SVM_LABEL]
        unit = 16_384
        extents = [min(unit, n_rows - first) for first in range(0, n_rows, unit)]
        return Scan(
            layout=Layout(place.address, self.name, tuple(extents)),
            types=dict.fromkeys(names, pa.float64()),
            problems={},
            default=features,
            comparable={},
        )

    def blocks(self, table: Table, span: Span) -> Iterator[Block]:
        place = store_of(table.layout.path)
        labels = map_array(place.local("labels.npy"))
        X = matrix(place)
        names = feature_names(place)
        places = {name: k for k, name in enumerate(names)}
        held = [k for k, name in enumerate(table.columns) if name in places]
        chosen = [places[table.columns[k]] for k in held]
        with_labels = span.with_labels and table.label is not None
        for first in range(span.start, span.stop, span.block_rows):
            last = min(first + span.block_rows, span.stop)
            part = np.zeros((last - first, len(table.columns)))
            part[:, held] = X[first:last].toarray()[:, chosen]
            if table.missing_values:
                part[is_sentinel(part, table.missing_values)] = np.nan
            rows = np.arange(first, last, dtype=np.int64)
            yield Block(rows, part, None, pa.array(labels[first:last]) if with_labels else None)

    def decoding_bytes(self, table: Table, block_rows: int) -> int:
        return 2 * 8 * min(block_rows, table.n_rows) * len(table.columns)

    def sparse_rows(self, table: Table) -> sparse.csr_matrix | None:
        place = store_of(table.layout.path)
        return matrix(place) if table.columns == feature_names(place) else None


def _check_job(config: InputConfig) -> None:
    for field, value in ("id", config.id), ("where", config.where):
        if value is not None:
            raise JobFileError(
                f"input.{field}: not supported for svmlight text, found {value!r}; remove the key"
            )
    if config.classes not in (None, SVM_LABEL):
        raise JobFileError(
            f"{config.classes_key}: svmlight text has its classes in {SVM_LABEL!r}, found "
            f"{config.classes!r}"
        )
    if SVM_LABEL in (config.columns or ()):
        raise JobFileError(
            f"input.columns: expected features by their indices, such as 'f1', found {SVM_LABEL!r}"
        )


def _converted(found: Files, staging: Store) -> Store:
    key = json.dumps([found.folder.path, found.versions]).encode()
    target = staging.below(f"svmlight-{hashlib.sha256(key).hexdigest()[:16]}")
    if not target.has("first_and_width.npy"):
        parts, labels = zip(*map(_parse, found.places), strict=True)
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize(part.shape[0], width)
        X = sparse.vstack(parts, format="csr")
        first = 1 - int((X.indices == 0).any())
        X = X[:, first:]
        # `first_and_width` is written last, and marks the table as complete.
        arrays = {"data": X.data, "indices": X.indices.astype(np.int32)}
        arrays |= {"indptr": X.indptr.astype(np.int64), "labels": np.concatenate(labels)}
        arrays |= {"first_and_width": np.array([first, X.shape[1]])}
        for name, array in arrays.items():
            with target.created(f"{name}.npy") as file:
                write_array(file, array)
    return target


def feature_names(place: Store) -> tuple[str, ...]:
    """Return the columns of a converted table."""
    first, width = map_array(place.local("first_and_width.npy")).tolist()
    return tuple(f"f{k}" for k in range(first, first + width))


def matrix(place: Store) -> sparse.csr_matrix:
    """Return all rows of a converted table as CSR, whose arrays are memory maps of its files."""
    width = int(map_array(place.local("first_and_width.npy"))[1])
    indptr = np.array(map_array(place.local("indptr.npy")))
    arrays = map_array(place.local("data.npy")), map_array(place.local("indices.npy")), indptr
    return sparse.csr_matrix(arrays, (indptr.size - 1, width), copy=False)


def _parse(place: Location) -> tuple[sparse.csr_matrix, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    try:
        with place.naming_errors(), _open(place) as stream:
            X, labels = load_svmlight_file(stream, zero_based=True)
    except (EOFError, zlib.error) as error:  # a damaged archive
        raise DataError(f"can't read {place.shown}: {error}") from error
    except (DataError, OverflowError) as error:  # Overflow: an index above 64 bits
        fault = _first_fault(place) or str(error)
        raise DataError(fault if place.shown in fault else f"{place.shown}: {fault}") from None
    if X.shape[1] > MAX_WIDTH + 1:
        raise too_many_columns(place.shown, X.shape[1] - 1)
    return X, labels


def _open(place: Location) -> IO[bytes]:
    opener = _OPENERS.get(Path(place.path).suffix.lower())
    stream = place.fs.open(place.path, "rb")
    return opener(stream) if opener else stream


def _first_fault(place: Location) -> str | None:
    """Return a message on the first line that scikit-learn can't read, or None."""
    from sklearn.datasets import load_svmlight_file

    first = 1
    with suppress(OSError, EOFError, zlib.error), _open(place) as stream:
        while lines := list(itertools.islice(stream, 4096)):
            with suppress(ValueError, OverflowError):
                load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
                lines = []
            for number, line in enumerate(lines, start=first):
                try:
                    load_svmlight_file(io.BytesIO(line), zero_based=True)
                except (ValueError, OverflowError) as error:
                    return (
                        f"{place.shown}, line {number}: expected a label and index:value pairs "
                        f"with ascending indices of at most {MAX_WIDTH:,}: {error}"
                    )
            first += 4096
    return None
