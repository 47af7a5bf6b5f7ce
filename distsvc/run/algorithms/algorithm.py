"""What an algorithm offers to a job: its steps, its rules and its part of the page, in one room.

The rooms are in `distsvc.run.algorithms`, which lists them. What they need to know of a job is
imported from here, but for the ways to rows (`preparation`, `stream`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypedDict

import numpy as np

from distsvc.job.config import Job
from distsvc.models.engine import Engine
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.rule import Rule
from distsvc.report.content.model_parts import ChoicePart, DomainPart, LevelsPart, TreePart
from distsvc.report.content.report import Sample
from distsvc.run.learning.sizes import Held, Sizes, Terms
from distsvc.run.learning.survey import Pilot, Survey
from distsvc.run.work.checkpoints import Checkpoint
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.storage.tables.opening import Block, Table

__all__ = [
    "Block",
    "Checkpoint",
    "Columns",
    "Held",
    "Job",
    "Parts",
    "Phase",
    "Pilot",
    "Result",
    "Room",
    "Rows",
    "Rule",
    "RunDirectory",
    "Sizes",
    "Steps",
    "Survey",
    "Table",
    "Terms",
]

Columns = dict[str, Any]
"""Published columns by name: arrays, or lists of what an array can't hold."""


@dataclass(frozen=True)
class Rows:
    """The labelled pilot: raw (m, d) float64, prepared X (m, d), labels (m,) and scores (m,).

    `numbers` (m,) int64 are the rows' in the table; `sample` is what the page draws of them.
    """

    numbers: np.ndarray
    raw: np.ndarray
    X: np.ndarray
    labels: np.ndarray
    scores: np.ndarray
    sample: Sample


class Parts(TypedDict, total=False):
    """The parts of the report that only some algorithms have, by their names there."""

    picture: DomainPart | None
    tree: TreePart
    levels: LevelsPart
    choice: ChoicePart


class Room(Protocol):
    """An algorithm, or some that go the same way, in one job.

    Attributes
    ----------
    rules : tuple of Rule classes
        What it can end in; all want rows of one type, and publish the same columns.
    parameters : dict
        The estimator's, as the page shows them.
    engine : Engine
        What learns. It keeps what `fit` finds out, for the page, and ``notes`` of what is
        remarkable.
    learning, readings : tuple of str
        The phases of `fit` that take as long as `work` says, and those that read the table; all
        others take the same time for every table.
    all_rows : bool
        Whether all rows count, those that lie far from all others too.
    folder : Path or None
        Of the published model that it is, if it learns none.

    """

    rules: ClassVar[tuple[type[Rule], ...]]
    learning: ClassVar[tuple[str, ...]]
    readings: ClassVar[tuple[str, ...]] = ()
    all_rows: ClassVar[bool] = False
    folder: Path | None = None
    parameters: dict[str, Any]
    engine: Engine

    @classmethod
    def begin(cls, job: Job, table: Table, estimator: Any) -> Room | None:
        """Return the room of a job, its parameters checked, or None where the job is another's.

        `estimator` is that of the job's algorithm, with the parameters that the job gives.
        """

    def algorithm(self, job: Job) -> str:
        """Return the algorithm that the model of a run is by."""
        return job.model.algorithm

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the ranges of keys of the rows that the survey keeps as the table has them."""
        return self.engine.key_ranges(n_rows)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Learn, in phases on workers and steps of the driver; return what labels rows."""

    def work(self, n_rows: int) -> float:
        """Return how much the phases of `learning` have to do, in any unit, for so many rows."""
        return sample_rows(self, n_rows)

    def intensity(self, n_rows: int) -> float:
        """Return how much `readings` do with a row besides reading it, in any unit, after `fit`."""
        return 1.0

    def held(self, sizes: Sizes) -> Held:
        """Return the largest things in memory while `fit` is at work, besides rows being read."""
        return Held()

    def more_arrays(self) -> dict[str, np.ndarray]:
        """Return arrays that are published beside the rule's, but don't label rows."""
        return {}

    def warnings(self) -> list[str]:
        """Return what is remarkable, for the top of the page."""
        return self.engine.notes

    def parts(self, run: RunDirectory, rows: Rows) -> Parts:
        """Return the parts of the report that this algorithm has."""
        return Parts()


def sample_rows(room: Room, n_rows: int) -> int:
    """Return the rows, about, that an algorithm learns from in a table of so many."""
    return _rows_of(room.engine.key_ranges(n_rows), n_rows)


def kept_rows(room: Room, n_rows: int) -> int:
    """Return the rows, about, that the survey of a table of so many keeps for an algorithm."""
    return _rows_of(room.sample_ranges(n_rows), n_rows)


def _rows_of(ranges: Ranges, n_rows: int) -> int:
    return min(round(n_rows * (ranges[-1][1] - ranges[0][0]) / 2**64), n_rows)
