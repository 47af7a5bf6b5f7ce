"""Support vector clustering by trees of level sets, with a vote of the models.

1. ``views``, for wide tables only: one pass stores the sample along the models' directions, at most
20 components of a row, so that wide rows are not read again.
2. ``learn``: each model is a task. It streams the sample, grows a tree of level sets, and tests its
splits on rows of the sample.
3. ``vote``: the driver counts the votes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from distsvc.job.config import Job
from distsvc.models.nights.continuity import MATCHED_ROWS
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rows.sampling import Ranges, key_threshold
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.directions import MOST_COMPONENTS
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.ensemble import (
    BUDGET,
    STEPS,
    Ensemble,
    steps_of_member,
)
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.models.support_vector.level_tree.tree import LevelTree
from distsvc.run.algorithms.algorithm import Parts, PilotRows
from distsvc.run.algorithms.level_pictures import levels_part
from distsvc.run.algorithms.support_vector import SupportVectorJob, domain_part
from distsvc.run.learning.aside import learned_blocks
from distsvc.run.learning.preparation import learned
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.stream import held_stream, keyed_blocks, sample_blocks
from distsvc.run.learning.survey import Collected, Survey, gather, gathered, keyed_rows, parts
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.workers.cluster import driver_threads
from distsvc.storage.rows.blocks import Table

ENSEMBLE = "ensemble"

WIDE = 2 * MOST_COMPONENTS
"""Maximum number of columns of tables whose rows are not projected in advance."""

SUMS = "sums"


@dataclass(frozen=True)
class Training:
    """Models to train, with the rows that they learn from.

    Attributes
    ----------
    ensemble : Ensemble
    n_rows : int
        Number of rows in the table.
    ranges : list of (int, int)
        Key ranges of the rows that models learn from.
    viewed : bool
        Whether projected rows are stored.
    view : ndarray of shape (m, q), float32
        Projected pilot.

    """

    ensemble: Ensemble
    n_rows: int
    ranges: Ranges
    viewed: bool
    view: np.ndarray

    @classmethod
    def read(cls, run: RunDirectory) -> Training:
        """Return the training stored in a run."""
        found = run.read(ENSEMBLE)
        known, arrays = found.facts, found.arrays
        ensemble = Ensemble.restored(known["ensemble"], arrays["components"])
        ranges = [(low, high) for low, high in known["ranges"]]
        return cls(ensemble, known["n_rows"], ranges, known["viewed"], arrays["view"])

    def write(self, run: RunDirectory) -> None:
        """Store the training for all tasks."""
        facts = {"ensemble": self.ensemble.facts(), "n_rows": self.n_rows, "ranges": self.ranges}
        arrays = {"components": self.ensemble.components, "view": self.view}
        run.write(ENSEMBLE, Result(facts | {"viewed": self.viewed}, arrays))

    def collected(self) -> Collected:
        """Return an empty sample of projected rows."""
        last = key_threshold(self.n_rows, self.ensemble.sample_rows) - 1
        return Collected(len(self.ensemble.components), "float32", last=last)

    def blocks(
        self, run: RunDirectory, epoch: int, ranges: Ranges, first: int
    ) -> Iterator[np.ndarray]:
        """Yield the projected blocks (n, q) float32 of an epoch, from index `first` on."""
        if self.viewed:
            kept = [keyed_rows(run, name) for name in parts(run, PROJECT, GATHER_VIEWS)]
            yield from keyed_blocks(
                kept, lambda rows, _: rows, ranges, self.ensemble.seed, epoch, first
            )
            return
        for block in sample_blocks(run, ranges, self.ensemble.seed, epoch, first):
            yield self.ensemble.view(block)


def keep_views(steps: Steps) -> None:
    """Store the projected rows of the sample."""
    steps.do(PROJECT)
    gather(steps, GATHER_VIEWS)


def view_partition(run: RunDirectory, number: int) -> Result:
    """Return a partition's projected rows of the sample, in the order of their keys."""
    training, n_rows = Training.read(run), 0
    ensemble, kept = training.ensemble, training.collected()
    for block, keys in learned_blocks(run, number):
        n_rows += len(block.rows)
        wanted = kept.wants(keys)
        X = block.X if wanted.all() else block.X[wanted]
        kept.add(ensemble.view(learned(run, X, keys[wanted])), keys[wanted])
    return Result(large=kept.arrays(), rows=n_rows)


def gather_views(run: RunDirectory, number: int) -> Result:
    """Merge the projected samples of neighbouring partitions, in the order of keys."""
    return gathered(run, PROJECT, number, Training.read(run).collected())


PROJECT = Phase("views", view_partition)
GATHER_VIEWS = Phase("gather-views", gather_views)


class LevelTrees(SupportVectorJob):
    """Models of several widths and subspaces, and the vote among their cuts."""

    rules = (LevelRule,)
    engine_type = LevelTreeEngine
    engine: LevelTreeEngine
    viewed = False
    matched_rows = 0

    @classmethod
    def begin(cls, job: Job, table: Table, parameters: dict[str, Any]) -> LevelTrees | None:
        """Return the algorithm of a job for the level tree, else None."""
        begun = super().begin(job, table, parameters)
        return begun.of_table(job, table) if begun else None

    def of_table(self, job: Job, table: Table) -> LevelTrees:
        """Set whether projected rows are stored, and the driver's number of threads."""
        self.engine.n_jobs = driver_threads()
        self.viewed = self.engine.parameters.gamma == "auto" and len(table.columns) > WIDE
        self.matched_rows = MATCHED_ROWS if job.continuity.previous else 1
        self.readings = (PROJECT.name,) if self.viewed else ()
        return self

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the engine's key ranges; of matched rows if projected rows are stored."""
        if not self.viewed:
            return self.engine.sample_ranges(n_rows)
        return sampling.key_blocks(n_rows, min(self.matched_rows, n_rows))

    def go_on_from(self, labels: np.ndarray) -> None:
        """Prefer the previous answer in the vote."""
        self.engine.go_on_from(labels)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        """Train the models, test the splits of their trees, and let them vote."""
        engine, ensemble = self.engine, self.engine.ensemble
        n_rows, ranges = survey.n_rows, engine.key_ranges(survey.n_rows)
        Training(ensemble, n_rows, ranges, self.viewed, engine.view).write(steps.run)
        if self.viewed:
            keep_views(steps)
        results = list(steps.map(LEARN_MODELS, len(ensemble.members)))
        with steps.progress.phase("vote"):
            engine.choose([tree_of(one) for one in results], [sums_of(one) for one in results])
        return engine.rule

    def work(self, n_rows: int) -> dict[str, float]:
        """Return the number of steps of a model, which is equal for all but small tables."""
        return {LEARN_MODELS.name: float(steps_of_member(n_rows, self.engine.parameters.max_iter))}

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of a model's support vectors, and of the stream that it learns from.

        If projected rows are stored, a partition's rows exist twice while they are sorted. The rows
        that a model learns from are memory-mapped.
        """
        given, q = self.engine.parameters, min(sizes.n_columns, MOST_COMPONENTS)
        most = min(STEPS, given.max_iter)
        vectors = most if given.solver == "sgd" else given.budget or BUDGET
        model = {"support vectors": 8.0 * vectors * (q + 16)}
        if self.viewed:
            learned = min(given.max_iter, sizes.n_rows)
            rows = 2.0 * sizes.partition_rows + sizes.block_rows + learned
            return Held(model, model | {"rows as models see them": 4.0 * q * rows})
        viewed = {"rows as models see them": 8.0 * q * sizes.block_rows}
        return Held(model, held_stream(sizes) | model | viewed)

    def parts(self, run: RunDirectory, pilot: PilotRows) -> Parts:
        """Return the report's parts: level sets with their votes, and the domain of novelty."""
        domain = domain_part(run, self.engine, pilot.sample)
        return Parts(picture=domain, levels=levels_part(self.engine.levels))


def learn(run: RunDirectory, number: int, checkpoint: Checkpoint) -> Result:
    """Train one model on the sample in its own order; grow and test its tree."""
    training = Training.read(run)
    ensemble = training.ensemble
    blocks = partial(training.blocks, run)
    tree = ensemble.grow(number, training.view, training.ranges, blocks, checkpoint)
    return tree_result(tree, ensemble, ensemble.test(number, tree, training.n_rows, blocks))


LEARN_MODELS = Phase("learn", learn, sequential=True)


def tree_result(tree: LevelTree, ensemble: Ensemble, sums: np.ndarray) -> Result:
    """Return the result of a task that trained a model, for `tree_of` and `sums_of`."""
    arrays = {name: value for name, value in vars(tree).items() if isinstance(value, np.ndarray)}
    return Result({"gamma": tree.gamma}, arrays | {SUMS: sums}, rows=ensemble.steps)


def tree_of(result: Result) -> LevelTree:
    """Return the untested tree of one model."""
    arrays = {name: value for name, value in result.arrays.items() if name != SUMS}
    return LevelTree(gamma=result.facts["gamma"], **arrays)


def sums_of(result: Result) -> np.ndarray:
    """Return the sums (4, b) that test the splits of one model's tree."""
    return result.arrays[SUMS]
