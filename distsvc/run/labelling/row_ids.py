"""Ids of the rows that the page may name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from distsvc.models.rows import sampling
from distsvc.run.learning.survey import pilot_limit, rows_aside
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.id_texts import id_texts


class PilotIds:
    """Ids of the rows that may be in the pilot; partitions have their own, merged into one.

    Attributes
    ----------
    rows : ndarray of shape (m,), int64
        Numbers of the rows in the table.
    keys : ndarray of shape (m,), uint64
        Keys of the rows, ascending.
    texts : ndarray of shape (m,), str

    """

    def __init__(self, run: RunDirectory):
        self.seed, self.aside = run.plan.seed, rows_aside(run)
        self.limit = np.uint64(pilot_limit(run.plan))
        # Extreme rows are not in the pilot, and each shares the key of another row.
        self.most = run.plan.pilot_rows + len(self.aside)
        self.rows, self.keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        self.texts = np.zeros(0, "U1")

    def add(self, block: Block) -> None:
        """Add the rows of a block."""
        numbers = block.rows - np.searchsorted(self.aside, block.rows)
        keys = sampling.row_keys(self.seed, numbers)
        places = np.flatnonzero(keys <= self.limit)
        if len(self.keys) >= self.most:
            places = places[keys[places] <= self.keys[-1]]
        places = places[sampling.lowest(keys[places], self.most)]
        self._keep(block.rows[places], keys[places], id_texts(block.ids, places))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for `merge`."""
        return {"id_rows": self.rows, "id_keys": self.keys, "id_texts": self.texts}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the ids of another partition."""
        self._keep(arrays["id_rows"], arrays["id_keys"], arrays["id_texts"])

    def by_row(self) -> dict[int, str]:
        """Return the ids by row number, without missing ids."""
        pairs = zip(self.rows.tolist(), self.texts.tolist(), strict=True)
        return {row: text for row, text in pairs if text}

    def _keep(self, rows: np.ndarray, keys: np.ndarray, texts: np.ndarray) -> None:
        keys = np.concatenate([self.keys, keys])
        kept = sampling.lowest(keys, self.most)
        self.keys = keys[kept]
        self.rows = np.concatenate([self.rows, rows])[kept]
        self.texts = np.concatenate([self.texts, texts])[kept]
