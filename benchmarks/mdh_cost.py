"""Cost of iMDH over depth and rows, drawn.

The learning pass and the counting pass on normal rows, one thread. A tree of depth D has D - 1
levels of hyperplanes, so depth 8 updates 7; the bottom level has means only.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import Row, interleaved, publish, show

D = 20
DEPTH = 8
DEPTHS = tuple(range(3, 13))
ROWS = 100_000
SIZES = tuple(round(10**e) for e in np.linspace(4.0, 6.0, 6))


def run(options: Namespace) -> None:
    repeats = options.repeats or 3
    X = np.random.default_rng(0).normal(size=(max(SIZES), D)).astype(np.float32)
    over_depth = timed({depth: partial(pass_over, X[:ROWS], depth) for depth in DEPTHS}, repeats)
    over_rows = timed({n: partial(pass_over, X[:n], DEPTH) for n in SIZES}, repeats)
    rows: list[Row] = [
        {"over": "depth", "depth": depth, "n": ROWS, "d": D} | of
        for depth, of in over_depth.items()
    ]
    rows += [{"over": "n", "depth": DEPTH, "n": n, "d": D} | of for n, of in over_rows.items()]
    show(f"Learning and counting, median of {repeats}", rows)
    lines = {
        "depth": line(np.array(DEPTHS, float), medians(over_depth)),
        "n": line(np.log10(SIZES), np.log10(medians(over_rows))),
    }
    for over, (slope, intercept, r2) in lines.items():
        print(f"  {over}: {intercept:.4g} + {slope:.4g} x, R^2 = {r2:.5f}")
    print(f"  seconds grow with n to the power of {lines['n'][0]:.3f} (x is log10 n)")
    print(f"  depth {DEPTH} updates {DEPTH - 1} levels of hyperplanes\n")
    publish(options.out, "mdh_cost", rows)
    draw(options.out / "mdh_cost.png", medians(over_depth), medians(over_rows), lines)


def pass_over(X: np.ndarray, depth: int) -> None:
    from distsvc import IncrementalMDH
    from distsvc.models.hyperplanes.estimator import PUBLISHED
    from distsvc.models.hyperplanes.tree import GrowingTree

    model = IncrementalMDH(**PUBLISHED)
    tree = GrowingTree.start(depth, X.shape[1])
    tree.learn(X, model.alpha, model.penalty, model.bandwidth, 2**62, np.inf)
    tree.count(X)


def timed(actions: dict[int, Callable[[], Any]], repeats: int) -> dict[int, Row]:
    seconds = interleaved({str(key): action for key, action in actions.items()}, repeats)
    return {
        int(key): {"seconds": median(taken), "best": min(taken), "repeats": repeats}
        for key, taken in seconds.items()
    }


def medians(measured: dict[int, Row]) -> np.ndarray:
    return np.array([of["seconds"] for of in measured.values()])


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
    figure.suptitle("iMDH: one learning pass and one counting pass, one thread")
    figure.savefig(path, dpi=110)
    print(f"-> {path}\n", flush=True)
