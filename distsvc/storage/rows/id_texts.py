"""Ids of rows as texts, for messages and the page."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

MAX_ID = 100
"""Maximum number of characters of an id."""


def id_texts(ids: pa.Array | None, places: np.ndarray) -> np.ndarray:
    """Return the ids at `places` (m,) as texts (m,), cut if long; empty where an id is missing."""
    if ids is None:
        return np.zeros(len(places), "U1")
    values = ids.take(pa.array(places, pa.int64())).to_pylist()
    texts = ["" if value is None else str(value) for value in values]
    cut = [one if len(one) <= MAX_ID else f"{one[: MAX_ID - 1]}…" for one in texts]
    return np.array([*cut, ""])[:-1]  # without "", an empty array would have another type
