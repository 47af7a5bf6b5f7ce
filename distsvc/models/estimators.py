"""The estimators by the names of their algorithms.

Importing this module imports scikit-learn, which is slow. Engines do not import it.
"""

from collections.abc import Mapping
from typing import Any

from distsvc.models.automatic.estimator import AutoClustering
from distsvc.models.baselines.bico import BICO
from distsvc.models.baselines.depddp import DePDDP
from distsvc.models.baselines.fuzzy import FuzzyCMeans
from distsvc.models.baselines.kmeans import KMeans
from distsvc.models.baselines.spdc import SPDC
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.linear.estimators import LinearOneClassSVM, LinearSVDD
from distsvc.models.mixture_clustering.estimator import MixtureClustering
from distsvc.models.support_vector.estimator import SupportVectorClustering

ESTIMATORS: Mapping[str, type[Any]] = {
    "auto": AutoClustering,
    "support-vector": SupportVectorClustering,
    "mixture": MixtureClustering,
    "imdh": IncrementalMDH,
    "linear-one-class": LinearOneClassSVM,
    "linear-svdd": LinearSVDD,
    "bico": BICO,
    "spdc": SPDC,
    "depddp": DePDDP,
    "fuzzy-c-means": FuzzyCMeans,
    "kmeans": KMeans,
}
