"""Outer steps of linear one-class models over a whole table: one reading each.

The driver has the vector u and the working set. A partition's alpha is its first value plus the
driver's changes in each pass, so that no file is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from distsvc.models.linear.engine import LinearEngine
from distsvc.models.linear.working_set import (
    Candidates,
    WorkingSet,
    extremes,
    gradients,
    working_rows,
)
from distsvc.models.rows.scaling import ColumnSums
from distsvc.run.learning.preparation import prepared
from distsvc.run.work.checkpoints import TaskCheckpoints
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps

MOST_PASSES = 100
OUTER = "outer"


def descend_table(steps: Steps, engine: LinearEngine, n_rows: int) -> None:
    """Descend from the sample's answer to the table's, up to the maximum number of passes."""
    outer, begun, first = _resumed(steps) or (*begin_table(steps, engine, n_rows), 0)
    for number in range(first, MOST_PASSES):
        if not steps.run.has(_outer(number)):
            _descend(steps, engine, outer, begun, number)
        least, most = np.inf, -np.inf
        grow, fall = Candidates.empty(outer.u.size), Candidates.empty(outer.u.size)
        for result in steps.map(violators(number)):
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


def _descend(
    steps: Steps, engine: LinearEngine, outer: WorkingSet, begun: int, number: int
) -> None:
    """Solve the working set; write the input of the next pass, and the state to resume from."""
    run = steps.run
    with steps.progress.phase("descend"):
        checkpoint = TaskCheckpoints(run, _outer(number))
        outer.descend(engine.method, engine.tol, engine.max_iter, engine.seed, checkpoint)
        facts = {"ball": outer.ball, "scale": outer.scale, "limit": working_rows(outer.u.size)}
        facts |= {"least": outer.least, "most": outer.most, "begun": begun}
        arrays = {"u": outer.u, "rows": outer.rows, "alpha": outer.alpha}
        run.write(_descent(number), Result(facts, arrays))
        facts, arrays = outer.snapshot()
        run.write(_outer(number), Result(facts | {"begun": begun}, arrays))
        run.remove(_outer(number - 1))
        checkpoint.remove()


def _resumed(steps: Steps) -> tuple[WorkingSet, int, int] | None:
    """Return the working set after the last descent and its number; None before the first.

    All descents and the pass that wrote alpha must be complete. If any is lost, the passes start
    again.
    """
    names = steps.run.names(OUTER)
    if not names:
        return None
    number = int(names[-1].removeprefix(f"{OUTER}/"))
    found = steps.run.load(names[-1])
    begun = found.facts["begun"]
    needed = [_threshold(begun), *map(_descent, range(number + 1))]
    if not all(map(steps.run.has, needed)):
        for name in names:
            steps.run.remove(name)
        return None
    steps.do(outsiders(begun))
    return WorkingSet.restored(found.facts, found.arrays), begun, number


def begin_table(steps: Steps, engine: LinearEngine, n_rows: int) -> tuple[WorkingSet, int]:
    """Set alpha = 1 for rows outside the sample's answer, so that its sum is right.

    The sample's threshold leaves slightly too many or too few rows outside; rows next to it correct
    that. If there are not enough of them, the pass is repeated with a better threshold. Returns the
    working set and the last number of these passes.
    """
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
    """Set a partition's first alpha; return sums of rows outside, and rows near the threshold."""
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
    """Return a partition's extreme and violating rows."""
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
    """Return the pass that sets the first alpha of every row."""
    return Phase(f"begin-{step:02d}", partial(find_outsiders, step=step))


def violators(step: int) -> Phase:
    """Return the pass after a descent that finds rows violating optimality."""
    return Phase(f"pass-{step:02d}", partial(find_violators, step=step))


def _threshold(step: int) -> str:
    return f"threshold-{step:02d}"


def _descent(step: int) -> str:
    return f"descent-{step:02d}"


def _outer(step: int) -> str:
    return f"{OUTER}/{step:02d}"


def _alpha(run: RunDirectory, partition: int, step: int) -> np.ndarray:
    """Return a partition's alpha (rows,) float64 after a descent and all earlier ones."""
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
    for block in run.plan.blocks(partition):
        if len(block.rows):
            Z = prepared(run, block.X)
            yield block.rows, Z, gradients(Z, descent.arrays["u"], scale, ball)


def _arrays(name: str, candidates: Candidates) -> dict[str, np.ndarray]:
    return {f"{name}_{field}": value for field, value in vars(candidates).items()}


def _candidates(result: Result, name: str) -> Candidates:
    return Candidates(*(result.arrays[f"{name}_{f}"] for f in ("keys", "rows", "X", "alpha")))


def _as_float(exact: int) -> float:
    """Return an exact sum in units of 2^-1074 as float64, rounded once."""
    return float(Fraction(exact, 1 << 1074))
