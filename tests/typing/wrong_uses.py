"""Wrong uses, each on a line of its own, which type checkers refuse. It is not run.

mypy lets dataclasses with an untyped base take any further arguments; scikit-learn has no types.
"""

from __future__ import annotations

import distsvc
from distsvc import AutoClustering, IncrementalMDH, LinearOneClassSVM, LinearSVDD
from distsvc import SupportVectorClustering as Clustering
from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans

model = AutoClustering()
run = distsvc.load("out")

AutoClustering(effort="medium")  # wrong
AutoClustering(n_clusters="5")  # wrong
AutoClustering(5, 0.1)  # wrong, but not to mypy
AutoClustering(granularity="finest")  # wrong
AutoClustering(random_state="seed")  # wrong
AutoClustering(n_jobs="all")  # wrong
Clustering("scale")  # wrong, but not to mypy
Clustering(nu="0.1")  # wrong
Clustering(solver="smo")  # wrong
Clustering(maintenance="project")  # wrong
Clustering(stopping="early")  # wrong
Clustering(labelling="tree")  # wrong
Clustering(assignment="majority")  # wrong
Clustering(min_cluster_size=5)  # wrong, but not to mypy
IncrementalMDH(depth="8")  # wrong
IncrementalMDH(growth="backward")  # wrong
IncrementalMDH(elbow="kneedle")  # wrong
LinearOneClassSVM(solver="lbfgs")  # wrong
LinearSVDD(C="1")  # wrong
BICO(n_clusters=None)  # wrong
SPDC(window=None)  # wrong
DePDDP(trim="0.1")  # wrong
FuzzyCMeans(fuzzifier=2.0)  # wrong, but not to mypy
distsvc.AutoClusterin()  # wrong
distsvc.run(3)  # wrong
distsvc.run("job.toml", "2026-11-20")  # wrong
distsvc.run("job.toml", overrides="model.seed=1")  # wrong
distsvc.load(5)  # wrong
distsvc.plot.tree()  # wrong
distsvc.plot.profiles("out")  # wrong
run.manifests  # wrong
run.labels(column="label")  # wrong
run.labels(columns=3)  # wrong
model.cut("three")  # wrong
model.cut()  # wrong
model.n_clusters_.upper()  # wrong
