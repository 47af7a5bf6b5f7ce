"""Density clustering and outlier detection of tables too big for a notebook.

The public names are listed here and imported when first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AutoClustering": "distsvc.models.automatic.estimator",
    "IncrementalMDH": "distsvc.models.hyperplanes.estimator",
    "LinearOneClassSVM": "distsvc.models.linear.estimators",
    "LinearSVDD": "distsvc.models.linear.estimators",
    "SupportVectorClustering": "distsvc.models.support_vector.estimator",
}

__all__ = [
    "AutoClustering",
    "IncrementalMDH",
    "LinearOneClassSVM",
    "LinearSVDD",
    "SupportVectorClustering",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'distsvc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
