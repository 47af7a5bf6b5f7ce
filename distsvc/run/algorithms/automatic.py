"""Default algorithm of a job: views of a table, and the choice among them.

1. All views use one survey and one preparation; the graph's rows are a part of the sample.
2. Without a column model, level trees learn from the scaled columns, in phases of their own. If the
   trees separate clusters clearly, no graph is built.
3. ``graph``: the driver computes the diffusion coordinates of the graph's rows. ``learn-graph``:
   each task trains a model of middle kernel width on the coordinates. If these models disagree,
   ``learn-graph-others`` trains models of all other widths. Meanwhile the driver fits mixtures, if
   there is a column model.
4. ``choose``: the driver compares the proposals of the views, and chooses one.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from distsvc.job.config import Job
from distsvc.job.parameters import Given
from distsvc.models.automatic.decision import Alternative
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.automatic.proposals import LEVEL_TREE
from distsvc.models.automatic.rule import FlooredLandmarkRule, MixtureRule
from distsvc.models.graph.coordinates import GRAPH_NEIGHBOURS, MOST_COORDINATES, NoGraphReason
from distsvc.models.graph.engine import GRAPH_ROWS, GraphEngine, grow
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.rows.principal_components import SEARCHED
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rows.threads import one_thread
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.engine import Grown
from distsvc.models.support_vector.level_tree.ensemble import BUDGET, Ensemble, steps_of_member
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.report.content.model_parts import AlternativePart, ChoicePart, Considered
from distsvc.run.algorithms.algorithm import AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.algorithms.level_tree import LevelTrees, levels_part, tree_result, trees_of
from distsvc.run.learning.stream import SCIKIT_LEARN, Memory, Sizes, read_sample
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.workers.cluster import driver_threads
from distsvc.storage.rows.blocks import Table

COORDINATES, WITHOUT = "graph", "without"


class Graph:
    """Learns, in phases, the views of `Automatic` that use the neighbour graph."""

    def __init__(self, engine: GraphEngine):
        self.engine = engine
        engine.n_jobs = driver_threads()

    def fit(self, steps: Steps, survey: Survey) -> None:
        """Compute coordinates, train the models, and choose clusters by their votes."""
        engine, run = self.engine, steps.run
        ranges = engine.key_ranges(survey.n_rows)
        placed = steps.work_out(COORDINATES, partial(self._place, run, ranges))
        if not engine.placed:  # computed before the run was resumed
            kept, reason = placed.arrays, placed.facts.get(WITHOUT)
            coordinates = kept["coordinates"] if reason is None else NoGraphReason(reason)
            engine.take(kept["points"], kept["keys"], kept["point_of"], coordinates)
        if engine.coordinates is None:
            return
        rounds = engine.tree.ensemble.rounds

        def train(part: int) -> list[Grown]:
            return trees_of(steps.map(LEARN_GRAPH[part], len(rounds[part])))

        engine.tree.choose_early(train)

    def work(self, n_rows: int) -> dict[str, float]:
        """Return numbers proportional to the time of each phase, as in `AlgorithmJob.work`.

        The time of ``graph`` grows with the square of the graph's rows. The time of the other
        phases grows with the steps of a model.
        """
        m = min(n_rows, GRAPH_ROWS)
        steps = float(steps_of_member(m, self.engine.parameters.max_iter))
        return {COORDINATES: float(m) ** 2} | {phase.name: steps for phase in LEARN_GRAPH}

    def memory(self, sizes: Sizes) -> Memory:
        m = min(sizes.n_rows, GRAPH_ROWS)
        p = min(sizes.n_columns, SEARCHED)
        rows = {"the graph's rows": 4.0 * m * (2 * sizes.n_columns + p)}
        walk = {"the graph and its walk": 64.0 * m * (GRAPH_NEIGHBOURS + MOST_COORDINATES)}
        walk |= {"distances of rows": 64.0 * m * driver_threads()}
        view = {"the graph's coordinates": 12.0 * m * MOST_COORDINATES}
        vectors = {"support vectors": 8.0 * BUDGET * (MOST_COORDINATES + 16)}
        return Memory(rows | walk, view | vectors)

    def _place(self, run: RunDirectory, ranges: Ranges) -> Result:
        keys, rows = read_sample(run, ranges)
        engine = self.engine
        engine.place(rows, keys)
        arrays = {"points": engine.points, "keys": engine.keys, "point_of": engine.point_of}
        if engine.coordinates is None:
            return Result({WITHOUT: engine.without}, arrays, rows=len(rows))
        ensemble = engine.tree.ensemble
        arrays |= {"coordinates": engine.coordinates, "view": engine.seen}
        arrays |= {"components": ensemble.components}
        return Result({"ensemble": ensemble.facts()}, arrays, rows=len(rows))


def learn_graph(run: RunDirectory, number: int, part: int) -> Result:
    """Train one model on the graph's coordinates; grow and test its tree."""
    placed = run.read(COORDINATES)
    ensemble = Ensemble.restored(placed.facts["ensemble"], placed.arrays["components"])
    view, keys = placed.arrays["view"], placed.arrays["keys"]
    tree, sums = grow(ensemble, ensemble.rounds[part][number], view, keys)
    return tree_result(tree, ensemble, sums)


LEARN_GRAPH = (
    Phase("learn-graph", partial(learn_graph, part=0)),
    Phase("learn-graph-others", partial(learn_graph, part=1)),
)
"""Two phases of training: first the models of middle kernel width, then all other models."""


class Automatic(AlgorithmJob):
    """Default algorithm: fits several views of a table, and chooses one."""

    rules = (LevelRule, LandmarkRule, FlooredLandmarkRule, MixtureRule)
    engine: AutomaticEngine

    def __init__(self, parameters: Given, job: Job, table: Table):
        engine = AutomaticEngine(parameters, job.model.seed)
        super().__init__(parameters, engine)
        self.column_trees = LevelTrees(engine.tree_parameters, engine.column_trees, job, table)
        self.graph = Graph(engine.graph)
        self.readings = self.column_trees.readings

    def sample_ranges(self, n_rows: int) -> Ranges:
        several = [self.column_trees.sample_ranges(n_rows), self.engine.graph.key_ranges(n_rows)]
        return max(several, key=lambda ranges: ranges[-1][1])

    def go_on_from(self, previous: PreviousAnswer) -> None:
        self.engine.go_on_from(previous)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        if self.engine.columns is None:
            self.column_trees.fit(steps, survey)
        # Threads that each set the limit of threads would restore wrong limits.
        with one_thread(), ThreadPoolExecutor(1) as pool:
            mixtures = pool.submit(self.engine.learn_mixtures) if driver_threads() > 1 else None
            if self.engine.uses_graph:
                self.graph.fit(steps, survey)
            with steps.progress.phase("choose"):
                if mixtures is not None:
                    mixtures.result()
                self.engine.choose()
        return self.engine.rule

    def learned(self) -> Learned:
        engine, answer = self.engine, self.engine.answer
        learned = super().learned()
        alone = self.column_trees.learned() if answer.view == LEVEL_TREE else None
        if alone:  # reported by its own name
            learned = replace(alone, algorithm=LEVEL_TREE)
        considered = [
            Considered(algorithm=name, n_clusters=count, chosen=name == answer.view)
            for name, count in answer.counts.items()
        ]

        def parts(run: RunDirectory, pilot: PilotRows) -> Parts:
            decision = answer.decision
            choice = ChoicePart(
                why=answer.why,
                considered=considered,
                likeness=answer.likeness,
                alternative=other_answer(decision.alternative, pilot.labels) if decision else None,
                overlap=decision.overlap if decision else None,
            )
            if answer.levels is None:
                return Parts(choice=choice)
            found = alone.parts(run, pilot) if alone else Parts()
            numbers = engine.numbers(answer.levels)
            levels = levels_part(answer.levels, numbers, has_chance=decision is None)
            return found | Parts(levels=levels, choice=choice)

        return replace(learned, facts=engine.fitted_facts(), warnings=engine.notes, parts=parts)

    def work(self, n_rows: int) -> dict[str, float]:
        return self.column_trees.work(n_rows) | self.graph.work(n_rows)

    def memory(self, sizes: Sizes) -> Memory:
        first, second = (one.memory(sizes) for one in (self.column_trees, self.graph))
        return Memory(first.driver | second.driver | SCIKIT_LEARN, first.worker | second.worker)


def other_answer(found: Alternative | None, labels: np.ndarray) -> AlternativePart | None:
    """Return the report's description of another possible answer; None if there is none.

    The description counts the rows that each of the other clusters shares with each of the
    published clusters. `labels` (m,) are published labels of the pilot.
    """
    if found is None:
        return None
    other = found.proposal
    own, its = labels[: len(other.labels)], np.unique(other.labels, return_inverse=True)[1]
    known = np.unique(own)
    rows = np.zeros((len(known), other.n_clusters), np.int64)
    np.add.at(rows, (np.searchsorted(known, own), its), 1)
    return AlternativePart(
        view=other.view,
        n_clusters=other.n_clusters,
        chance=found.chance,
        label=known.tolist(),
        rows=rows.tolist(),
    )
