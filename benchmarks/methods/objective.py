"""Stochastic gradient descent beside the exact optimum."""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from benchmarks.harness.data import scaled
from benchmarks.harness.measure import publish, timed
from benchmarks.harness.rows import Row, pivot, show

SETS = ("aggregation", "d31", "glass", "breast_cancer")
GAMMAS = (0.5, 4.0)
CS = (8.0, 64.0)
EPOCHS = 50
BUDGET = 100
SOLVERS = ("sgd", "sgd averaged", "merge", "project-nearest", "project-random", "removal")
BARS = {"sgd": 1.0, "merge": 1.0, "project-nearest": 1.0}
BUDGET_BARS = {"glass": 10.0, "breast_cancer": 10.0}


def objective(options: Namespace) -> None:
    """J of stochastic gradient descent against the exact optimum, and its speed.

    J after 50 epochs of random permutations, relative to the optimum that coordinate ascent on the
    dual finds (standardised columns, mean of the seeds). Speed is by seconds of the processor.
    """
    rows = []
    excess(np.zeros((2, 2), np.float32), 1.0, 1.0, "merge", 1.0, 1)  # compiles
    for name in options.sets or SETS:
        X = np.ascontiguousarray(scaled(name, options.data)[0].astype(np.float32))
        for gamma in GAMMAS:
            for C in CS:
                optimum = exact_optimum(X, gamma, C)
                for solver in SOLVERS:
                    found = excess(X, gamma, C, solver, optimum, options.seeds)
                    settings = {"data": name, "n": len(X), "gamma": gamma, "C": C}
                    rows.append(settings | {"solver": solver, "optimum": optimum} | found)
                    rows[-1]["bar_percent"] = bar(name, solver)
    wide = pivot(rows, ("data", "gamma", "C"), "solver", "excess_percent")
    show(
        f"J above the optimum in %, {EPOCHS} epochs, B = {BUDGET}, mean of {options.seeds} seeds; "
        "bars: sgd 1; merge and project-nearest 1, on glass and breast_cancer 10",
        wide,
    )
    speeds = pivot(rows, ("data", "gamma", "C"), "solver", "steps_per_s")
    show("Steps per second", speeds)
    publish(options.out, "objective", rows)


def bar(name: str, solver: str) -> float | None:
    if solver not in BARS:
        return None
    return BARS[solver] if solver == "sgd" else BUDGET_BARS.get(name, BARS[solver])


def exact_optimum(X: np.ndarray, gamma: float, C: float) -> float:
    from distsvc.kernels.training import coordinate_ascent, gram_matrix

    K = gram_matrix(X.astype(np.float64), gamma)
    a = np.zeros(len(X))
    coordinate_ascent(K, a, C / len(X), 1e-9, 5000)
    margins = K @ a
    return float(0.5 * a @ margins + C * np.maximum(0.0, 1.0 - margins).mean())


def excess(X: np.ndarray, gamma: float, C: float, solver: str, optimum: float, seeds: int) -> Row:
    from distsvc.models.support_vector.boundary.stochastic_gradient import StochasticGradient

    values, seconds = [], 0.0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        if solver.startswith("sgd"):
            descent = StochasticGradient(X.shape[1], gamma, C, average=solver.endswith("averaged"))
        else:
            descent = StochasticGradient(X.shape[1], gamma, C, BUDGET, solver, seed=seed)
        for epoch in range(EPOCHS):
            block = X[random.permutation(len(X))]
            seconds += timed(descent.feed, block).cpu_seconds
            if epoch == 0:
                descent.forget_average()
        values.append(100.0 * (descent.objective(X) / optimum - 1.0))
    return {
        "excess_percent": float(np.mean(values)),
        "worst_percent": float(np.max(values)),
        "vectors": descent.n_vectors,
        "steps_per_s": seeds * EPOCHS * len(X) / seconds,
    }
