"""Shares of clusters in rows, as columns: that of the row's own, and the next clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from distsvc.errors import JobFileError
from distsvc.job.config import OutputConfig
from distsvc.models.rules.membership import PIECE_BYTES, Membership
from distsvc.models.rules.rule import Rule
from distsvc.report.content.explained_parts import MembershipPart
from distsvc.run.algorithms.algorithm import Columns, PilotRows
from distsvc.run.labelling.asked import AskedColumns, ExplainedParts
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.sizes import Terms
from distsvc.storage.rows.features import Feature
from distsvc.storage.tables.opening import Block

SHARE_BINS = 20


class Shares(AskedColumns):
    """Shares of clusters in rows, and rows by the share of their own, from 0 to 1."""

    keys = ("membership", "top")

    def __init__(
        self,
        labeller: Labeller,
        preparation: Preparation,
        features: Sequence[Feature],
        output: OutputConfig,
    ):
        self.labeller, self.output = labeller, output
        self.counts = np.zeros(SHARE_BINS, np.int64)

    @classmethod
    def check(cls, rule: type[Rule], output: OutputConfig) -> None:
        """Raise JobFileError where the rule has no clusters."""
        if output.shares and not rule.shared:
            key = "top" if output.top else "membership"
            raise JobFileError(
                f"output.{key} needs an algorithm with clusters, found one that only tells rows "
                "inside from rows outside"
            )

    @classmethod
    def meanings(cls, rule: type[Rule]) -> dict[str, str]:
        """Return the meaning of a row's own share."""
        return {"membership": f"float32, 0 to 1: the share of the row's own cluster: {rule.shared}"}

    @classmethod
    def row_bytes(cls, output: OutputConfig) -> int:
        """Return the bytes of a row's own share, and of other clusters with their shares."""
        return 4 * output.shares + 8 * output.top

    @classmethod
    def held(cls, output: OutputConfig) -> Terms:
        """Return the memory of the shares of all clusters in some rows."""
        return {"shares of clusters": 2.0 * PIECE_BYTES * output.shares}

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Return a block's shares; clusters have their ids."""
        top = self.output.top
        if not self.output.shares:
            return {}
        found = Membership.of(self.labeller.rule, Z, labelled["label"], top)
        self.counts += np.histogram(found.own, SHARE_BINS, (0.0, 1.0))[0]
        columns: Columns = {"membership": found.own}
        if top:
            columns |= {"next": _lists(self.labeller.ids[found.others])}
            columns |= {"next_share": _lists(found.other_shares)}
        return columns

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts of rows by share."""
        return {"shares": self.counts}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add up the counts."""
        self.counts += arrays["shares"]

    def parts(self, rows: PilotRows, preparation: Preparation) -> ExplainedParts:
        """Return the histogram of shares, where it is published and rows may be in several."""
        rule = self.labeller.rule
        if not self.output.shares or rule.n_clusters < 2:
            return {}
        return {"membership": MembershipPart(meaning=rule.shared, counts=self.counts.tolist())}


def _lists(values: np.ndarray) -> pa.Array:
    """Return the rows of an array (n, m) as lists."""
    n, m = values.shape
    offsets = np.arange(0, n * m + 1, m) if m else np.zeros(n + 1)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values.ravel()))
