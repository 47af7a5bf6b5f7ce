"""Load a data set of the catalogue from a folder, from scikit-learn or from OpenML, and check it.

In a folder a set is ``GROUP/NAME.parquet``: features f0, f1, ..., the class from 0 as ``label`` and
``split`` where the set is split; or svmlight text, ``linear/NAME.svm``, plain or packed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets.catalogue import Dataset, find
from benchmarks.datasets.openml import read_openml
from distsvc.errors import DataError, InputNotFoundError
from distsvc.storage.places.arrays import make_folder, write_whole

METADATA = b"distsvc.dataset"
PACKINGS = ("", ".gz", ".bz2")


class LoadedSet(NamedTuple):
    """The rows of a set, and where they came from."""

    X: np.ndarray
    y: np.ndarray
    split: np.ndarray | None
    where: str


def load(
    name: str, folder: str | os.PathLike[str] | None = None, split: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and classes of a set, once they are what the catalogue says.

    Parameters
    ----------
    name
        A name of the catalogue: ``musk``, ``outliers/musk``.
    folder
        Where ``GROUP/NAME.parquet`` is; without it the set comes from scikit-learn or from OpenML,
        of which scikit-learn keeps a copy in its own folder.
    split
        Only the rows of this split, 0 for training.

    Returns
    -------
    X : array of shape (n_rows, n_features), float64, C-ordered
        As they are, nothing scaled.
    y : array of shape (n_rows,), int64
        Classes from 0.

    Raises
    ------
    InputNotFoundError
        No such set, no such file, no public source, or OpenML doesn't have it.
    DataError
        Shape, class counts or fingerprint are not those of the catalogue, a value is not finite,
        the set has no such split, or it is svmlight text, which is better left sparse.
    TemporaryError
        OpenML can't be reached, or a download was cut off.

    """
    dataset = find(name)
    if dataset.group == "linear":
        raise DataError(
            f"{name} is svmlight text: read {dataset.file} with sklearn.datasets.load_svmlight_file"
        )
    dataset.counts(split)
    rows = _checked(dataset, folder, with_splits=split is not None)
    if split is None:
        return rows.X, rows.y
    assert rows.split is not None
    chosen = rows.split == split
    return rows.X[chosen], rows.y[chosen]


def fetch(
    name: str, out: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None
) -> Path:
    """Write a set to ``OUT/GROUP/NAME.parquet`` and return that path.

    The facts of the set are in the file's metadata as JSON, under ``distsvc.dataset``. Svmlight
    text is copied as it is, packing included. The file appears whole or not at all and takes the
    place of an earlier one.

    Parameters
    ----------
    name, folder
        As of `load`.
    out
        The folder of data to write into.

    Raises
    ------
    InputNotFoundError, DataError, TemporaryError
        As by `load`; all splits are checked as well.
    OutputPermissionError
        The file can't be written.

    """
    dataset = find(name)
    if dataset.group == "linear":
        text = _checked_text(dataset, folder)
        target = Path(out) / "linear" / text.name
        content = text.read_bytes()
        make_folder(target.parent)
        write_whole(target, lambda stream: stream.write(content))
        return target
    rows = _checked(dataset, folder, with_splits=bool(dataset.splits))
    target = Path(out) / dataset.file
    make_folder(target.parent)
    table = _table(dataset, rows)
    write_whole(target, lambda stream: pq.write_table(table, stream, compression="zstd"))
    return target


def fingerprint(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return a number that only the same rows have, in whatever order, and the scale of its error.

    The sum of (class + 1) times (column + 1) times value over all entries: another encoding, other
    columns or classes in another order change it. The scale is the same sum of absolute values.
    """
    weights = np.arange(1.0, X.shape[1] + 1.0)
    classes = y + 1.0
    return float(classes @ (X @ weights)), float(classes @ (np.abs(X) @ weights))


def _checked(
    dataset: Dataset, folder: str | os.PathLike[str] | None, with_splits: bool
) -> LoadedSet:
    rows = _read(dataset, folder)
    _check(dataset, rows)
    if with_splits:
        _check_splits(dataset, rows)
    return rows


def _read(dataset: Dataset, folder: str | os.PathLike[str] | None) -> LoadedSet:
    if folder is not None:
        return _read_parquet(dataset, Path(folder))
    if dataset.sklearn:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, dataset.sklearn)(return_X_y=True)
        return LoadedSet(np.ascontiguousarray(X, float), y.astype(np.int64), None, dataset.source)
    if dataset.openml is None:
        raise InputNotFoundError(
            f"{dataset.name}: no public source has this set as it is here; give a folder that has "
            f"{dataset.file} (--from DIR)"
        )
    X, y = read_openml(dataset.name, dataset.openml)
    sizes = [sum(counts) for counts in dataset.splits]
    in_order = np.repeat(np.arange(len(sizes)), sizes) if sum(sizes) == len(y) else None
    return LoadedSet(X, y, in_order, dataset.source)


def _read_parquet(dataset: Dataset, folder: Path) -> LoadedSet:
    path = folder / dataset.file
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise InputNotFoundError(f"{dataset.name}: no file {path}") from None
    except pa.ArrowInvalid as error:
        raise DataError(f"{dataset.name}: {path} is not Parquet: {error}") from None
    with file:
        names = file.schema_arrow.names
        features = [f"f{j}" for j in range(len(names))]
        features = [name for name in features if name in names]
        unknown = sorted(set(names) - {*features, "label", "split"})
        if "label" not in names or unknown:
            raise DataError(
                f"{dataset.name}: {path}: expected columns f0, f1, ..., label and maybe split, "
                f"found {', '.join(unknown) or 'no label'}"
            )
        X = np.empty((file.metadata.num_rows, len(features)))
        for j, name in enumerate(features):
            X[:, j] = file.read([name])[name].to_numpy()
        y = file.read(["label"])["label"].to_numpy().astype(np.int64)
        split = file.read(["split"])["split"].to_numpy() if "split" in names else None
    return LoadedSet(X, y, split, str(path))


def _check(dataset: Dataset, rows: LoadedSet) -> None:
    """Raise a DataError unless shape, class counts and fingerprint are the catalogue's."""
    X, y = rows.X, rows.y
    _expect(dataset, rows.where, "rows and features", (dataset.rows, dataset.features), X.shape)
    _expect(dataset, rows.where, "rows of the classes", dataset.class_counts, _counts(dataset, y))
    if not np.isfinite(X).all():
        place = np.argwhere(~np.isfinite(X))[0]
        raise DataError(
            f"{dataset.name} from {rows.where}: expected finite numbers, "
            f"found {X[tuple(place)]} in row {place[0]}, column f{place[1]}"
        )
    if dataset.fingerprint is None:
        return
    found, scale = fingerprint(X, y)
    if abs(found - dataset.fingerprint) > dataset.tolerance * scale:
        doubt = dataset.openml.doubt if dataset.openml and rows.where == dataset.source else ""
        raise DataError(
            f"{dataset.name} from {rows.where}: shape and classes are right, the values are not: "
            f"expected the fingerprint {dataset.fingerprint:.12g}, found {found:.12g}"
            + (f" ({doubt})" if doubt else "")
        )


def _check_splits(dataset: Dataset, rows: LoadedSet) -> None:
    if rows.split is None:
        raise DataError(f"{dataset.name} from {rows.where}: expected a column split, found none")
    for number, expected in enumerate(dataset.splits):
        found = _counts(dataset, rows.y[rows.split == number])
        _expect(dataset, rows.where, f"rows of the classes in split {number}", expected, found)


def _expect(
    dataset: Dataset, where: str, what: str, expected: tuple[int, ...], found: tuple[int, ...]
) -> None:
    if tuple(expected) != tuple(found):
        raise DataError(
            f"{dataset.name} from {where}: expected {what} {list(expected)}, found {list(found)}"
        )


def _counts(dataset: Dataset, y: np.ndarray) -> tuple[int, ...]:
    """Return the rows of the classes 0, 1, ...; where some are below 0, their rows come first."""
    below, *counts = np.bincount(np.maximum(y, -1) + 1, minlength=len(dataset.class_counts) + 1)
    return tuple(map(int, [below, *counts] if below else counts))


def _table(dataset: Dataset, rows: LoadedSet) -> pa.Table:
    kind = _smallest_type(rows.X)
    columns = {f"f{j}": rows.X[:, j].astype(kind) for j in range(rows.X.shape[1])}
    columns["label"] = rows.y.astype(np.int32)
    if rows.split is not None and dataset.splits:
        columns["split"] = rows.split.astype(np.int32)
    facts = dataclasses.asdict(dataset) | {"read_from": rows.where}
    return pa.table(columns).replace_schema_metadata({METADATA: json.dumps(facts)})


def _smallest_type(X: np.ndarray) -> type[np.generic]:
    """Return the type of the fewest bytes that holds every value exactly."""
    if np.array_equal(np.rint(X), X):
        for kind in (np.uint8, np.int16, np.int32):
            limits = np.iinfo(kind)
            if limits.min <= X.min() and X.max() <= limits.max:
                return kind
    return np.float64


def _checked_text(dataset: Dataset, folder: str | os.PathLike[str] | None) -> Path:
    """Return the path of svmlight text that has the catalogue's shape and class counts."""
    from sklearn.datasets import load_svmlight_file

    if folder is None:
        raise InputNotFoundError(
            f"{dataset.name}: svmlight text is only copied; give a folder that has "
            f"{dataset.file}, plain, .gz or .bz2 (--from DIR)"
        )
    paths = [Path(folder) / f"{dataset.file}{packing}" for packing in PACKINGS]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise InputNotFoundError(f"{dataset.name}: no file {paths[0]}, nor .gz or .bz2")
    try:
        X, y = load_svmlight_file(str(path))
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{dataset.name}: {path} is not svmlight text: {error}") from None
    counts = tuple(np.unique(y, return_counts=True)[1].tolist())
    shape = (dataset.rows, dataset.features)
    _expect(dataset, str(path), "rows and features", shape, X.shape)
    _expect(dataset, str(path), "rows of the classes", dataset.class_counts, counts)
    return path
