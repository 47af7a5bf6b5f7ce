"""Density clustering and outlier detection of tables too big for a notebook.

The public names are listed here and imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distsvc.run.calling import run as run
    from distsvc.run.published import Run as Run
    from distsvc.run.published import load as load

__version__ = "0.1.0"

_HOMES = {
    "AutoClustering": "distsvc.models.automatic.estimator",
    "IncrementalMDH": "distsvc.models.hyperplanes.estimator",
    "LinearOneClassSVM": "distsvc.models.linear.estimators",
    "LinearSVDD": "distsvc.models.linear.estimators",
    "Run": "distsvc.run.published",
    "SupportVectorClustering": "distsvc.models.support_vector.estimator",
    "load": "distsvc.run.published",
}

_PACKAGES = ("run",)
"""Of these, the name of a function is that of its package, which can be called."""

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
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return import_module(f"distsvc.{name}")
    raise AttributeError(f"module 'distsvc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_PACKAGES])
