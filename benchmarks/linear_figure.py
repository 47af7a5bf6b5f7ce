"""The four linear solvers: operations and time to 1e-4 of the optimum, and Figure 2 of the paper.

What `distsvc bench linear` does, with a table that says whether the order is the paper's:
greedy-cyclic first, greedy-2cd last.
"""

from __future__ import annotations

from argparse import Namespace

from benchmarks.measure import pivot, publish, show


def run(options: Namespace) -> None:
    from distsvc.run.bench_linear import bench_linear

    rows = bench_linear(options.data, options.out, tuple(options.sets or ()))
    wide = pivot(rows, ("set", "problem"), "solver", "cost")
    for row in wide:
        costs = {k: float("inf") if v is None else v for k, v in list(row.items())[2:]}
        first, last = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
        row["as_paper"] = str(first == "greedy-cyclic" and last == "greedy-2cd")
    show("operations over rows to 1e-4", wide)
    publish(options.out, "linear_figure", rows)
