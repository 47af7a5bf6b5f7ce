"""Metadata of xarray and others beside an array of Zarr: its dimensions, and how it is packed."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

_DIMENSIONS = "_ARRAY_DIMENSIONS"
_PACKED = ("scale_factor", "add_offset")
_MISSING = ("_FillValue", "missing_value")


def no_data(name: str, array: Any) -> str:
    """Return why an array is no feature by default: it says where others were measured; or ""."""
    if getattr(array, "ndim", None) == 0:
        return "a single value"
    known = getattr(getattr(array, "metadata", None), "dimension_names", None)
    known = known or getattr(array, "attrs", {}).get(_DIMENSIONS)
    own = known is not None and list(known) == [name]
    return "a coordinate, named like its dimension" if own else ""


def packed_by(array: Any) -> str:
    """Return which attribute says that the stored numbers are not the values, if one does.

    NaN is missing anyway. In Zarr's older format, xarray tells what is missing by the fill value.
    """
    if array.dtype.kind not in "iuf":
        return ""
    attributes = dict(array.attrs)
    if _DIMENSIONS in attributes and array.metadata.zarr_format == 2:
        attributes.setdefault("_FillValue", array.fill_value)
    for name in _PACKED:
        if name in attributes:
            return f"{name} = {attributes[name]}"
    for name in _MISSING:
        if attributes.get(name) is not None and not _is_nan(attributes[name], array.dtype):
            return f"{name} = {attributes[name]}"
    return ""


def _is_nan(value: Any, dtype: Any) -> bool:
    try:
        if isinstance(value, str):  # its bytes
            value = np.frombuffer(base64.b64decode(value), np.dtype(dtype).newbyteorder("<"))[0]
        return math.isnan(value)
    except (ValueError, TypeError, IndexError):
        return str(value).lower() == "nan"
