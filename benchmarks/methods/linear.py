"""The linear one-class models against LIBLINEAR's `-s 21`, on five sparse sets."""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from statistics import geometric_mean
from typing import Any

import numpy as np

from benchmarks.harness.measure import interleaved, publish, timed
from benchmarks.harness.rows import Row, only, show
from benchmarks.papers.linear import training_files, training_rows

SETS = ("a9a", "ijcnn1", "reuters", "sector", "w8a")
NUS = (0.01, 0.1, 0.5)
PEER_ROWS = 3000
REPEATS = 15


def linear_exactness(options: Namespace) -> None:
    """Linear one-class SVM against LIBLINEAR -s 21 and SVDD's optimality.

    LIBLINEAR runs with -e 1e-9, which ends at its 1000 outer steps where it does not converge; our
    tolerance is 1e-9. `relative` is our objective less LIBLINEAR's over LIBLINEAR's: negative is
    better. `decision` is the largest difference of decision values (theirs over nu n) as a share of
    the largest, `gap` the duality gap over our objective. `excess` and `liblinear_excess` are the
    objectives less a lower bound of the optimum, over that bound. The bound is the better of those
    that the two normals give, so it depends on neither program. For SVDD, the violation of the
    optimality conditions in units of R^2. On at most 3000 rows, scaled to length 1, the outliers
    are compared with `OneClassSVM(kernel="linear")`. Rows within 1e-5 of its boundary do not count.
    """
    planes, balls = [], []
    for name, X in training_sets(options):
        for nu in NUS:
            planes.append({"set": name, "nu": nu} | one_class(X, nu))
            balls.append({"set": name, "nu": nu} | data_description(X, nu))
            print(name, nu, "done", flush=True)
    show("LIBLINEAR -s 21 at 1e-9; bar: relative at most 1e-6", planes)
    show("SVDD; bars: violation at most 1e-6, no different outliers", balls)
    publish(options.out, "linear_exactness", planes)
    publish(options.out, "linear_svdd", balls)


def linear_speed(options: Namespace) -> None:
    """Time to LIBLINEAR's objective: its -s 21 -e 0.01 against greedy-sweeps, one thread each.

    LIBLINEAR trains first; ours is given the number of outer steps after which its objective is at
    most LIBLINEAR's (or as little above as 1e-12 of it, which is rounding). Calls alternate, and
    each side's time is its least. Neither includes reading rows or bringing them into its own form;
    ours includes the squared lengths of rows, the start and the threshold. `whole` is ours at its
    default tolerance, and `fit` the estimator's call, which checks the rows and brings them into
    its own form.
    """
    from threadpoolctl import threadpool_limits

    repeats = options.repeats or REPEATS
    with threadpool_limits(1):
        rows = [
            {"set": name, "nu": nu} | compare(X, nu, repeats)
            for (name, X), nu in product(training_sets(options), NUS[::-1])
        ]
    show("bar: geometric mean of ratios at nu = 0.5, LIBLINEAR's default, at most 1", rows)
    for nu in NUS[::-1]:
        alike = only(rows, nu=nu)
        mean = geometric_mean(row["ratio"] for row in alike)
        whole = geometric_mean(row["whole_ms"] / row["liblinear_ms"] for row in alike)
        fits = [row["fit_ms"] / row["liblinear_ms"] for row in alike]
        print(
            f"  nu {nu}: geometric mean {mean:.3f}; at our default tolerance {whole:.3f}; "
            f"fit {geometric_mean(fits):.3f}, most {max(fits):.2f}"
        )
    publish(options.out, "linear_speed", rows)


def training_sets(options: Namespace) -> list[tuple[str, Any]]:
    """Return name and rows (n, d) of the sets that are asked for."""
    return [training_rows(path) for path in training_files(options.data, options.sets or SETS)]


class Liblinear:
    """LIBLINEAR's `-s 21` on one set, without the conversion of its rows in the time."""

    def __init__(self, X: Any, nu: float, eps: float):
        from liblinear import liblinear, liblinearutil

        self._train = liblinear.liblinear.train
        self._free = liblinear.liblinear.free_and_destroy_model
        self._width = X.shape[1]
        self._rows = liblinearutil.problem(np.ones(X.shape[0]), X)
        self._options = liblinearutil.parameter(f"-s 21 -n {nu} -e {eps} -q")

    def train(self) -> Any:
        """Train and return the model."""
        return self._train(self._rows, self._options)

    def solution(self) -> tuple[Any, float]:
        """Return w (d,) and rho, nu n times the paper's."""
        model = self.train().contents
        return np.array([model.w[k] for k in range(self._width)]), float(model.rho)


def one_class(X: Any, nu: float) -> Row:
    total = nu * X.shape[0]
    w, rho = Liblinear(X, nu, 1e-9).solution()
    theirs = 0.5 * (w @ w) / total**2
    model = fitted("LinearOneClassSVM", X, nu)
    values, peer = model.decision_function(X), (X @ w - rho) / total
    scale = max(float(np.abs(peer).max()), 1e-12)
    bound = max(lower_bound(X, normal, nu) for normal in (model.coef_[0], w))
    return {
        "liblinear": float(theirs),
        "ours": model.objective_,
        "relative": (model.objective_ - theirs) / max(theirs, 1e-12),
        "decision": float(np.abs(values - peer).max()) / scale,
        "violation": model.violation_,
        "gap": model.duality_gap_ / max(model.objective_, 1e-12),
        "excess": (model.objective_ - bound) / max(bound, 1e-12),
        "liblinear_excess": (theirs - bound) / max(bound, 1e-12),
        "outer_steps": model.n_iter_,
    }


def lower_bound(X: Any, w: np.ndarray, nu: float) -> float:
    """Return a lower bound of the one-class SVM's objective, 1/2 ||w||^2 at the optimum.

    The optimal w is a mean of rows X (n, d) with weights of at most 1 / (nu n). The product of such
    a mean and any w (d,) is at least the mean of the nu n lowest products of rows and w. Divided by
    ||w||, this mean bounds the length of the optimal w.
    """
    length = float(np.linalg.norm(w))
    if length == 0.0:
        return 0.0
    values, total = np.sort(X @ w), nu * X.shape[0]
    whole = int(total)
    lowest = (values[:whole].sum() + (total - whole) * values[whole]) / total
    return 0.5 * max(float(lowest) / length, 0.0) ** 2


def data_description(X: Any, nu: float) -> Row:
    from sklearn.preprocessing import normalize
    from sklearn.svm import OneClassSVM

    model = fitted("LinearSVDD", X, nu)
    unit = X[np.diff(X.indptr) > 0]
    order = np.random.default_rng(0).permutation(unit.shape[0])[:PEER_ROWS]
    unit = normalize(unit[np.sort(order)])
    ball = fitted("LinearSVDD", unit, nu)
    peer = OneClassSVM(kernel="linear", nu=nu, tol=1e-7, cache_size=1000).fit(unit)
    edge = peer.decision_function(unit) / (nu * unit.shape[0])
    clear = np.abs(edge) > 1e-5
    different = ball.predict(unit) != peer.predict(unit)
    return {
        "objective": model.objective_,
        "violation": model.violation_ / max(model.radius_**2, 1e-12),
        "rows": X.shape[0],
        "unit_rows": unit.shape[0],
        "boundary_rows": int((~clear).sum()),
        "outliers": int((ball.predict(unit) < 0).sum()),
        "different": int((different & clear).sum()),
    }


def fitted(name: str, X: Any, nu: float) -> Any:
    import distsvc

    model = getattr(distsvc, name)(nu, tol=1e-9, max_iter=200_000, compute_gap=True)
    return timed(model.fit, X).value


def compare(X: Any, nu: float, repeats: int) -> Row:
    from distsvc import LinearOneClassSVM
    from distsvc.models.linear.coordinate_descent import (
        Method,
        Problem,
        Rows,
        solve,
        start,
        threshold,
    )

    total, rows, peer = nu * X.shape[0], Rows(X), Liblinear(X, nu, 0.01)
    w, _ = peer.solution()
    theirs = float(0.5 * (w @ w))

    def ours(steps: int = 100_000, tol: float = 1e-5, watch: Any = None) -> Any:
        state = start(rows, Problem.one_class, total)
        solve(state, Method("greedy-sweeps"), tol, steps, watch=watch)
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
        "fit": lambda: LinearOneClassSVM(nu).fit(X),
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
        "fit_ms": 1000 * seconds["fit"],
    }
