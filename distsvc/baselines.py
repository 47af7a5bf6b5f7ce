"""Other methods of clustering, such as k-means, as scikit-learn estimators for comparisons."""

from distsvc.models.baselines.bico import BICO
from distsvc.models.baselines.depddp import DePDDP
from distsvc.models.baselines.fuzzy import FuzzyCMeans
from distsvc.models.baselines.kmeans import KMeans
from distsvc.models.baselines.spdc import SPDC

__all__ = ["BICO", "SPDC", "DePDDP", "FuzzyCMeans", "KMeans"]
