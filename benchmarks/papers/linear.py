"""The solvers of Chou, Lin and Lin (2020) and ours compared as in their Figure 2.

The paper's run as printed, without shrinking; ours with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_svmlight_file

from benchmarks.harness.measure import machine
from benchmarks.harness.rows import Row, write_rows
from benchmarks.papers.figures import Trace
from benchmarks.papers.suites import SuiteOptions
from distsvc.errors import InputNotFoundError
from distsvc.job.parameters import LinearSolver
from distsvc.models.linear.coordinate_descent import Method, Problem, Rows, State, solve, start
from distsvc.storage.places.arrays import make_folder

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "one-class SVM": Problem.one_class,
    "SVDD": Problem.data_description,
}
NUS, QUICK_NUS = (0.1, 0.01, 0.5), (0.1,)
"""Values of nu; SVDD has C = 1 / (nu l). The paper's text has the first, its supplement others."""

OURS = "greedy-sweeps"
METHODS = {name: Method(name, shrinking=name == OURS) for name in get_args(LinearSolver)}
TARGET = 1e-4
END = 1e-8
SEED = 0
SECONDS, QUICK_SECONDS = 2.0, 1.0
QUICK_SETS = 2
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("suite", "set", "problem", "solver")]
    + [(name, pa.list_(pa.float64())) for name in ("cost", "seconds", "distance")]
    + [("n", pa.int64()), ("d", pa.int64()), ("cpu", pa.string()), ("cores", pa.int64())]
    + [("versions", pa.string()), ("day", pa.string())]
)


def run_linear(
    out: Path,
    data: Path | None,
    options: SuiteOptions,
    say: Callable[[str], object] = print,
    most_seconds: float | None = None,
) -> Path:
    """Run every solver on both problems and all sets; write the curves to ``linear.parquet``.

    Parameters
    ----------
    out
        Folder of the results.
    data
        A folder with ``linear/NAME_train.svm``, plain or packed.
    options
        Beginnings of the names of the sets to use, all when empty; two of them when quick.
    say
        Takes one line of text for each solver.
    most_seconds
        Of the processor, after which a solver is stopped; 2 by default, 1 when quick.

    """
    if data is None:
        raise InputNotFoundError("suite linear needs --data DIR with linear/NAME_train.svm")
    found = training_files(data, options.sets)
    if options.quick and not options.sets:
        found = found[:QUICK_SETS]
    limit = most_seconds or (QUICK_SECONDS if options.quick else SECONDS)
    rows: list[Row] = []
    for path in found:
        name, X = training_rows(path)
        about = {"suite": "linear", "n": X.shape[0], "d": X.shape[1]} | machine()
        nus = QUICK_NUS if options.quick else NUS
        for nu, problem in product(nus, PROBLEMS):
            for trace in curves(name, X, problem, limit, nu):
                rows.append(about | trace._asdict())
                say(_line(summary(trace)))
    make_folder(out)
    write_rows(out / "linear.parquet", rows, SCHEMA)
    return out / "linear.parquet"


def training_files(data: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Return ``linear/NAME_train.svm``, plain or packed, of the sets whose names begin so."""
    found = sorted((data / "linear").glob("*_train.svm*"))
    found = [path for path in found if not wanted or path.name.startswith(tuple(wanted))]
    if not found:
        raise InputNotFoundError(f"no file {data / 'linear'}/NAME_train.svm, nor .gz or .bz2")
    return found


def training_rows(path: Path) -> tuple[str, Any]:
    """Return the name of a set and its rows (n, d), CSR with sorted indices."""
    X, _ = load_svmlight_file(str(path))
    X.sort_indices()
    return path.name.partition("_")[0], X


def curves(name: str, X: Any, problem: str, most_seconds: float, nu: float) -> list[Trace]:
    """Return the curve of every solver on the rows X of a set, CSR.

    All begin where the paper does, with the mass on the first rows, in a random order; the time for
    that is not counted. The optimum is the lowest objective seen, one solved to 1e-10 among them.
    """
    rows, n = Rows(X), X.shape[0]
    total = nu * n
    exact = start(rows, PROBLEMS[problem], total)
    solve(exact, Method(OURS), 1e-10, 100_000)
    order = np.random.default_rng(SEED).permutation(n)
    alpha = np.zeros(n)
    alpha[order[: int(total)]] = 1.0
    alpha[order[int(total)]] = total - int(total)
    seen: dict[str, list[tuple[float, float, float]]] = {}
    for solver, method in METHODS.items():
        solve(State.at(exact.problem, alpha.copy()), method, 1e-10, 2, SEED)  # compiles
        seen[solver] = _descend(State.at(exact.problem, alpha.copy()), method, exact, most_seconds)
    best = min(exact.objective, *(points[-1][2] for points in seen.values()))
    return [
        Trace(
            name,
            f"{problem}, nu = {nu:g}",
            solver,
            cost=[cost / n for cost, _, _ in points],
            seconds=[seconds for _, seconds, _ in points],
            distance=[(value - best) / max(abs(best), 1e-300) for _, _, value in points],
        )
        for solver, points in seen.items()
    ]


def _descend(
    state: State, method: Method, exact: State, most_seconds: float
) -> list[tuple[float, float, float]]:
    """Return (cost, processor seconds, objective) of every outer step until near the optimum."""
    state.tally[:] = 0.0
    points = [(0.0, 0.0, state.objective)]
    began = time.process_time()  # other programs do not count
    enough = exact.objective + END * abs(exact.objective)

    def watch(now: State) -> bool:
        spent = time.process_time() - began
        points.append((now.cost, spent, now.objective))
        return spent > most_seconds or now.objective <= enough

    solve(state, method, 1e-10, 10**9, SEED, watch)
    return points


class Summary(NamedTuple):
    """When a curve passes the target: operations over rows, and seconds; None if it never does."""

    set: str
    problem: str
    solver: str
    cost: float | None
    seconds: float | None
    left: float
    """The distance at the end."""


def summary(trace: Trace) -> Summary:
    """Return when a curve passes the target, between its points on a logarithmic scale."""
    distance = np.maximum(trace.distance, 1e-16)
    below = np.flatnonzero(distance <= TARGET)
    cost = seconds = None
    if len(below):
        k = max(int(below[0]), 1)
        upper, lower = np.log(distance[k - 1]), np.log(distance[k])
        share = (upper - np.log(TARGET)) / (upper - lower) if upper > lower else 0.0
        cost, seconds = (
            float(at[k - 1] + max(share, 0.0) * (at[k] - at[k - 1]))
            for at in (trace.cost, trace.seconds)
        )
    return Summary(*trace[:3], cost, seconds, float(trace.distance[-1]))


def _line(row: Summary) -> str:
    at = "never" if row.cost is None else f"after {row.cost:8.2f} l, {row.seconds:.3f} s"
    return f"{row.set:8} {row.problem:14} {row.solver:18} within {TARGET:g} {at}"
