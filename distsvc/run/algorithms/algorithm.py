"""An algorithm as a job: it learns, forecasts time and memory, and describes its answer.

The algorithms are listed in `distsvc.run.algorithms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypedDict

import numpy as np

from distsvc.job.config import Job
from distsvc.job.parameters import Given
from distsvc.models.engine import Engine
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.report.content.model_parts import ChoicePart, DomainPart, LevelsPart, TreePart
from distsvc.report.content.report import Sample
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table

TRAINED = "train"
"""The step, and its result, of an algorithm that the driver trains on the sample."""

Columns = dict[str, Any]
"""Published columns by name: arrays, or lists of what an array can't hold."""


@dataclass(frozen=True)
class PilotRows:
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


@dataclass(frozen=True)
class Learned:
    """The answer of an algorithm as model and report describe it, besides the rule.

    `algorithm` is the one that has the answer, `parameters` are the estimator's, and `facts` the
    numbers that the fit arrived at. `warnings` are for the top of the page. `arrays` are published
    beside the rule's; rows are labelled without them. `parts` returns the parts of the report that
    only this algorithm has. `folder` is the published model that was used in place of a new one.
    """

    algorithm: str
    parameters: Given
    facts: Facts
    warnings: list[str] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    parts: Callable[[RunDirectory, PilotRows], Parts] = lambda run, pilot: Parts()
    folder: Path | None = None


class Sampling(Protocol):
    """Learns from a sample, and ends in a rule.

    `rules` are the forms of its answer; all take rows of one type and publish the same columns. The
    `engine` learns, and keeps the numbers that `fit` arrives at, and notes for the page.
    """

    rules: ClassVar[tuple[type[Rule], ...]]
    engine: Engine

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the ranges of keys of the rows that the survey keeps as the table has them."""
        return self.engine.key_ranges(n_rows)


class Learner(Sampling, Protocol):
    """Fits a table; `all_rows` is whether rows count that lie far from all others."""

    all_rows: ClassVar[bool] = False

    def go_on_from(self, labels: np.ndarray) -> None:
        """Prefer the answer of the run before, which gave `labels` (m,) to the pilot's rows.

        Algorithms whose answers are not chosen among several do without.
        """

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Learn, in phases on workers and steps of the driver; return the rule that labels rows."""

    def learned(self, job: Job) -> Learned:
        """Return the description of the answer, after `fit`."""


class Forecastable(Sampling, Protocol):
    """Says before a fit how long it takes and how much it holds.

    `readings` are the phases of `fit` that read the table. A phase that is neither among these nor
    in `work` takes the same time for every table.
    """

    readings: tuple[str, ...] = ()

    def work(self, n_rows: int) -> dict[str, float]:
        """Return how much the phases that learn from so many rows have to do, in any unit."""
        return {TRAINED: float(sample_rows(self, n_rows))}

    def intensity(self, n_rows: int) -> float:
        """Return how much `readings` do with a row besides reading it, in any unit, after `fit`."""
        return 1.0

    def held(self, sizes: Sizes) -> Held:
        """Return the largest things in memory while `fit` is at work, besides rows being read."""
        return Held()


class AlgorithmJob(Learner, Forecastable, Protocol):
    """An algorithm, or several with the same phases, with the `parameters` of one job."""

    parameters: Given

    def __init__(self, parameters: Given, engine: Engine):
        self.parameters, self.engine = parameters, engine

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: dict[str, Any]) -> Self | None:
        """Return the algorithm of a job, its parameters checked; None if the job names another.

        `parameters` are all that the estimator has, with those that the job gives.
        """

    def learned(self, job: Job) -> Learned:
        """Return the parameters, facts and notes, which every algorithm has, and `parts`."""
        facts, notes = self.engine.fitted_facts(), self.engine.notes
        return Learned(job.model.algorithm, self.parameters, facts, notes, parts=self.parts)

    def parts(self, run: RunDirectory, pilot: PilotRows) -> Parts:
        """Return the parts of the report that only this algorithm has."""
        return Parts()


def sample_rows(algorithm: Sampling, n_rows: int) -> int:
    """Return the rows, about, that an algorithm learns from in a table of so many."""
    return _rows_of(algorithm.engine.key_ranges(n_rows), n_rows)


def kept_rows(algorithm: Sampling, n_rows: int) -> int:
    """Return the rows, about, that the survey of a table of so many keeps for an algorithm."""
    return _rows_of(algorithm.sample_ranges(n_rows), n_rows)


def _rows_of(ranges: Ranges, n_rows: int) -> int:
    return min(round(n_rows * (ranges[-1][1] - ranges[0][0]) / 2**64), n_rows)
