"""Columns that keys of ``[output]`` ask for: how each is made, and its part of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypedDict

import numpy as np

from distsvc.job.config import OutputConfig
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
from distsvc.storage.rows.features import Feature
from distsvc.storage.tables.opening import Block


class ExplainedParts(TypedDict, total=False):
    """The parts of the report that explain an answer, by their names there."""

    profiles: ProfilesPart | None
    columns: ColumnsPart
    reasons: ReasonsPart
    membership: MembershipPart


class AskedColumns:
    """Some columns of the labelled rows, which `distsvc.run.labelling.columns` lists.

    There is one for each partition and one for the whole table, which merges their results. `keys`
    of ``[output]`` ask for a column (`distsvc.storage.publishing.columns`).
    """

    keys: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        labeller: Labeller,
        preparation: Preparation,
        features: Sequence[Feature],
        output: OutputConfig,
    ):
        raise NotImplementedError

    @classmethod
    def check(cls, rule: type[Rule], output: OutputConfig) -> None:
        """Raise JobFileError where the output asks for a column that the rule can't give."""

    @classmethod
    def meanings(cls, rule: type[Rule]) -> dict[str, str]:
        """Return the meanings of columns whose rule has words of its own for them."""
        return {}

    @classmethod
    def row_bytes(cls, output: OutputConfig) -> int:
        """Return the bytes of a row in the columns."""
        return 0

    @classmethod
    def held(cls, output: OutputConfig) -> Terms:
        """Return the memory of a task for the columns, besides the columns themselves."""
        return {}

    def add(self, block: Block, Z: np.ndarray, labelled: Columns) -> Columns:
        """Return the columns of a block with prepared rows Z (n, d), as far as they are asked for.

        `labelled` are the columns of the rule.
        """
        raise NotImplementedError

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts of all blocks, under names that no other has."""
        return {}

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take in another partition's counts."""

    def parts(self, rows: PilotRows, preparation: Preparation) -> ExplainedParts:
        """Return parts of the report by name; `rows` are the pilot, prepared by `preparation`."""
        return {}
