"""The formats that labels are published in; each is one file here and one entry below."""

from __future__ import annotations

from distsvc.errors import JobFileError
from distsvc.storage.publishing.formats.base import OutputFormat
from distsvc.storage.publishing.formats.parquet import Parquet
from distsvc.storage.publishing.formats.zarr import Zarr

FORMATS: tuple[OutputFormat, ...] = (Parquet(), Zarr())


def output_format(name: str) -> OutputFormat:
    """Return the format of a name; `JobFileError` where there is none."""
    for form in FORMATS:
        if form.name == name:
            return form
    names = " or ".join(repr(form.name) for form in FORMATS)
    raise JobFileError(f"output.format must be {names}, found {name!r}")
