"""Graph views as phases of a job.

1. ``graph``: the driver computes the diffusion coordinates of up to 20,000 rows.
2. ``learn-graph``: each model is a task. It learns from the coordinates, grows a tree and tests its
splits on them.
3. ``vote-graph``: the driver counts the votes.
"""

from __future__ import annotations

from functools import partial

from distsvc.models.graph.coordinates import MOST_COORDINATES, NEIGHBOURS, Without
from distsvc.models.graph.engine import GRAPH_ROWS, GraphEngine, grow
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rows.neighbours import NEIGHBOUR_BLOCK_ROWS
from distsvc.models.rows.sampling import Ranges
from distsvc.models.support_vector.level_tree.directions import SEARCHED
from distsvc.models.support_vector.level_tree.ensemble import (
    BUDGET,
    Ensemble,
    steps_of_member,
)
from distsvc.run.algorithms.level_tree import sums_of, tree_of, tree_result
from distsvc.run.learning.sizes import Held, Sizes
from distsvc.run.learning.stream import held_rows
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.workers.cluster import driver_threads

GRAPH = "graph"
WITHOUT = "without"


class Graph:
    """Engine of graph views in a job; it has no rule of its own."""

    def __init__(self, engine: GraphEngine):
        self.engine = engine
        engine.n_jobs = driver_threads()

    def fit(self, steps: Steps, survey: Survey) -> None:
        """Compute coordinates, train the models and let them vote."""
        engine, run = self.engine, steps.run
        ranges = engine.key_ranges(survey.n_rows)
        placed = steps.work_out(GRAPH, partial(self._place, run, ranges))
        if not engine.placed:  # computed before the run was resumed
            kept, reason = placed.arrays, placed.facts.get(WITHOUT)
            coordinates = kept["coordinates"] if reason is None else Without(reason)
            engine.take(kept["points"], kept["keys"], kept["point_of"], coordinates)
        if engine.coordinates is None:
            return
        members = len(engine.tree.ensemble.members)
        results = list(steps.map(LEARN_GRAPH, members))
        with steps.progress.phase("vote-graph"):
            trees, sums = [tree_of(one) for one in results], [sums_of(one) for one in results]
            engine.tree.choose(trees, sums)

    def work(self, n_rows: int) -> dict[str, float]:
        """Return the number of row pairs in the graph, and of steps of a model."""
        m = min(n_rows, GRAPH_ROWS)
        steps = float(steps_of_member(m, self.engine.parameters.max_iter))
        return {GRAPH: float(m) ** 2, LEARN_GRAPH.name: steps}

    def held(self, sizes: Sizes) -> Held:
        """Return the memory of the graph's rows, edges and eigenvectors, and of a model."""
        m = min(sizes.n_rows, GRAPH_ROWS)
        p = min(sizes.n_columns, SEARCHED)
        rows = {"the graph's rows": 4.0 * m * (2 * sizes.n_columns + p)}
        walk = {"the graph and its walk": 64.0 * m * (NEIGHBOURS + MOST_COORDINATES)}
        walk |= {"products of rows": 4.0 * m * NEIGHBOUR_BLOCK_ROWS * driver_threads()}
        view = {"the graph's coordinates": 12.0 * m * MOST_COORDINATES}
        vectors = {"support vectors": 8.0 * BUDGET * (MOST_COORDINATES + 16)}
        return Held(rows | walk, view | vectors)

    def _place(self, run: RunDirectory, ranges: Ranges, checkpoint: Checkpoint) -> Result:
        keys, rows = held_rows(run, ranges)
        engine = self.engine
        engine.place(rows, keys)
        arrays = {"points": engine.points, "keys": engine.keys, "point_of": engine.point_of}
        if engine.coordinates is None:
            return Result({WITHOUT: engine.without}, arrays, rows=len(rows))
        ensemble = engine.tree.ensemble
        arrays |= {"coordinates": engine.coordinates, "view": engine.seen}
        arrays |= {"components": ensemble.components}
        return Result({"ensemble": ensemble.facts()}, arrays, rows=len(rows))


def learn_graph(run: RunDirectory, number: int, checkpoint: Checkpoint) -> Result:
    """Train one model on the graph's coordinates; grow and test its tree of level sets."""
    placed = run.read(GRAPH)
    ensemble = Ensemble.restored(placed.facts["ensemble"], placed.arrays["components"])
    view, keys = placed.arrays["view"], placed.arrays["keys"]
    tree, sums = grow(ensemble, number, view, keys, checkpoint)
    return tree_result(tree, ensemble, sums)


LEARN_GRAPH = Phase("learn-graph", learn_graph, sequential=True)
