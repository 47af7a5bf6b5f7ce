"""Linear one-class SVM against LIBLINEAR -s 21 and SVDD's optimality, on five sparse sets.

LIBLINEAR runs with -e 1e-9, which ends at its 1000 outer steps where it does not converge; our
tolerance is 1e-9. `relative` is our objective less LIBLINEAR's over LIBLINEAR's: negative is
better. `decision` is the largest difference of decision values (theirs over nu n) as a share of the
largest, `gap` the duality gap over our objective, which bounds its distance from the optimum. For
SVDD, the violation of the optimality conditions in units of R^2; and on at most 3000 rows, scaled
to length 1, the outliers beside those of `OneClassSVM(kernel="linear")`, but for rows that are on
its boundary within 1e-5, which either side may call.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from benchmarks.linear_data import Liblinear, chosen, training_rows
from benchmarks.measure import Row, publish, show

NUS = (0.01, 0.1, 0.5)
PEER_ROWS = 3000


def run(options: Namespace) -> None:
    planes, balls = [], []
    for name in chosen(options):
        X = training_rows(options.data, name)
        for nu in NUS:
            planes.append({"set": name, "nu": nu} | one_class(X, nu))
            balls.append({"set": name, "nu": nu} | data_description(X, nu))
            print(name, nu, "done", flush=True)
    show("LIBLINEAR -s 21 at 1e-9; bar: relative at most 1e-6", planes)
    show("SVDD; bars: violation at most 1e-6, no different outliers", balls)
    publish(options.out, "linear_exactness", planes)
    publish(options.out, "linear_svdd", balls)


def one_class(X: Any, nu: float) -> Row:
    import numpy as np

    total = nu * X.shape[0]
    w, rho = Liblinear(X, nu, 1e-9).solution()
    theirs = 0.5 * (w @ w) / total**2
    model = fitted("LinearOneClassSVM", X, nu)
    values, peer = model.decision_function(X), (X @ w - rho) / total
    scale = max(float(np.abs(peer).max()), 1e-12)
    return {
        "liblinear": float(theirs),
        "ours": model.objective_,
        "relative": (model.objective_ - theirs) / max(theirs, 1e-12),
        "decision": float(np.abs(values - peer).max()) / scale,
        "violation": model.violation_,
        "gap": model.duality_gap_ / max(model.objective_, 1e-12),
        "outer_steps": model.n_iter_,
    }


def data_description(X: Any, nu: float) -> Row:
    import numpy as np
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
    import warnings

    import distsvc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(distsvc, name)(nu, tol=1e-9, max_iter=200_000, compute_gap=True).fit(X)
