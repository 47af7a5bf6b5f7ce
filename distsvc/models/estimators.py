"""Which estimator an algorithm has, imported when it is asked for.

Estimators import scikit-learn, which takes a second. Workers have engines, which do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

ESTIMATORS = {
    "auto": ("automatic.estimator", "AutoClustering"),
    "support-vector": ("support_vector.estimator", "SupportVectorClustering"),
    "imdh": ("hyperplanes.estimator", "IncrementalMDH"),
    "linear-one-class": ("linear.estimators", "LinearOneClassSVM"),
    "linear-svdd": ("linear.estimators", "LinearSVDD"),
    "bico": ("baselines.bico", "BICO"),
    "spdc": ("baselines.spdc", "SPDC"),
    "depddp": ("baselines.depddp", "DePDDP"),
    "fuzzy-c-means": ("baselines.fuzzy", "FuzzyCMeans"),
}
"""The module, below `distsvc.models`, and the name of every algorithm's estimator."""


def estimator_of(algorithm: str, given: Mapping[str, Any]) -> Any:
    """Return the estimator of an algorithm with the parameters that are given, not fitted."""
    module, name = ESTIMATORS[algorithm]
    return getattr(import_module(f"distsvc.models.{module}"), name)(**given)


def parameters_of(algorithm: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of an algorithm: those that are given, and defaults."""
    parameters: dict[str, Any] = estimator_of(algorithm, given).get_params()
    return parameters
