"""Density clustering and outlier detection for tables too big for a notebook."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Importing the package binds the name `run`, so the function of that name is imported after it.
import distsvc.run  # noqa: F401
from distsvc.published.calling import run

if TYPE_CHECKING:
    from distsvc import baselines, errors, metrics, plot
    from distsvc.models.automatic.estimator import AutoClustering
    from distsvc.models.hyperplanes.estimator import IncrementalMDH
    from distsvc.models.linear.estimators import LinearOneClassSVM, LinearSVDD
    from distsvc.models.mixture_clustering.estimator import MixtureClustering
    from distsvc.models.support_vector.estimator import SupportVectorClustering
    from distsvc.published.run import Run, load

__version__ = "0.2.0"

_HOMES = {
    "AutoClustering": "distsvc.models.automatic.estimator",
    "IncrementalMDH": "distsvc.models.hyperplanes.estimator",
    "LinearOneClassSVM": "distsvc.models.linear.estimators",
    "LinearSVDD": "distsvc.models.linear.estimators",
    "MixtureClustering": "distsvc.models.mixture_clustering.estimator",
    "Run": "distsvc.published.run",
    "SupportVectorClustering": "distsvc.models.support_vector.estimator",
    "load": "distsvc.published.run",
}

_MODULES = ("baselines", "errors", "metrics", "plot")

__all__ = [
    "AutoClustering",
    "IncrementalMDH",
    "LinearOneClassSVM",
    "LinearSVDD",
    "MixtureClustering",
    "Run",
    "SupportVectorClustering",
    "__version__",
    "baselines",
    "errors",
    "load",
    "metrics",
    "plot",
    "run",
]


if not TYPE_CHECKING:  # type checkers use the imports above

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name in _MODULES:
            return import_module(f"distsvc.{name}")
        raise AttributeError(f"module 'distsvc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
