"""The published labels of a run, read from the files of its manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from distsvc.errors import DataError, DistsvcError
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats import FORMATS
from distsvc.storage.publishing.manifest import MANIFEST, ListedFile, Manifest, checked
from distsvc.storage.rows.where import Condition, parse_where

LABELS_FOLDER = "labels/"

Filter: TypeAlias = Any
"""An expression of `pyarrow.compute`, a text, or None."""


def label_files(manifest: Manifest) -> list[ListedFile]:
    """Return the files of labels in a manifest, in the order of the table's rows."""
    files = [one for one in manifest.files if one.file.startswith(LABELS_FOLDER)]
    return sorted(files, key=lambda one: (len(one.file), one.file))


def label_parts(
    manifest: Manifest, local: Callable[[str], Path] | Store, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield published columns of a run's rows, file by file, in the order of its table.

    Parameters and errors are as in `read_labels`; `local` may also be a store.
    """
    files = {one.file: one for one in label_files(manifest)}
    place = local if callable(local) else lambda name: checked(local, files[name])
    found = 0
    owning = [form for form in FORMATS if form.owns(list(files))]
    if not owning:
        where = f"{MANIFEST}: expected files of labels, as Parquet or Zarr"
        raise DataError(f"{where}, found {len(files)}")
    for part in owning[0].read(list(files), place, columns):
        found += len(part)
        yield part
    if found != manifest.rows:
        raise DataError(
            f"expected {manifest.rows:,} rows of labels, as {MANIFEST} says, found {found:,} in "
            "its files"
        )


def read_labels(
    manifest: Manifest,
    local: Callable[[str], Path],
    columns: Sequence[str] | str | None = None,
    filter: Filter = None,
) -> pa.Table:
    """Return published columns (default all) of a run's rows, in the order of its table.

    `local` returns the path of a listed file, checked. The `filter` selects rows: an expression of
    `pyarrow.compute`, or a text like ``input.where``. `DataError` if a column is not published, the
    filter does not suit its columns, or a file can't be read; `JobFileError` if the text can't be
    parsed.
    """
    known = list(manifest.columns)
    if not known:
        raise DataError(f"{MANIFEST}: expected a schema with the columns of labels, found none")
    with _about_the_filter():
        condition = parse_where(filter) if isinstance(filter, str) else None
    wanted = [columns] if isinstance(columns, str) else known if columns is None else list(columns)
    used = condition.columns if condition else known if filter is not None else ()
    read = list(dict.fromkeys([*wanted, *used]))
    unknown = [name for name in read if name not in known]
    if unknown:
        raise DataError(f"expected published columns ({', '.join(known)}), found {unknown[0]!r}")
    found = [
        _filtered(part, condition or filter).select(wanted)
        for part in label_parts(manifest, local, read)
    ]
    try:
        return pa.concat_tables(found)
    except pa.ArrowException as error:
        raise DataError(f"files of labels in {MANIFEST} do not go together: {error}") from None


def _filtered(part: pa.Table, wanted: Filter) -> pa.Table:
    if wanted is None:
        return part
    try:
        if not isinstance(wanted, Condition):
            return part.filter(wanted)
        columns = {name: part[name].combine_chunks() for name in wanted.columns}
        with _about_the_filter():
            return part.filter(wanted.mask(columns))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"filter {wanted} does not suit the labels: {error}") from None


@contextmanager
def _about_the_filter() -> Iterator[None]:
    """Replace "input.where" by "filter" in the errors of a condition."""
    try:
        yield
    except DistsvcError as error:
        raise type(error)(str(error).replace("input.where", "filter", 1)) from None
