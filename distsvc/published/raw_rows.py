"""Raw rows that are to be labelled, checked as a job checks those of its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distsvc.inputs.rows import Input
from distsvc.run.work.partitions import choose_block_rows
from distsvc.storage.rows.features import Feature, names_of
from distsvc.storage.rows.given_rows import NAME, array_columns, given_blocks, given_rows
from distsvc.storage.rows.usable import chosen, usable_rows
from distsvc.storage.tables.opening import Block

__all__ = ["NAME", "Given", "array_columns", "names_of", "raw_blocks", "raw_rows"]


@dataclass(frozen=True)
class Given:
    """Some of the rows that were given, and those of them that are labelled.

    Attributes
    ----------
    all, usable : Block
    known : ndarray of shape (n,), bool
        Which of all rows are usable.

    """

    all: Block
    usable: Block
    known: np.ndarray


def raw_rows(X: Any, features: Sequence[Feature]) -> Input:
    """Return what reads rows that are given; `DataError` where these are no table and no array."""
    return given_rows(X, features, choose_block_rows(len(names_of(features))))


def raw_blocks(
    rows: Input, features: Sequence[Feature], missing: str, unit: bool, id_name: str | None
) -> Iterator[Given]:
    """Yield rows, of which those that ``missing = "drop"`` leaves out are not usable.

    Raises
    ------
    DataError
        Columns or values are not the model's (`given_blocks`), or a job refuses them
        (`usable_rows`).

    """
    for block in given_blocks(rows, features, id_name):
        known = usable_rows(block, rows.shown, features, missing, unit)
        yield Given(block, chosen(block, known), known)
