"""Interface of an algorithm as a job: fit, forecast of time and memory, and report.

The algorithms are listed in `distsvc.run.algorithms`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from distsvc.job.parameters import Given
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.engine import Engine
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.report.content.report import Sample
from distsvc.run.learning.stream import Memory, Sizes
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps

TRAINED = "train"
"""Name of the step in which the driver trains an algorithm on the sample, and of its result."""

Columns = dict[str, Any]
"""Published columns by name, each an array or a list."""

Parts = dict[str, Any]
"""Parts of the report, by the names of the fields of `Report`."""


@dataclass(frozen=True)
class PilotRows:
    """The pilot, rows that were drawn at random in the survey, with labels and scores."""

    numbers: np.ndarray  # (m,) int64: numbers of the rows in the table
    raw: np.ndarray  # (m, d) float64: stored rows
    X: np.ndarray  # (m, D): prepared rows
    labels: np.ndarray  # (m,)
    scores: np.ndarray  # (m,)
    sample: Sample  # the rows that the page draws


@dataclass(frozen=True)
class Learned:
    """Description of a fit, for the stored model and the report.

    The rule is not a part of it: `AlgorithmJob.fit` returns the rule.
    """

    algorithm: str  # name of the algorithm whose answer was chosen
    parameters: Given
    facts: Facts  # results of the fit
    warnings: list[str] = field(default_factory=list)  # sentences for the top of the page
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # stored in the model
    parts: Callable[[RunDirectory, PilotRows], Parts] = lambda run, pilot: Parts()
    folder: Path | None = None  # a published model that was used instead of a new one


class AlgorithmJob(ABC):
    """Base of the classes that run an algorithm as a job.

    Algorithms with the same phases share a subclass.
    """

    rules: ClassVar[tuple[type[Rule], ...]]  # possible rules; all take the same prepared rows
    all_rows: ClassVar[bool] = False  # whether extreme rows are learned from, too
    readings: tuple[str, ...] = ()  # phases of `fit` that read the table
    name = ""  # name of the algorithm in the job
    engine: Engine  # computes the model; has the results of `fit`, and notes for the page
    parameters: Given

    def __init__(self, parameters: Given, engine: Engine):
        self.parameters, self.engine = parameters, engine

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the sample; the survey stores rows with keys in the ranges."""
        return self.engine.key_ranges(n_rows)

    def go_on_from(self, previous: PreviousAnswer) -> None:  # noqa: B027
        """Prefer the previous answer, if the algorithm has several possible answers."""

    @abstractmethod
    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Learn from the table, on workers and on the driver; return the rule that labels rows."""

    def learned(self) -> Learned:
        """Return the description of the answer, after `fit`."""
        facts, notes = self.engine.fitted_facts(), self.engine.notes
        return Learned(self.name, self.parameters, facts, notes, parts=self.parts)

    def parts(self, run: RunDirectory, pilot: PilotRows) -> Parts:
        """Return the parts of the report that only this algorithm has."""
        return Parts()

    def work(self, n_rows: int) -> dict[str, float]:
        """Return the amount of work of each phase that learns, for a table of `n_rows`.

        The time of a phase is proportional to this number, whose unit is arbitrary. A forecast
        divides the numbers of the whole table and of a trial, and scales the trial's time.
        """
        return {TRAINED: float(sample_rows(self, n_rows))}

    def memory(self, sizes: Sizes) -> Memory:
        """Return the memory of the largest objects of `fit`, on the driver and on a worker.

        Blocks of rows that a task reads are not included: the forecast adds them.
        """
        return Memory()


def sample_rows(algorithm: AlgorithmJob, n_rows: int) -> int:
    """Return the approximate number of rows of a table that an algorithm learns from."""
    return rows_between(algorithm.engine.key_ranges(n_rows), n_rows)


def rows_between(ranges: Ranges, n_rows: int) -> int:
    """Return the approximate number of rows of a table whose keys lie in adjacent ranges."""
    return min(round(n_rows * (ranges[-1][1] - ranges[0][0]) / 2**64), n_rows)


def rounded(values: np.ndarray) -> list[float]:
    """Return numbers with six decimals, for the report."""
    return [round(float(v), 6) for v in values]
