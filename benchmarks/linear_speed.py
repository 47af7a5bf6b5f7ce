"""Time to LIBLINEAR's objective: its -s 21 -e 0.01 against greedy-cyclic, one thread each.

LIBLINEAR trains first; ours is given the number of outer steps after which its objective is at most
LIBLINEAR's (or as little above as 1e-12 of it, which is rounding). Calls alternate, and each side's
time is its least. Neither includes reading rows or bringing them into its own form; ours includes
the squared lengths of rows, the start and the threshold. `whole` is ours at its default tolerance.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from benchmarks.linear_data import Liblinear, chosen, training_rows
from benchmarks.measure import Row, interleaved, publish, show

NUS = (0.5, 0.1, 0.01)
REPEATS = 15


def run(options: Namespace) -> None:
    import numpy as np
    from threadpoolctl import threadpool_limits

    rows: list[Row] = []
    with threadpool_limits(1):
        for name in chosen(options):
            X = training_rows(options.data, name)
            rows += [
                {"set": name, "nu": nu} | compare(X, nu, options.repeats or REPEATS) for nu in NUS
            ]
    show("bar: geometric mean of ratios at nu = 0.5, LIBLINEAR's default, at most 1", rows)
    for nu in NUS:
        ratios = [row["ratio"] for row in rows if row["nu"] == nu]
        wholes = [row["whole_ms"] / row["liblinear_ms"] for row in rows if row["nu"] == nu]
        mean, whole = np.exp(np.log(ratios).mean()), np.exp(np.log(wholes).mean())
        print(f"  nu {nu}: geometric mean {mean:.3f}; at our default tolerance {whole:.3f}")
    publish(options.out, "linear_speed", rows)


def compare(X: Any, nu: float, repeats: int) -> Row:
    from distsvc.models.linear.coordinate_descent import (
        Problem,
        SparseRows,
        solve,
        start,
        threshold,
    )

    total, rows, peer = nu * X.shape[0], SparseRows(X), Liblinear(X, nu, 0.01)
    w, _ = peer.solution()
    theirs = float(0.5 * (w @ w))

    def ours(steps: int = 100_000, tol: float = 1e-5, watch: Any = None) -> Any:
        state = start(rows, Problem.one_class, total)
        solve(state, "greedy-cyclic", tol, steps, watch=watch)
        threshold(state.G, state.alpha)
        return state

    seen: list[tuple[int, float]] = []
    best = ours(tol=1e-11, watch=lambda state: seen.append((state.n_iter, state.objective)))
    reached = [steps for steps, value in seen if value <= theirs * (1.0 + 1e-12)]
    steps = reached[0] if reached else best.n_iter
    tight = 1e-11 if steps else 1e-5
    actions = {
        "liblinear": peer.train,
        "ours": lambda: ours(max(steps, 1), tight),
        "whole": ours,
    }
    seconds = {name: min(times) for name, times in interleaved(actions, repeats).items()}
    optimum = max(min(best.objective, theirs), 1e-300)
    return {
        "liblinear_ms": 1000 * seconds["liblinear"],
        "ours_ms": 1000 * seconds["ours"],
        "ratio": seconds["ours"] / seconds["liblinear"],
        "outer_steps": steps,
        "liblinear_error": (theirs - best.objective) / optimum if optimum > 1e-12 else 0.0,
        "whole_ms": 1000 * seconds["whole"],
    }
