"""The formats of published labels."""

from __future__ import annotations

from distsvc.errors import JobFileError
from distsvc.storage.publishing.formats.columns import ParquetLabels
from distsvc.storage.publishing.formats.zarr import ZarrLabels

FORMATS: tuple[ParquetLabels, ...] = (ParquetLabels(), ZarrLabels())


def output_format(name: str) -> ParquetLabels:
    """Return the format of a name; `JobFileError` if there is none."""
    for form in FORMATS:
        if form.name == name:
            return form
    names = " or ".join(repr(form.name) for form in FORMATS)
    raise JobFileError(f"output.format must be {names}, found {name!r}")
