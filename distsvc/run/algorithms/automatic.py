"""The default of a job: the level tree and iMDH beside each other, and the choice of one."""

from __future__ import annotations

from typing import Any

from distsvc.job.parameters import check_parameters
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.automatic.rule import ScoredTreeRule
from distsvc.models.rows.sampling import Ranges
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.report.content.model_parts import ChoicePart, Considered
from distsvc.run.algorithms.algorithm import (
    Held,
    Job,
    Parts,
    Room,
    Rows,
    Rule,
    RunDirectory,
    Sizes,
    Steps,
    Survey,
)
from distsvc.run.algorithms.hyperplanes import TREES, Hyperplanes
from distsvc.run.algorithms.level_tree import LevelTrees
from distsvc.storage.tables.opening import Table


class Automatic(Room):
    """Both algorithms' rooms, of which one has the answer in the end."""

    rules = (LevelRule, ScoredTreeRule)
    learning = (*LevelTrees.learning, TREES.name)
    engine: AutomaticEngine

    def __init__(self, engine: AutomaticEngine, job: Job, table: Table):
        self.engine = engine
        given = engine.parameters_of
        self.levels = LevelTrees(given["support-vector"], engine.levels).of_table(job, table)
        self.rooms: dict[str, Room] = {
            "support-vector": self.levels,
            "imdh": Hyperplanes(given["imdh"], engine.trees, TREES),
        }

    @classmethod
    def begin(cls, job: Job, table: Table, estimator: Any) -> Automatic | None:
        """Return the room of a job that names no algorithm."""
        if job.model.algorithm != "auto":
            return None
        check_parameters("auto", estimator.get_params())
        return cls(AutomaticEngine(estimator.parameters_of_both(), job.model.seed), job, table)

    @property
    def chosen(self) -> Room:
        """The room of the algorithm that has the answer; before there is one, the first."""
        return self.rooms[getattr(self.engine, "chosen", "support-vector")]

    @property
    def parameters(self) -> dict[str, Any]:  # type: ignore[override]
        """Those of the algorithm that has the answer."""
        return self.chosen.parameters

    def algorithm(self, job: Job) -> str:
        """Return the algorithm that has the answer."""
        return getattr(self.engine, "chosen", job.model.algorithm)

    @property
    def readings(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the level tree."""
        return self.levels.readings

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return those of the level tree, or of hyperplanes, if these are more."""
        several = [room.sample_ranges(n_rows) for room in self.rooms.values()]
        return max(several, key=lambda ranges: ranges[-1][1])

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Fit both, hyperplanes only where they are asked, and choose."""
        for room in self.rooms.values():
            room.engine.notes.extend(self.engine.notes)
        self.rooms["support-vector"].fit(steps, survey)
        if self.engine.asks_trees:
            self.rooms["imdh"].fit(steps, survey)
        self.engine.choose()
        return self.engine.rule

    def work(self, n_rows: int) -> float:
        """Return what the level tree has to do: that of the trees grows alike."""
        return self.rooms["support-vector"].work(n_rows)

    def intensity(self, n_rows: int) -> float:
        """Return that of the level tree."""
        return self.rooms["support-vector"].intensity(n_rows)

    def held(self, sizes: Sizes) -> Held:
        """Return what both hold."""
        first, second = (room.held(sizes) for room in self.rooms.values())
        return Held(first.driver | second.driver, first.worker | second.worker)

    def warnings(self) -> list[str]:
        """Return what is remarkable about the answer."""
        return self.chosen.warnings()

    def parts(self, run: RunDirectory, rows: Rows) -> Parts:
        """Return the parts of the algorithm that has the answer, and why it is that one."""
        engine = self.engine
        considered = [
            Considered(algorithm=name, n_clusters=count, chosen=name == engine.chosen)
            for name, count in engine.counts().items()
        ]
        choice = ChoicePart(why=engine.why(), considered=considered, likeness=engine.likeness)
        return Parts(**self.chosen.parts(run, rows), choice=choice)
