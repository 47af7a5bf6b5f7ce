"""Raw rows that are to be labelled, checked as a job checks those of its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distsvc.run.partitions import choose_block_rows
from distsvc.run.plan import check_values, without_missing
from distsvc.storage.features import Feature, names_of
from distsvc.storage.given_rows import NAME, given_blocks
from distsvc.storage.tables import Block


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


def raw_blocks(
    X: Any, features: Sequence[Feature], missing: str, id_name: str | None
) -> Iterator[Given]:
    """Yield rows, of which those with missing values are not usable where ``missing = "drop"``.

    Raises
    ------
    DataError
        X is no table (`given_blocks`), or holds what a job refuses: infinity, and missing values
        where they are errors.

    """
    names = names_of(features)
    for block in given_blocks(X, features, choose_block_rows(len(names)), id_name):
        check_values(block, missing, NAME, names)
        if missing == "drop":
            known = ~np.isnan(block.X).any(axis=1)
            yield Given(block, without_missing(block), known)
        else:
            yield Given(block, block, np.ones(len(block.rows), bool))
