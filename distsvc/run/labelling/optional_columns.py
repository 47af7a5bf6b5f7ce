"""Columns that keys of ``[output]`` add, and their parts of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypedDict

import numpy as np
import pyarrow as pa

from distsvc.errors import JobFileError
from distsvc.job.config import OutputConfig
from distsvc.models.rules.membership import PIECE_BYTES, Membership
from distsvc.models.rules.rule import Rule
from distsvc.report.content.explained_parts import (
    ColumnsPart,
    MembershipPart,
    ProfilesPart,
    ReasonsPart,
)
from distsvc.run.algorithms.algorithm import Columns, PilotRows
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.sizes import Terms
from distsvc.storage.rows.features import Feature, groups_of
from distsvc.storage.tables.opening import Block

SHARE_BINS = 20


class ExplainedParts(TypedDict, total=False):
    """Parts of the report that explain an answer."""

    profiles: ProfilesPart | None
    columns: ColumnsPart
    reasons: ReasonsPart
    membership: MembershipPart


class OptionalColumns:
    """Columns of labelled rows that `keys` of ``[output]`` add.

    There is an object for each partition, and one for the table that merges the others.
    """

    keys: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        labeller: Labeller,
        preparation: Preparation,
        features: Sequence[Feature],
        output: OutputConfig,
    ):
        self.labeller, self.preparation = labeller, preparation
        self.features, self.output = features, output
        self.begin()

    def begin(self) -> None:
        """Set the counts of no rows."""

    @classmethod
    def check(cls, rule: type[Rule], output: OutputConfig) -> None:
        """Raise JobFileError if the rule can't give a column of the output."""

    @classmethod
    def meanings(cls, rule: type[Rule]) -> dict[str, str]:
        """Return the meanings of columns that depend on the rule."""
        return {}

    @classmethod
    def row_bytes(cls, output: OutputConfig) -> int:
        """Return the bytes of a row in the columns."""
        return 0

    @classmethod
    def held(cls, output: OutputConfig) -> Terms:
        """Return the memory of a task besides the columns themselves."""
        return {}

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Return the columns of a block; Z (n, d) are its prepared rows.

        `labelled` are the columns of the rule.
        """
        raise NotImplementedError

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts of all blocks, by names that are unique in a task's result."""
        return {}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the counts of another partition."""

    def parts(self, rows: PilotRows, preparation: Preparation) -> ExplainedParts:
        """Return parts of the report, from the labelled pilot and the rule's preparation."""
        return {}


class MissingValues(OptionalColumns):
    """Missing features of each row; a vector or category counts once."""

    keys = ("missing",)

    def begin(self) -> None:
        """Find the first column of each feature."""
        self.firsts = groups_of(self.features)[1]

    @classmethod
    def row_bytes(cls, output: OutputConfig) -> int:
        """Return the bytes of the column."""
        return 4 * output.missing

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Return the column of a block."""
        if not self.output.missing:
            return {}
        return {"missing": np.isnan(block.X[:, self.firsts]).sum(axis=1, dtype=np.int32)}


class Shares(OptionalColumns):
    """Shares of clusters in rows: the row's own cluster, and the next ones."""

    keys = ("membership", "top")

    def begin(self) -> None:
        """Set the counts of no rows."""
        self.counts = np.zeros(SHARE_BINS, np.int64)

    @classmethod
    def check(cls, rule: type[Rule], output: OutputConfig) -> None:
        """Raise JobFileError if the rule has no clusters."""
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
        """Return the bytes of a row's own share, and of the next clusters with their shares."""
        return 4 * output.shares + 8 * output.top

    @classmethod
    def held(cls, output: OutputConfig) -> Terms:
        """Return the memory of the shares of all clusters in a piece of a block."""
        return {"shares of clusters": 2.0 * PIECE_BYTES * output.shares}

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Return the shares of a block; the next clusters are given by their ids."""
        if not self.output.shares:
            return {}
        found = Membership.of(self.labeller.rule, Z, labelled["label"], self.output.top)
        self.counts += np.histogram(found.own, SHARE_BINS, (0.0, 1.0))[0]
        columns: Columns = {"membership": found.own}
        if self.output.top:
            columns |= {"next": _lists(self.labeller.ids[found.others])}
            columns |= {"next_share": _lists(found.other_shares)}
        return columns

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the numbers of rows by share."""
        return {"shares": self.counts}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the counts of another partition."""
        self.counts += arrays["shares"]

    def parts(self, rows: PilotRows, preparation: Preparation) -> ExplainedParts:
        """Return the histogram of shares, if they are published and there are several clusters."""
        rule = self.labeller.rule
        if not self.output.shares or rule.n_clusters < 2:
            return {}
        return {"membership": MembershipPart(meaning=rule.shared, counts=self.counts.tolist())}


def _lists(values: np.ndarray) -> pa.Array:
    """Return the rows of an array (n, m) as lists."""
    n, m = values.shape
    offsets = np.arange(0, n * m + 1, m) if m else np.zeros(n + 1)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values.ravel()))
