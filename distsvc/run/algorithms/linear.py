"""Linear one-class models: a hyperplane or a ball with most rows inside.

1. ``train``: the driver trains on a sample in memory, or on all rows of a smaller table.
2. ``begin``: workers read a larger table, and set the first alpha of every row.
3. ``pass``, repeatedly: the driver runs coordinate descent on few rows, the working set. Then
   workers read the table, and find the next working set.

Alpha is the dual variable of a row, from 0 to 1; u is the sum of all rows, weighted by alpha. The
driver has u, and alpha of the working set. A partition's file has the first alpha of its rows.
Later changes are in the driver's results, so no file is written twice.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from distsvc.job.config import Job, PreprocessConfig
from distsvc.job.parameters import Given, check_parameters
from distsvc.models.linear.engine import MEMORY_BYTES, BallEngine, LinearEngine, OneClassEngine
from distsvc.models.linear.rule import BallRule, OneClassRule
from distsvc.models.linear.working_set import (
    Candidates,
    WorkingSet,
    extremes,
    gradients,
    working_rows,
)
from distsvc.models.rows.scaling import ColumnSums
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import TRAINED, AlgorithmJob
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.stream import Memory, Sizes, read_sample, sample_memory
from distsvc.run.learning.survey import Survey
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.sources import source_of

PROBLEMS: dict[str, type[LinearEngine]] = {
    "linear-one-class": OneClassEngine,
    "linear-svdd": BallEngine,
}
KEEPS_ZEROS = PreprocessConfig(scale="none", missing="error")
"""Preprocessing under which zeros stay zeros, so that sparse rows can be used."""

VECTORS = 14
"""Number of the solver's vectors with a value for each row of the sample, such as alpha."""

MOST_PASSES = 100


class Linear(AlgorithmJob):
    """Linear one-class SVM or SVDD as a job; `PROBLEMS` has the engine of each."""

    rules = (OneClassRule, BallRule)
    all_rows = True  # nu is a share of all rows
    readings = ("begin", "pass")
    engine: LinearEngine

    def __init__(self, parameters: Given, job: Job, table: Table):
        check_parameters(job.model.algorithm, parameters)
        given = job.preprocess.model_copy(update={"missing": job.missing})
        X = source_of(table).sparse_rows(table) if given == KEEPS_ZEROS else None
        sparse = X is not None and 12 * X.nnz <= MEMORY_BYTES
        engine = PROBLEMS[job.model.algorithm](parameters, job.model.seed)
        engine.set_width(len(table.columns), sparse)
        super().__init__(parameters, engine)

    def fit(self, steps: Steps, survey: Survey) -> Rule:
        engine, run = self.engine, steps.run
        trained = steps.work_out(TRAINED, partial(self._train, run))
        engine.restore(trained.facts, trained.arrays)
        if trained.facts["n_rows"] < survey.n_rows:
            descend_table(steps, engine, survey.n_rows)
        if not engine.solution.converged:
            engine.notes.append(
                "training ended before it converged, with the optimality conditions violated "
                f"by {engine.solution.violation:.2g}; raise model.max_iter or model.tol"
            )
        preparation = Preparation.read(run)
        if preparation.scaling.is_linear:
            mean = preparation(survey.sums.mean_and_variance()[0][None, :])[0]
        else:
            mean = preparation(survey.pilot).mean(axis=0, dtype=np.float64)
        return engine.rule(mean)

    def _train(self, run: RunDirectory) -> Result:
        engine, table = self.engine, run.plan.table
        if engine.sparse:
            Z = source_of(table).sparse_rows(table)
        else:
            Z = read_sample(run, dtype="float64")[1]
        engine.fit_rows(Z)
        facts, arrays = engine.solved()
        return Result(facts | {"n_rows": Z.shape[0]}, arrays, rows=Z.shape[0])

    def memory(self, sizes: Sizes) -> Memory:
        if self.engine.sparse:
            rows = min(2.0 * MEMORY_BYTES, 24.0 * sizes.n_rows * sizes.n_columns)
            return Memory({"sparse rows": rows, "the solver's vectors": VECTORS * 8 * sizes.n_rows})
        copied = sizes.sample if self.engine.is_ball else 0
        own = copied + VECTORS * 8 * sizes.sample_rows
        lists = 8.0 * min(working_rows(sizes.n_columns), sizes.n_rows) * (sizes.row_bytes + 24)
        if sizes.sample_rows >= sizes.n_rows:
            lists = 0.0
        alpha = 2.0 * 8 * sizes.partition_rows if lists else 0.0
        worker = {"lists of candidates": lists, "alpha of a partition": alpha}
        return Memory(sample_memory(sizes, max(own, 2 * lists)), worker)


def descend_table(steps: Steps, engine: LinearEngine, n_rows: int) -> None:
    """Run coordinate descent on the table, from the solution of the sample.

    The table is read at most `MOST_PASSES` times.
    """
    # A resumed run reads the results of passes, and repeats the descents, which take little time.
    outer, begun = begin_table(steps, engine, n_rows)
    for number in range(MOST_PASSES):
        with steps.progress.phase("descend"):
            outer.descend(engine.method, engine.tol, engine.max_iter, engine.seed)
            facts = {"ball": outer.ball, "scale": outer.scale, "limit": working_rows(outer.u.size)}
            facts |= {"least": outer.least, "most": outer.most, "begun": begun}
            arrays = {"u": outer.u, "rows": outer.rows, "alpha": outer.alpha}
            steps.run.write(_descent(number), Result(facts, arrays))
        least, most = np.inf, -np.inf
        grow, fall = Candidates.empty(outer.u.size), Candidates.empty(outer.u.size)
        for result in steps.map(Phase(f"pass-{number:02d}", partial(find_violators, step=number))):
            least = min(least, result.facts["least"])
            most = max(most, result.facts["most"])
            grow = grow.merge(_candidates(result, "grow"), working_rows(outer.u.size))
            fall = fall.merge(_candidates(result, "fall"), working_rows(outer.u.size))
        outer.see_extremes(least, most)
        steps.progress.event("outer step", violation=outer.violation, objective=outer.objective)
        if outer.converged(engine.tol) or number == MOST_PASSES - 1:
            break
        outer.take(grow, fall)
    engine.end_outer(outer, n_passes=begun + 1 + number + 1)


def begin_table(steps: Steps, engine: LinearEngine, n_rows: int) -> tuple[WorkingSet, int]:
    """Set the first alpha of every row of the table; return the first working set.

    The first alpha is 1 for rows outside the sample's hyperplane or ball, else 0. Several passes
    may be needed. Also return the number of the last pass, whose alpha is used.
    """
    # The sample's threshold leaves slightly too many or too few rows outside; rows next to the
    # threshold correct that. If there are too few such rows, another pass has a better threshold.
    u, rho, scale = engine.begin_outer(n_rows)
    d, total = u.size, engine.total(n_rows)
    for number in range(MOST_PASSES):
        facts = {"ball": engine.is_ball, "scale": scale, "limit": working_rows(d), "rho": rho}
        steps.run.write(_threshold(number), Result(facts, {"u": u}))
        sums, n_outside = ColumnSums.empty(np.zeros(d)), 0
        inside, outside = Candidates.empty(d), Candidates.empty(d)
        for result in steps.map(outsiders(number)):
            n_outside += result.facts["n_outside"]
            bounds = np.zeros(d), np.zeros(d), np.zeros(d, np.int64)
            exact = result.facts["first"], result.facts["second"]
            sums.merge(ColumnSums(sums.shift, *exact, *bounds))
            inside = inside.merge(_candidates(result, "inside"), working_rows(d))
            outside = outside.merge(_candidates(result, "outside"), working_rows(d))
        linear = -_as_float(sum(sums.second)) if engine.is_ball else 0.0
        first = np.array([_as_float(value) for value in sums.first])
        outer = WorkingSet(engine.is_ball, total, first, linear)
        if outer.settle(n_outside, inside, outside):
            return outer, number
        rho = float(inside.keys[-1] if n_outside < total else -outside.keys[-1])
    raise AssertionError("the threshold moves past a hundred rows or more in every pass")


def find_outsiders(run: RunDirectory, partition: int, *, step: int) -> Result:
    """Return the alpha with which a partition's rows begin, and sums over rows beyond a threshold.

    The result also has the rows nearest to the threshold of this `step`, on both sides.
    """
    begun = run.read(_threshold(step))
    facts, u = begun.facts, begun.arrays["u"]
    d, limit = u.size, facts["limit"]
    first_row, last_row = run.plan.partitions[partition]
    alpha = np.zeros(last_row - first_row)
    sums, n_rows = ColumnSums.empty(np.zeros(d)), 0
    inside, outside = Candidates.empty(d), Candidates.empty(d)
    for rows, Z, G in _gradients(run, partition, begun):
        out = facts["rho"] > G
        values = out.astype(np.float64)
        alpha[rows - first_row] = values
        sums.add(Z[out])
        inside = inside.merge(Candidates.lowest(G, rows, Z, values, ~out, limit), limit)
        outside = outside.merge(Candidates.lowest(-G, rows, Z, values, out, limit), limit)
        n_rows += len(rows)
    told = {"n_outside": int(alpha.sum()), "first": sums.first, "second": sums.second}
    lists = _arrays("inside", inside) | _arrays("outside", outside)
    return Result(told, lists, {"alpha": alpha}, n_rows)


def find_violators(run: RunDirectory, partition: int, *, step: int) -> Result:
    """Return the rows of a partition that violate optimality most.

    Also return two extremes: the lowest gradient where alpha < 1, the highest where alpha > 0.
    """
    descent = run.read(_descent(step))
    facts = descent.facts
    d, limit = descent.arrays["u"].size, facts["limit"]
    first_row, _ = run.plan.partitions[partition]
    alpha = _alpha(run, partition, step)
    least, most, n_rows = np.inf, -np.inf, 0
    grow, fall = Candidates.empty(d), Candidates.empty(d)
    for rows, Z, G in _gradients(run, partition, descent):
        values = alpha[rows - first_row]
        low, high = extremes(G, values)
        least, most = min(least, low), max(most, high)
        wanted = (values < 1.0) & (facts["most"] > G)
        grow = grow.merge(Candidates.lowest(G, rows, Z, values, wanted, limit), limit)
        wanted = (values > 0.0) & (facts["least"] < G)
        fall = fall.merge(Candidates.lowest(-G, rows, Z, values, wanted, limit), limit)
        n_rows += len(rows)
    lists = _arrays("grow", grow) | _arrays("fall", fall)
    return Result({"least": least, "most": most}, lists, rows=n_rows)


def outsiders(step: int) -> Phase:
    """Return the phase that sets the first alpha of every row."""
    return Phase(f"begin-{step:02d}", partial(find_outsiders, step=step))


def _threshold(step: int) -> str:
    return f"threshold-{step:02d}"


def _descent(step: int) -> str:
    return f"descent-{step:02d}"


def _alpha(run: RunDirectory, partition: int, step: int) -> np.ndarray:
    """Return alpha (rows,) float64 of a partition's rows after descents 0 to `step`."""
    start, stop = run.plan.partitions[partition]
    begun = run.read(_descent(step)).facts["begun"]
    alpha = np.array(run.map_large(outsiders(begun).result(partition), "alpha"))
    for earlier in range(step + 1):
        changed = run.read(_descent(earlier)).arrays
        part = slice(*np.searchsorted(changed["rows"], [start, stop]))
        alpha[changed["rows"][part] - start] = changed["alpha"][part]
    return alpha


def _gradients(
    run: RunDirectory, partition: int, descent: Result
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield row numbers (n,), prepared rows (n, d) and gradients (n,) of a partition's blocks."""
    scale, ball = descent.facts["scale"], descent.facts["ball"]
    preparation = Preparation.read(run)
    for block in run.plan.blocks(partition):
        if len(block.rows):
            Z = preparation(block.X)
            yield block.rows, Z, gradients(Z, descent.arrays["u"], scale, ball)


def _arrays(name: str, candidates: Candidates) -> dict[str, np.ndarray]:
    return {f"{name}_{field}": value for field, value in vars(candidates).items()}


def _candidates(result: Result, name: str) -> Candidates:
    return Candidates(*(result.arrays[f"{name}_{f}"] for f in ("keys", "rows", "X", "alpha")))


def _as_float(exact: int) -> float:
    """Return an exact sum in units of 2^-1074 as float64, rounded once."""
    return float(Fraction(exact, 1 << 1074))
