"""What iMDH costs: against k-means, against the machine, over depth and rows."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness.data import scaled
from benchmarks.harness.measure import interleaved, publish, timed
from benchmarks.harness.rows import Row, show
from benchmarks.harness.systems import Facts, made
from benchmarks.papers.hyperplanes import SETTINGS, learned

CLASSES = {"kddcup": 23, "mnist": 10}
BIG_BYTES = 2**30
PRODUCT = 3072
UPDATES = 2000
FLOPS = {"project": 5, "turn": 6, "pull": 3}
"""Operations per feature: x - mean, two multiply-adds; x - mean, mean, v; x - mean, mean."""

TOUCHED = {"project": 12, "turn": 20, "pull": 12}
"""Bytes per feature that are read and written: x, mean, v; the same, mean and v; x, mean, mean."""

NONE = {"over_k_means": None, "share": None, "of": ""}

D = 20
DEPTH = 8
DEPTHS = tuple(range(3, 13))
ROWS = 100_000
SIZES = tuple(round(10**e) for e in np.linspace(4.0, 6.0, 6))


def mdh_speed(options: Namespace) -> None:
    """IMDH against k-means, and its learning kernel against the machine.

    All fits get the same standardised float32 rows and label them, on one thread. k-means has as
    many clusters as there are classes, and one start. Seconds are of the processor. The kernel's
    work on a row is counted from its code and set beside what one core of this machine is seen to
    do: a copy of arrays larger than its caches, an update of arrays as large as the tree's, and a
    product of matrices.
    """
    repeats = options.repeats or 3
    rows: list[Row] = []
    for name in CLASSES:
        X = scaled(name, options.data)[0].astype(np.float32)
        fits = fit_rows(name, X, repeats)
        show(f"{name}, {X.shape[0]} x {X.shape[1]}, {repeats} repeats", fits)
        kernel = kernel_rows(name, X, repeats)
        show("Learning kernel, published settings, one thread", kernel)
        rows += fits + kernel
    publish(options.out, "mdh_speed", rows)


def fit_rows(name: str, X: np.ndarray, repeats: int) -> list[Row]:
    """Return seconds of fits, and how many times those of k-means they are."""
    from threadpoolctl import threadpool_limits

    facts = Facts(len(X), CLASSES[name], 0)

    def fit(system: str, point: Row) -> None:
        timed(made(system, facts, 0, **point).fit, X)

    actions = {
        f"iMDH, {setting}": partial(fit, "iMDH" + suffix, point)
        for setting, (suffix, point) in SETTINGS.items()
    }
    actions["k-means"] = partial(fit, "k-means", {"init": "k-means++"})
    with threadpool_limits(1):
        seconds = interleaved(actions, repeats)
    peer = median(seconds["k-means"])
    return [
        _measured(name, what, "s", taken) | NONE | {"over_k_means": median(taken) / peer}
        for what, taken in seconds.items()
    ]


def kernel_rows(name: str, X: np.ndarray, repeats: int) -> list[Row]:
    """Return the kernel's rates, what the machine can do, and the shares."""
    from threadpoolctl import threadpool_limits

    n, d = X.shape
    shuffled = X[np.random.default_rng(0).permutation(n)]
    depth = learned(shuffled[:1])[1].depth
    values = d * (2**depth - 1)
    with threadpool_limits(1):
        actions = {"learn": partial(learned, shuffled)} | machine_actions(values)
        seconds = interleaved(actions, repeats)
    levels = depth - 1
    flops, touched = (
        d * (levels * (each["project"] + each["turn"]) + each["pull"]) for each in (FLOPS, TOUCHED)
    )
    rates = [n / taken for taken in seconds["learn"]]
    per_visit = [1e9 * taken / n / levels for taken in seconds["learn"]]
    rows = [
        _measured(name, "learn", "rows/s", rates, max) | NONE,
        _measured(name, "learn, one hyperplane", "ns", per_visit) | NONE,
    ]
    for action, of_row, of_action, what, reference, unit in (
        ("copy", 4 * d, 2 * BIG_BYTES, "bytes of a row from memory", "copy of 1 GiB", "GB/s"),
        (
            "update", touched, 12 * values * UPDATES, "bytes of a row touched in cache",
            "update of arrays as large as the tree", "GB/s",
        ),
        (
            "product", flops, 2 * PRODUCT**3, "operations on a row",
            f"product of {PRODUCT} x {PRODUCT} float32", "GFLOP/s",
        ),
    ):  # fmt: skip
        possible = [1e-9 * of_action / taken for taken in seconds[action]]
        done = [1e-9 * of_row * rate for rate in rates]
        share = {"share": median(done) / median(possible), "of": reference}
        rows += [
            _measured(name, reference, unit, possible, max) | NONE,
            _measured(name, f"learn, {of_row:,} {what}", unit, done, max) | NONE | share,
        ]
    return rows


def machine_actions(values: int) -> dict[str, Callable[[], Any]]:
    """Return what measures the machine; the update is of arrays of so many values."""
    import numba

    source, target = np.ones(BIG_BYTES // 4, np.float32), np.empty(BIG_BYTES // 4, np.float32)
    a = np.random.default_rng(0).random((PRODUCT, PRODUCT), np.float32)
    x, y = np.ones(values, np.float32), np.ones(values, np.float32)

    @numba.njit(fastmath={"reassoc", "contract", "nsz"})
    def update(x: np.ndarray, y: np.ndarray) -> None:
        for number in range(UPDATES):
            scale = np.float32(number % 2)
            for k in range(x.shape[0]):
                y[k] += scale * x[k]

    return {
        "copy": lambda: np.copyto(target, source),
        "update": lambda: update(x, y),
        "product": lambda: a @ a,
    }


def _measured(
    name: str, what: str, unit: str, values: list[float], best: Callable[[list[float]], float] = min
) -> Row:
    return {"set": name, "what": what, "unit": unit, "median": median(values), "best": best(values)}


def mdh_cost(options: Namespace) -> None:
    """Cost of iMDH over depth and rows, drawn.

    The learning pass and the counting pass on normal rows, one thread, in seconds of the processor.
    A tree of depth D has D - 1 levels of hyperplanes, so depth 8 updates 7; the bottom level has
    means only.
    """
    repeats = options.repeats or 3
    X = np.random.default_rng(0).normal(size=(max(SIZES), D)).astype(np.float32)
    cases = [("depth", depth, ROWS) for depth in DEPTHS] + [("n", DEPTH, n) for n in SIZES]
    rows: list[Row] = []
    for over in ("depth", "n"):
        mine = [case for case in cases if case[0] == over]
        actions = {str(case): partial(pass_over, X[: case[2]], case[1]) for case in mine}
        seconds = interleaved(actions, repeats)
        for case in mine:
            taken = seconds[str(case)]
            about = {"over": over, "depth": case[1], "n": case[2], "d": D}
            times = {"seconds": median(taken), "best": min(taken), "repeats": repeats}
            rows.append(about | times)
    show(f"Learning and counting, median of {repeats}", rows)
    over_depth, over_rows = (
        np.array([row["seconds"] for row in rows if row["over"] == over]) for over in ("depth", "n")
    )
    lines = {
        "depth": line(np.array(DEPTHS, float), over_depth),
        "n": line(np.log10(SIZES), np.log10(over_rows)),
    }
    for over, (slope, intercept, r2) in lines.items():
        print(f"  {over}: {intercept:.4g} + {slope:.4g} x, R^2 = {r2:.5f}")
    print(f"  seconds grow with n to the power of {lines['n'][0]:.3f} (x is log10 n)")
    print(f"  depth {DEPTH} updates {DEPTH - 1} levels of hyperplanes\n")
    publish(options.out, "mdh_cost", rows)
    draw(options.out / "mdh_cost.png", over_depth, over_rows, lines)


def pass_over(X: np.ndarray, depth: int) -> None:
    tree, _ = learned(X, depth)
    tree.count(X)


def line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Return slope, intercept and R^2 of the least squares line."""
    slope, intercept = np.polyfit(x, y, 1)
    unexplained = ((y - intercept - slope * x) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    return float(slope), float(intercept), float(1.0 - unexplained)


def draw(
    path: Path,
    over_depth: np.ndarray,
    over_rows: np.ndarray,
    lines: dict[str, tuple[float, float, float]],
) -> None:
    """Draw both curves with their lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    slope, intercept, r2 = lines["depth"]
    label = f"{1000 * intercept:.1f} + {1000 * slope:.2f} depth ms, $R^2$ = {r2:.4f}"
    left.plot(DEPTHS, over_depth, "o", color="C0", label="measured")
    left.plot(DEPTHS, intercept + slope * np.array(DEPTHS), color="C1", label=label)
    left.set(xlabel="depth", ylabel="seconds", xticks=DEPTHS, title=f"{ROWS:,} x {D} rows")
    left.set_ylim(bottom=0.0)
    slope, intercept, r2 = lines["n"]
    label = f"exponent {slope:.3f}, $R^2$ = {r2:.5f}"
    right.loglog(SIZES, over_rows, "o", color="C0", label="measured")
    right.loglog(SIZES, 10**intercept * np.array(SIZES) ** slope, color="C1", label=label)
    title = f"depth {DEPTH}: {DEPTH - 1} levels of hyperplanes, d = {D}"
    right.set(xlabel="rows", ylabel="seconds", title=title)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, loc="upper left")
    figure.suptitle("iMDH: one learning and one counting pass, seconds of the processor")
    figure.savefig(path, dpi=110)
    print(f"-> {path}\n", flush=True)
