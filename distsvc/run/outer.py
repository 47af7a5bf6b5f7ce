"""Outer steps of linear one-class models over a whole table: one pass each, alpha on disk.

The driver holds the vector u and the working set (`distsvc.models.linear.working_set`); a
partition's alpha is a file of the run's directory, which only its own task reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from distsvc.models.linear.engine import LinearEngine
from distsvc.models.linear.working_set import (
    Candidates,
    WorkingSet,
    extremes,
    gradients,
    working_rows,
)
from distsvc.models.scaling import ColumnSums
from distsvc.run.directory import RunDirectory, task_file
from distsvc.run.stream import prepared
from distsvc.storage.arrays import read_arrays

MOST_PASSES = 100


def descend_table(steps: Any, model: LinearEngine, n_rows: int) -> bool:
    """Descend from the sample's answer to the table's; return whether the tolerance was reached."""
    outer, passes = begin(steps, model, n_rows)
    while True:
        with steps.progress.phase("descend"):
            outer.descend(model.solver, model.tol, model.max_iter, model.seed)
            facts = {"ball": outer.ball, "scale": outer.scale, "limit": working_rows(outer.u.size)}
            facts |= {"least": outer.least, "most": outer.most}
            steps.run.write("descent", facts, u=outer.u, rows=outer.rows, alpha=outer.alpha)
        steps.map("pass", find_violators)
        least, most = np.inf, -np.inf
        grow, fall = Candidates.empty(outer.u.size), Candidates.empty(outer.u.size)
        for facts, arrays in steps.results("violators"):
            least, most = min(least, facts["least"]), max(most, facts["most"])
            grow = grow.merge(_candidates(arrays, "grow"), working_rows(outer.u.size))
            fall = fall.merge(_candidates(arrays, "fall"), working_rows(outer.u.size))
        outer.see_extremes(least, most)
        passes += 1
        steps.progress.event("outer step", violation=outer.violation, objective=outer.objective)
        converged = outer.converged(model.tol)
        if converged or passes == MOST_PASSES:
            model.end_outer(outer, passes)
            return converged
        outer.take(grow, fall)


def begin(steps: Any, model: LinearEngine, n_rows: int) -> tuple[WorkingSet, int]:
    """Give alpha = 1 to the rows outside the sample's answer, so many that its sum is right.

    The sample's threshold leaves a few too many or too few outside, which are among the rows next
    to it. Where those are not enough, the pass is repeated with a threshold nearer to the right one
    (never seen where the sample was a random one). Returns the descent and the passes it took.
    """
    u, rho, scale = model.begin_outer(n_rows)
    d = u.size
    total = model.total(n_rows)
    for number in range(1, MOST_PASSES):
        facts = {"ball": model.is_ball, "scale": scale, "limit": working_rows(d), "rho": rho}
        steps.run.write("descent", facts, u=u)
        steps.map("begin", begin_descent)
        sums, n_outside = ColumnSums.empty(np.zeros(d)), 0
        inside, outside = Candidates.empty(d), Candidates.empty(d)
        for facts, arrays in steps.results("begun"):
            n_outside += facts["n_outside"]
            bounds = np.zeros(d), np.zeros(d), np.zeros(d, np.int64)
            sums.merge(ColumnSums(sums.shift, facts["first"], facts["second"], *bounds))
            inside = inside.merge(_candidates(arrays, "inside"), working_rows(d))
            outside = outside.merge(_candidates(arrays, "outside"), working_rows(d))
        linear = -_as_float(sum(sums.second)) if model.is_ball else 0.0
        first = np.array([_as_float(value) for value in sums.first])
        outer = WorkingSet(model.is_ball, total, first, linear)
        if outer.settle(n_outside, inside, outside):
            return outer, number
        rho = float(inside.keys[-1] if n_outside < total else -outside.keys[-1])
    raise AssertionError("the threshold moves past a hundred rows or more in every pass")


def begin_descent(run_dir: str, number: int) -> int:
    """Begin a partition's alpha; sum up its rows outside and keep those next to the threshold."""
    run = RunDirectory(run_dir)
    facts, arrays = run.read("descent")
    d, limit = arrays["u"].size, facts["limit"]
    first_row, last_row = run.plan.partitions[number]
    alpha = np.zeros(last_row - first_row)
    sums, n_rows = ColumnSums.empty(np.zeros(d)), 0
    inside, outside = Candidates.empty(d), Candidates.empty(d)
    for rows, Z, G in _gradients(run, number, facts, arrays["u"]):
        out = facts["rho"] > G
        values = out.astype(np.float64)
        alpha[rows - first_row] = values
        sums.add(Z[out])
        inside = inside.merge(Candidates.lowest(G, rows, Z, values, ~out, limit), limit)
        outside = outside.merge(Candidates.lowest(-G, rows, Z, values, out, limit), limit)
        n_rows += len(rows)
    run.write(task_file("alpha", number), {}, alpha=alpha)
    told = {"n_outside": int(alpha.sum()), "first": sums.first, "second": sums.second}
    lists = _arrays("inside", inside) | _arrays("outside", outside)
    run.write(task_file("begun", number), told, **lists)
    return n_rows


def find_violators(run_dir: str, number: int) -> int:
    """Take over what changed of a partition's alpha; find its extreme and violating rows."""
    run = RunDirectory(run_dir)
    facts, arrays = run.read("descent")
    d, limit = arrays["u"].size, facts["limit"]
    first_row, last_row = run.plan.partitions[number]
    alpha = read_arrays(run.path / f"{task_file('alpha', number)}.npz")["alpha"].copy()
    changed = slice(*np.searchsorted(arrays["rows"], [first_row, last_row]))
    alpha[arrays["rows"][changed] - first_row] = arrays["alpha"][changed]
    run.write(task_file("alpha", number), {}, alpha=alpha)
    least, most, n_rows = np.inf, -np.inf, 0
    grow, fall = Candidates.empty(d), Candidates.empty(d)
    for rows, Z, G in _gradients(run, number, facts, arrays["u"]):
        values = alpha[rows - first_row]
        low, high = extremes(G, values)
        least, most = min(least, low), max(most, high)
        wanted = (values < 1.0) & (facts["most"] > G)
        grow = grow.merge(Candidates.lowest(G, rows, Z, values, wanted, limit), limit)
        wanted = (values > 0.0) & (facts["least"] < G)
        fall = fall.merge(Candidates.lowest(-G, rows, Z, values, wanted, limit), limit)
        n_rows += len(rows)
    lists = _arrays("grow", grow) | _arrays("fall", fall)
    run.write(task_file("violators", number), {"least": least, "most": most}, **lists)
    return n_rows


def _gradients(
    run: RunDirectory, number: int, facts: dict[str, Any], u: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield row numbers (n,), prepared rows (n, d) and gradients (n,) of a partition's blocks."""
    for block in run.plan.blocks(number):
        if len(block.rows):
            Z = prepared(run, block.X)
            yield block.rows, Z, gradients(Z, u, facts["scale"], facts["ball"])


def _arrays(name: str, candidates: Candidates) -> dict[str, np.ndarray]:
    return {f"{name}_{field}": value for field, value in vars(candidates).items()}


def _candidates(arrays: dict[str, np.ndarray], name: str) -> Candidates:
    return Candidates(*(arrays[f"{name}_{field}"] for field in ("keys", "rows", "X", "alpha")))


def _as_float(exact: int) -> float:
    """Return a sum that is counted in units of 2^-1074, rounded once."""
    return float(Fraction(exact, 1 << 1074))
