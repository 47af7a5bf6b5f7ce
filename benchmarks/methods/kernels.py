"""The kernels on one thread."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product
from statistics import median

import numpy as np

from benchmarks.harness.measure import interleaved, publish
from benchmarks.harness.rows import Row, show

D = 9
VECTORS = 100
ROWS = 100_000
STEPS = 200_000
POINTS = 2048
SETTINGS = {"far apart": (4.0, 64.0), "overlapping": (0.1, 1.0)}
"""gamma and C; C = 1 keeps f below 0 everywhere, so that every step is a hit."""

STEP_BARS = {
    ("removal", "far apart"): "bar >= 2.5e6",
    ("project-nearest", "far apart"): "bar >= 0.6e6",
}


def kernels(options: Namespace) -> None:
    """Rows and steps per second of the kernels on one thread; d = 9, as in shuttle.

    Decision values stand beside scikit-learn's `OneClassSVM`, which uses as many support vectors
    and the float64 it works with. SGD is measured where almost every step ends in maintenance, the
    slowest case: with vectors far apart, and with kernels that overlap, where projection and
    merging do more.
    """
    from threadpoolctl import threadpool_limits

    repeats = options.repeats or 9
    with threadpool_limits(1):
        rows = decision_values(repeats) + steps(repeats) + others(repeats)
    show(f"Kernels, one thread, d = {D}, {repeats} repeats", rows)
    publish(options.out, "kernels", rows)


def rate(name: str, n: int, seconds: list[float], note: str = "") -> Row:
    unit = "steps/s" if name.startswith("SGD") else "rows/s"
    best = n / min(seconds)
    return {"what": name, "unit": unit, "median": n / median(seconds), "best": best, "note": note}


def decision_values(repeats: int) -> list[Row]:
    from sklearn.svm import OneClassSVM

    from distsvc.kernels.rbf import weighted_sums

    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, D))
    machine = OneClassSVM(gamma=0.1, nu=0.999).fit(random.normal(size=(VECTORS, D)))
    X32 = X.astype(np.float32)
    S = np.ascontiguousarray(machine.support_vectors_.T, np.float32)
    a = machine.dual_coef_[0].astype(np.float32)
    seconds = interleaved(
        {
            "ours": lambda: weighted_sums(X32, S, a, 0.1),
            "theirs": lambda: machine.decision_function(X),
        },
        repeats,
    )
    theirs = machine.score_samples(X)
    error = float(np.abs(weighted_sums(X32, S, a, 0.1) - theirs).max() / theirs.max())
    ratio = median(seconds["theirs"]) / median(seconds["ours"])
    best = min(seconds["theirs"]) / min(seconds["ours"])
    vectors = f"{a.size} support vectors"
    return [
        rate("decision values", ROWS, seconds["ours"], f"{vectors}; largest error {error:.0e}"),
        rate("OneClassSVM.decision_function", ROWS, seconds["theirs"], vectors),
        {
            "what": "decision values, ours over theirs",
            "unit": "ratio",
            "median": ratio,
            "best": best,
            "note": "bar >= 12",
        },
    ]


def steps(repeats: int) -> list[Row]:
    from distsvc.models.support_vector.boundary.stochastic_gradient import (
        STRATEGIES,
        StochasticGradient,
    )

    X = np.random.default_rng(1).normal(size=(STEPS, D)).astype(np.float32)
    cases = list(product(STRATEGIES, SETTINGS))
    last: dict[tuple[str, str], StochasticGradient] = {}

    def descend(case: tuple[str, str]) -> None:
        gamma, C = SETTINGS[case[1]]
        last[case] = StochasticGradient(D, gamma, C, VECTORS, case[0])
        last[case].feed(X)

    actions = {", ".join(case): partial(descend, case) for case in cases}
    seconds = interleaved(actions, repeats)
    rows = []
    for case, (name, taken) in zip(cases, seconds.items(), strict=True):
        note = f"B = {VECTORS}, maintenance at {last[case].n_maintained / STEPS:.1%} of steps"
        bar = STEP_BARS.get(case)
        rows.append(rate(f"SGD, {name}", STEPS, taken, f"{note}; {bar}" if bar else note))
    return rows


def others(repeats: int) -> list[Row]:
    from distsvc.models.rows.scaling import ColumnSums
    from distsvc.models.support_vector.boundary.labelling import Nearest

    random = np.random.default_rng(2)
    X = random.normal(size=(ROWS, D))
    X32 = X.astype(np.float32)
    nearest = Nearest(random.normal(size=(POINTS, D)).astype(np.float32))
    seconds = interleaved(
        {
            "nearest": lambda: nearest(X32),
            "moments": lambda: ColumnSums.empty(np.zeros(D)).add(X),
        },
        repeats,
    )
    return [
        rate("nearest point", ROWS, seconds["nearest"], f"{POINTS} points"),
        rate("exact column sums", ROWS, seconds["moments"]),
    ]
