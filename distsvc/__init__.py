"""Density clustering and outlier detection of tables too big for a notebook.

The public names are listed here. Estimators and runs are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The package before the function of its name: importing the package binds the name, too.
import distsvc.run  # noqa: F401
from distsvc.published.calling import run

if TYPE_CHECKING:
    from distsvc.published.run import Run as Run
    from distsvc.published.run import load as load

__version__ = "0.1.0"

_HOMES = {
    "AutoClustering": "distsvc.models.automatic.estimator",
    "IncrementalMDH": "distsvc.models.hyperplanes.estimator",
    "LinearOneClassSVM": "distsvc.models.linear.estimators",
    "LinearSVDD": "distsvc.models.linear.estimators",
    "Run": "distsvc.published.run",
    "SupportVectorClustering": "distsvc.models.support_vector.estimator",
    "load": "distsvc.published.run",
}

__all__ = [
    "AutoClustering",
    "IncrementalMDH",
    "LinearOneClassSVM",
    "LinearSVDD",
    "Run",
    "SupportVectorClustering",
    "__version__",
    "load",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module("distsvc.plot")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'distsvc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
