"""Missing values of each row, as a column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.job.config import OutputConfig
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.asked import AskedColumns
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.learning.preparation import Preparation
from distsvc.storage.rows.features import Feature, groups_of
from distsvc.storage.tables.opening import Block


class MissingValues(AskedColumns):
    """Number of features without a value in each row; a vector or a category counts as one."""

    keys = ("missing",)

    def __init__(
        self,
        labeller: Labeller,
        preparation: Preparation,
        features: Sequence[Feature],
        output: OutputConfig,
    ):
        self.firsts, self.wanted = groups_of(features)[1], output.missing

    @classmethod
    def row_bytes(cls, output: OutputConfig) -> int:
        """Return the bytes of the column."""
        return 4 * output.missing

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Return the column of a block, if it is asked for."""
        if not self.wanted:
            return {}
        absent = np.isnan(block.X[:, self.firsts])
        return {"missing": absent.sum(axis=1, dtype=np.int32)}
