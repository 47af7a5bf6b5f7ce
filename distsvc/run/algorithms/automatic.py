"""The default of a job, the level tree and iMDH beside each other, and the choice of one.

1. Both look at one survey and one preparation; the sample has the rows that either needs.
2. The level tree learns in its phases, then hyperplanes, where columns are many.
3. The engine chooses: hyperplanes answer where the models of the level tree disagree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distsvc.job.config import Job
from distsvc.job.parameters import check_parameters
from distsvc.models.automatic.engine import HYPERPLANES, LEVEL_TREE, AutomaticEngine
from distsvc.models.automatic.rule import ScoredTreeRule
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.report.content.model_parts import ChoicePart, Considered
from distsvc.run.algorithms.algorithm import AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.algorithms.hyperplanes import TREES, Hyperplanes
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.rows.blocks import Table


class Automatic(AlgorithmJob):
    """Both algorithms, of which one has the answer in the end."""

    rules = (LevelRule, ScoredTreeRule)
    engine: AutomaticEngine

    def __init__(self, engine: AutomaticEngine, job: Job, table: Table):
        self.engine = engine
        given = engine.parameters_of
        self.levels = LevelTrees(given[LEVEL_TREE], engine.levels).of_table(job, table)
        self.trees = Hyperplanes(given[HYPERPLANES], engine.trees, TREES)
        self.parameters, self.readings = self.levels.parameters, self.levels.readings

    @classmethod
    def begin(cls, job: Job, table: Table, estimator: Any) -> Automatic | None:
        """Return the algorithm of a job that names none."""
        if job.model.algorithm != "auto":
            return None
        check_parameters("auto", estimator.get_params())
        return cls(AutomaticEngine(estimator.parameters_of_both(), job.model.seed), job, table)

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the ranges of the level tree, or of hyperplanes, if these are more."""
        several = [one.sample_ranges(n_rows) for one in (self.levels, self.trees)]
        return max(several, key=lambda ranges: ranges[-1][1])

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Fit both, hyperplanes only where columns are many, and choose."""
        for one in self.levels, self.trees:
            one.engine.notes.extend(self.engine.notes)
        self.levels.fit(steps, survey)
        if self.engine.asks_trees:
            self.trees.fit(steps, survey)
        self.engine.choose()
        return self.engine.rule

    def learned(self, job: Job) -> Learned:
        """Return the description of the chosen algorithm, and the reason for the choice."""
        engine = self.engine
        chosen = {LEVEL_TREE: self.levels, HYPERPLANES: self.trees}[engine.chosen].learned(job)
        considered = [
            Considered(algorithm=name, n_clusters=count, chosen=name == engine.chosen)
            for name, count in engine.counts().items()
        ]
        choice = ChoicePart(why=engine.why(), considered=considered, likeness=engine.likeness)

        def parts(run: RunDirectory, pilot: PilotRows) -> Parts:
            return Parts(**chosen.parts(run, pilot), choice=choice)

        facts = engine.fitted_facts()
        return replace(chosen, algorithm=engine.chosen, facts=facts, parts=parts)

    def work(self, n_rows: int) -> dict[str, float]:
        """Return the work of the level tree for both: that of the trees grows alike."""
        levels = self.levels.work(n_rows)
        return levels | {TREES.name: max(levels.values())}

    def intensity(self, n_rows: int) -> float:
        """Return that of the level tree."""
        return self.levels.intensity(n_rows)

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of both."""
        first, second = (one.held(sizes) for one in (self.levels, self.trees))
        return Held(first.driver | second.driver, first.worker | second.worker)
