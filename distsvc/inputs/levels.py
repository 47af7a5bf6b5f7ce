"""Levels of categories: the values with codes of their own, and the codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_LEVELS = 32
"""Maximum number of values of a category with a column, or a code, of their own."""

MAX_LEVEL_LENGTH = 256
"""Maximum number of characters of a value with a code of its own; longer ones are free text."""

BUCKET = "other"
"""The name of the category of all other values."""


def frequent(counts: Mapping[str, int]) -> list[str]:
    """Return the values with enough rows, the most frequent first, ties in order of their text.

    A value needs 10 rows, and one row in a thousand.
    """
    least = max(10, 0.001 * max(sum(counts.values()), 1))
    order = sorted(counts, key=lambda value: (-counts[value], value))
    return [value for value in order if counts[value] >= least and len(value) <= MAX_LEVEL_LENGTH]


def bucket_name(known: Collection[str]) -> str:
    """Return the bucket's name, in as many parentheses as make it differ from known values."""
    name = BUCKET
    while name in known:
        name = f"({name})"
    return name


def texts_of(array: pa.Array) -> pa.Array:
    """Return categories as text; True and TRUE become true, as of booleans, and False false."""
    texts = array.cast(pa.string())
    truth = pc.match_substring_regex(texts, "^(True|TRUE|False|FALSE)$")
    return pc.if_else(pc.fill_null(truth, False), pc.utf8_lower(texts), texts)


def places(array: pa.Array, known: pa.Array) -> np.ndarray:
    """Return positions (n,) int64 among k `known` texts (of `texts_of`); k: other, k + 1: null."""
    encoded = array.dictionary_encode()
    found = pc.index_in(texts_of(encoded.dictionary), known)
    of_values = pc.fill_null(found, len(known)).to_numpy(zero_copy_only=False)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return np.append(of_values.astype(np.int64), len(known) + 1)[indices]


def codes(places: np.ndarray, n_known: int, has_bucket: bool) -> np.ndarray:
    """Return the codes (n,) float32 of `places`; null is NaN, and so is the bucket if absent."""
    bucket = n_known if has_bucket else np.nan
    return np.array([*range(n_known), bucket, np.nan], np.float32)[places]
