"""The formats of published labels; each is one module here and one entry below."""

from __future__ import annotations

from collections.abc import Sequence

from distsvc.errors import DataError, JobFileError
from distsvc.storage.publishing.formats.columns import OutputFormat, ParquetLabels
from distsvc.storage.publishing.formats.zarr import ZarrLabels

FORMATS: tuple[OutputFormat, ...] = (ParquetLabels(), ZarrLabels())


def output_format(name: str) -> OutputFormat:
    """Return the format of a name; `JobFileError` where there is none."""
    for form in FORMATS:
        if form.name == name:
            return form
    names = " or ".join(repr(form.name) for form in FORMATS)
    raise JobFileError(f"output.format must be {names}, found {name!r}")


def format_of(files: Sequence[str], where: str) -> OutputFormat:
    """Return the format of the published files of labels that are listed in `where`.

    Raises `DataError` where they are of no format.
    """
    for form in FORMATS:
        if form.owns(files):
            return form
    raise DataError(f"{where}: expected files of labels, as Parquet or Zarr, found {len(files)}")
