"""Support vector clustering as in the papers: one model, whose boundary defines the clusters.

With the labellings "complete-graph" (SVC) and "balls" (FSVC), the driver trains and labels a sample
in memory. All other labellings have these phases:

1. ``train``: the driver runs stochastic gradient descent on a stream of the sample.
2. ``boundary``: workers read the table for the rows near the boundary. ``climb``: these rows climb
   to equilibria.
3. ``segments``: equilibria are joined if the segments between them stay inside the boundary.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from distsvc.job.parameters import IN_MEMORY, Given
from distsvc.models.rows.checkpoints import Checkpoint
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary import labelling
from distsvc.models.support_vector.boundary.base import SupportVectorEngine
from distsvc.models.support_vector.boundary.engine import EXACT_ROWS, FEW_VECTORS, BoundaryEngine
from distsvc.models.support_vector.boundary.labelling import Boundary, DecisionFunction, pair_blocks
from distsvc.models.support_vector.boundary.rule import BoundaryRule
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import DomainPart
from distsvc.report.content.report import Sample
from distsvc.run.algorithms.algorithm import TRAINED, AlgorithmJob, Learned, Parts, PilotRows
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.stream import Memory, Sizes, read_sample, sample_blocks, stream_memory
from distsvc.run.learning.survey import Survey, learned_blocks
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps, TaskCheckpoints

SYSTEM_ROWS = 20_000
"""Approximate maximum number of rows for SVC and FSVC, whose time is quadratic in the rows."""

MAX_CLIMB_ROWS = 1024
"""Maximum number of rows of a climbing task, so that a lost worker costs little work."""

CLIMB_STARTS, VERTICES = "starts", "vertices"


class BoundaryModel(AlgorithmJob):
    """Support vector clustering by a boundary, after Pham, Le and Dang (2017), as a job."""

    rules = (BoundaryRule,)
    readings = ("boundary",)
    engine: BoundaryEngine

    def __init__(self, parameters: Given, engine: BoundaryEngine):
        super().__init__(parameters, engine)
        if engine.parameters.labelling in IN_MEMORY:
            engine.most_rows = SYSTEM_ROWS

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        engine, run = self.engine, steps.run
        checkpoints = TaskCheckpoints(run, TRAINED)
        trained = steps.work_out(TRAINED, partial(self._train, run, survey.n_rows, checkpoints))
        checkpoints.remove()
        engine.restore(trained.facts, trained.arrays)
        if engine.parameters.labelling in IN_MEMORY:
            with steps.progress.phase("clusters"):
                keys, rows = read_sample(run, engine.key_ranges(survey.n_rows))
                engine.find_clusters([(rows, keys)])
            return engine.rule
        found, limit = Boundary.empty(engine.decision), engine.parameters.boundary_size
        for part in steps.map(FIND_BOUNDARY):
            found = found.merge(Boundary(**part.arrays), limit)
        found.check(engine.epsilon)
        engine.boundary = found
        n_tasks = cut_climbs(steps, found.X)
        ends = [result.arrays["ends"] for result in steps.map(CLIMB, n_tasks)]
        with steps.progress.phase("equilibria"):
            engine.set_equilibria(found.X, np.concatenate(ends))
            run.write(VERTICES, Result(arrays={"vertices": engine.vertices}))
        segments = steps.map(SEGMENTS, pair_blocks(len(engine.vertices)))
        pairs = [result.arrays["pairs"] for result in segments]
        with steps.progress.phase("clusters"):
            engine.set_clusters(np.concatenate(pairs))
        return engine.rule

    def _train(self, run: RunDirectory, n_rows: int, checkpoint: Checkpoint) -> Result:
        engine = self.engine
        if engine.budget is not None and n_rows < engine.budget:
            engine.note(
                f"the table has {n_rows} rows, fewer than model.budget = {engine.budget} vectors"
            )
        ranges = engine.key_ranges(n_rows)
        engine.train(
            lambda epoch, first: sample_blocks(run, ranges, engine.seed, epoch, first), checkpoint
        )
        facts, arrays = engine.trained()
        return Result(facts, arrays, rows=engine.n_iter)

    def work(self, n_rows: int) -> dict[str, float]:
        # Steps of the descent, or squared rows of the exact solver.
        given = self.engine.parameters
        return {TRAINED: float(n_rows) ** 2 if given.solver == "exact" else float(given.max_iter)}

    def memory(self, sizes: Sizes) -> Memory:
        given, n = self.engine.parameters, sizes.sample_rows
        near = 6.0 * min(given.boundary_size, sizes.n_rows) * (sizes.row_bytes + 64)
        kernel = 0.0  # the kernel values that decide `C` are in a child process
        vectors = given.max_iter if given.solver == "sgd" else given.budget or FEW_VECTORS
        if given.solver == "exact":
            kernel, vectors = 16.0 * min(n, EXACT_ROWS) ** 2, n
        elif given.is_published:
            vectors = 3 * n  # the rows, as float64, that the descent draws from
        driver = stream_memory(sizes) | {
            "kernel values": kernel,
            "support vectors": vectors * (sizes.row_bytes + 64.0),
            "rows near the boundary": near,
        }
        return Memory(driver, {"rows near the boundary": near})

    def learned(self) -> Learned:
        engine = self.engine
        arrays = {"equilibria": engine.equilibria, "equilibrium_labels": engine.equilibrium_labels}
        return replace(super().learned(), arrays=arrays)

    def parts(self, run: RunDirectory, pilot: PilotRows) -> Parts:
        return Parts(picture=domain_part(run, self.engine, pilot.sample))


def find_boundary(run: RunDirectory, number: int) -> Result:
    """Return a partition's rows in the extended boundary, where |f| is at most epsilon."""
    f, trained = _decision(run)
    epsilon, limit = trained.facts["epsilon"], trained.facts["boundary_size"]
    boundary, preparation, n_rows = Boundary.empty(f), Preparation.read(run), 0
    for block, keys in learned_blocks(run, number):
        n_rows += len(block.rows)
        found = Boundary.collect(f, preparation(block.X), keys, epsilon, limit)
        boundary = boundary.merge(found, limit)
    return Result(arrays=vars(boundary), rows=n_rows)


def cut_climbs(steps: Steps, X: np.ndarray) -> int:
    """Store the boundary's rows X (n, d) for the climbing tasks; return the number of tasks."""
    # The number depends on the workers of the first start; a resumed run has the same number.
    run = steps.run
    if not run.has(CLIMB_STARTS):
        for name in run.names(CLIMB.name):
            run.remove(name)
        facts = {"n_tasks": climb_tasks(len(X), steps.workers.threads)}
        run.write(CLIMB_STARTS, Result(facts, large={"X": X}))
    return int(run.read(CLIMB_STARTS).facts["n_tasks"])


def climb_tasks(n_rows: int, n_threads: int) -> int:
    """Return the number of climbing tasks: several per thread, since rows take unequal time."""
    return min(n_rows, max(4 * n_threads, math.ceil(n_rows / MAX_CLIMB_ROWS)))


def climb(run: RunDirectory, number: int) -> Result:
    """Return the equilibrium of each row of a task: the row climbs along the gradient of f."""
    X, n_tasks = run.map_large(CLIMB_STARTS, "X"), run.read(CLIMB_STARTS).facts["n_tasks"]
    first, last = (len(X) * i // n_tasks for i in (number, number + 1))
    ends = labelling.climb(_decision(run)[0], np.array(X[first:last]))
    return Result(arrays={"ends": ends}, rows=last - first)


def join_vertices(run: RunDirectory, number: int) -> Result:
    """Return the connected pairs of vertices in block `number` of all pairs.

    Two vertices are connected if the segment between them stays inside the boundary.
    """
    f, trained = _decision(run)
    vertices = run.read(VERTICES).arrays["vertices"]
    pairs = labelling.connected_pairs(f, vertices, number, trained.facts["segment_samples"])
    return Result(arrays={"pairs": pairs})


FIND_BOUNDARY = Phase("boundary", find_boundary)
CLIMB = Phase("climb", climb)
SEGMENTS = Phase("segments", join_vertices)


def _decision(run: RunDirectory) -> tuple[DecisionFunction, Result]:
    """Return the trained decision function, and the stored result of the training."""
    trained = run.read(TRAINED)
    arrays = trained.arrays
    return DecisionFunction(arrays["S"], arrays["a"], trained.facts["gamma"]), trained


def domain_part(
    run: RunDirectory, engine: SupportVectorEngine, sample: Sample
) -> DomainPart | None:
    """Return the decision function f on a grid, in raw units, for the page's picture.

    Return None if the table does not have two columns.
    """
    if len(run.plan.table.columns) != 2:
        return None
    preparation = Preparation.read(run)
    drawn = np.column_stack([sample.x, sample.y])
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    n = PAGE_LIMITS.grid_points
    x, y = (np.linspace(a, b, n) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.column_stack([v.ravel() for v in np.meshgrid(x, y)])
    f = engine.rule.unrounded_scores(preparation(grid)).reshape(n, n)
    if f.max() > 0.0:
        # f is interpolated between grid points: lower values would pull the boundary inwards.
        f = np.maximum(f, -3.0 * f.max())
    scaling = preparation.scaling

    def raw(Z: np.ndarray) -> list[list[float]]:
        scaled = (Z + engine.centre).astype(np.float32).astype(float)
        rows: list[list[float]] = scaling.raw(scaled).tolist()
        return rows

    return DomainPart(
        grid_x=x.tolist(),
        grid_y=y.tolist(),
        f=np.round(f.astype(float), 5).tolist(),
        support_vectors=raw(engine.support_vectors),
        equilibria=raw(engine.equilibria),
    )
