"""The papers' baselines as scikit-learn estimators, imported when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distsvc.models.baselines.bico import BICO
    from distsvc.models.baselines.depddp import DePDDP
    from distsvc.models.baselines.fuzzy import FuzzyCMeans
    from distsvc.models.baselines.kmeans import KMeans
    from distsvc.models.baselines.spdc import SPDC

_BASELINE_MODULES = {
    "BICO": "distsvc.models.baselines.bico",
    "DePDDP": "distsvc.models.baselines.depddp",
    "FuzzyCMeans": "distsvc.models.baselines.fuzzy",
    "KMeans": "distsvc.models.baselines.kmeans",
    "SPDC": "distsvc.models.baselines.spdc",
}

__all__ = ["BICO", "SPDC", "DePDDP", "FuzzyCMeans", "KMeans"]


if not TYPE_CHECKING:  # type checkers use the imports above

    def __getattr__(name: str) -> Any:
        if name in _BASELINE_MODULES:
            return getattr(import_module(_BASELINE_MODULES[name]), name)
        raise AttributeError(f"module 'distsvc.baselines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_BASELINE_MODULES])
