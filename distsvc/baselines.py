"""The algorithms that the papers compare theirs with, as scikit-learn estimators.

The public names are listed here and imported when first used.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "BICO": "distsvc.models.baselines.bico",
    "DePDDP": "distsvc.models.baselines.depddp",
    "FuzzyCMeans": "distsvc.models.baselines.fuzzy",
    "SPDC": "distsvc.models.baselines.spdc",
}

__all__ = ["BICO", "SPDC", "DePDDP", "FuzzyCMeans"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'distsvc.baselines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
