"""Default algorithm of a job: views of a table, and the choice among them.

1. All views use one survey and one preparation; the graph's rows are a part of the sample.
2. Columns that stay as stored have level trees, which learn in their phases.
3. The graph learns in its phases.
4. The driver fits the mixture of modelled columns, and chooses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from distsvc.job.config import Job
from distsvc.models.automatic.decision import ViewDecision
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.automatic.rule import MixtureRule
from distsvc.models.automatic.views import LEVEL_TREE
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.report.content.model_parts import AlternativePart, ChoicePart, Considered
from distsvc.run.algorithms.algorithm import AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.algorithms.graph import Graph
from distsvc.run.algorithms.level_pictures import levels_part
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table


class Automatic(AlgorithmJob):
    """Views of a table, one of which has the answer."""

    rules = (LevelRule, LandmarkRule, MixtureRule)
    engine: AutomaticEngine

    def __init__(self, engine: AutomaticEngine, parameters: dict[str, Any], job: Job, table: Table):
        self.engine, self.parameters = engine, parameters
        self.levels = LevelTrees(engine.trees, engine.levels).of_table(job, table)
        self.graph = Graph(engine.graph)
        self.readings = self.levels.readings

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: dict[str, Any]) -> Automatic | None:
        """Return the algorithm of a job that names none, else None."""
        if job.model.algorithm != "auto":
            return None
        engine = AutomaticEngine(parameters, job.model.seed)
        return cls(engine, parameters, job, table)

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the level tree or of the graph, whichever are more."""
        several = [self.levels.sample_ranges(n_rows), self.engine.graph.key_ranges(n_rows)]
        return max(several, key=lambda ranges: ranges[-1][1])

    def go_on_from(self, labels: np.ndarray) -> None:
        """Prefer the previous answer in the choice."""
        self.engine.go_on_from(labels)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Fit the views of the table, and choose."""
        if self.engine.columns is None:
            self.levels.engine.notes.extend(self.engine.notes)
            self.levels.fit(steps, survey)
        if self.engine.asks_graph:
            self.graph.fit(steps, survey)
        self.engine.choose()
        return self.engine.rule

    def learned(self, job: Job) -> Learned:
        """Return the description of the chosen view, and the reason for the choice."""
        engine, answer = self.engine, self.engine.answer
        learned = super().learned(job)
        alone = self.levels.learned(job) if engine.columns is None else None
        if alone and answer.view == LEVEL_TREE:  # an algorithm of its own
            learned = replace(alone, algorithm=LEVEL_TREE)
        considered = [
            Considered(algorithm=name, n_clusters=count, chosen=name == answer.view)
            for name, count in answer.counts.items()
        ]

        def parts(run: RunDirectory, pilot: PilotRows) -> Parts:
            choice = ChoicePart(
                why=answer.why,
                considered=considered,
                likeness=answer.likeness,
                alternative=alternative_part(answer.decision, pilot.labels),
            )
            if answer.levels is None:
                return Parts(choice=choice)
            found = alone.parts(run, pilot) if alone else Parts()
            levels = levels_part(answer.levels, engine.numbers(answer.levels))
            return Parts(**found | {"levels": levels}, choice=choice)

        return replace(learned, facts=engine.fitted_facts(), warnings=engine.notes, parts=parts)

    def work(self, n_rows: int) -> dict[str, float]:
        """Return the work of the level tree and the graph."""
        return self.levels.work(n_rows) | self.graph.work(n_rows)

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of the level tree and the graph."""
        first, second = (one.held(sizes) for one in (self.levels, self.graph))
        return Held(first.driver | second.driver, first.worker | second.worker)


def alternative_part(decision: ViewDecision | None, labels: np.ndarray) -> AlternativePart | None:
    """Return the best other answer with its overlap with the published labels (m,)."""
    other = None if decision is None else decision.alternative
    if decision is None or other is None:
        return None
    own, its = labels[: len(other.labels)], np.unique(other.labels, return_inverse=True)[1]
    known = np.unique(own)
    rows = np.zeros((len(known), other.n_clusters), np.int64)
    np.add.at(rows, (np.searchsorted(known, own), its), 1)
    return AlternativePart(
        view=other.view,
        n_clusters=other.n_clusters,
        chance=decision.agreement,
        label=known.tolist(),
        rows=rows.tolist(),
    )
