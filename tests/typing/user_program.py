"""A program of a user, which type checkers accept as it is. It is not run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

import distsvc
from distsvc import (
    AutoClustering,
    IncrementalMDH,
    LinearOneClassSVM,
    LinearSVDD,
    SupportVectorClustering,
)
from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans
from distsvc.errors import CheckFailedError, DistsvcError
from distsvc.metrics import clustering_report, compactness, purity


def cluster(X: npt.NDArray[np.float64]) -> int:
    """Fit every estimator, with every kind of parameter."""
    model = AutoClustering(5, effort="fast", granularity="fine", nu=0.1, n_jobs=-1, random_state=0)
    found: AutoClustering = model.fit(X)
    count: int = found.n_clusters_
    name: str = found.algorithm_
    labels = found.fit_predict(X)
    found.cut(3), found.cut(3, X), found.predict(X), found.predict_proba(X)
    found.probabilities_, found.outlier_scores_, found.labels_
    SupportVectorClustering(), SupportVectorClustering(0.5), SupportVectorClustering(X[0])
    SupportVectorClustering("auto", nu=0.05, solver="bsgd", maintenance="project-nearest")
    papers = SupportVectorClustering([0.5, 1.0], C=2.0, labelling="complete-graph", noise=True)
    fitted: SupportVectorClustering = papers.fit(X)
    fitted.cut(level=0.0), fitted.cut(4, X), fitted.decision_function(X)
    IncrementalMDH(6, n_clusters=None, growth="forward", elbow="angle").partial_fit(X).predict(X)
    rows = np.random.RandomState(0)
    LinearOneClassSVM(0.1, solver="cyclic-2cd", random_state=rows).fit(X).decision_function(X)
    LinearSVDD(nu=0.1).fit(X).predict(X)
    for baseline in (BICO(3, size=100), DePDDP(n_clusters=3), SPDC(500), FuzzyCMeans(3, m=2.0)):
        baseline.fit(X)
        baseline.cut(2)
    report = clustering_report(X, labels, None)
    print(name, report, compactness(X, labels), purity(labels, labels))
    return count


def every_night(day: str) -> list[str]:
    """Run a job, and use what it publishes."""
    try:
        run = distsvc.run("job.toml", run_date=day, overrides={"model.seed": 1}, overwrite=True)
    except CheckFailedError as error:
        return [str(error)]
    except DistsvcError as error:
        raise SystemExit(error.exit_code) from None
    again: distsvc.Run = distsvc.load(run.path)
    table = again.labels(columns=["label", "score"], filter="outlier == true")
    for batch in again.model.predict_batches(table):
        print(batch)
    figure: Figure = distsvc.plot.profiles(again)
    figure.savefig("profiles.png")
    distsvc.plot.tree(again).savefig("tree.png")
    warnings: list[str] = again.report.warnings
    return warnings
