"""The sparse training sets of the linear benchmarks: DIR/linear/NAME_train.svm[.gz, .bz2]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace

SETS = {"a9a": "a9a", "ijcnn1": "ijcnn1", "reuters": "reuters", "sector": "sector_scale"}
SETS |= {"w8a": "w8a"}


def training_rows(data: Path, name: str) -> Any:
    """Return the rows (n, d) of a training set as CSR with sorted indices."""
    from sklearn.datasets import load_svmlight_file

    stem = f"{SETS[name]}_train.svm"
    found = [data / "linear" / (stem + end) for end in ("", ".gz", ".bz2")]
    for path in found:
        if path.exists():
            X, _ = load_svmlight_file(str(path))
            X.sort_indices()
            return X
    raise SystemExit(f"there is no {found[0]}, nor with .gz or .bz2")


def chosen(options: Namespace) -> list[str]:
    """Return the names of the sets asked for."""
    return [name for name in SETS if options.sets is None or name in options.sets]


class Liblinear:
    """LIBLINEAR's `-s 21` on one set, without the conversion of its rows in the time."""

    def __init__(self, X: Any, nu: float, eps: float):
        import numpy as np
        from liblinear import liblinear, liblinearutil

        self._train = liblinear.liblinear.train
        self._free = liblinear.liblinear.free_and_destroy_model
        self._width = X.shape[1]
        self._rows = liblinearutil.problem(np.ones(X.shape[0]), X)
        self._options = liblinearutil.parameter(f"-s 21 -n {nu} -e {eps} -q")

    def train(self) -> Any:
        """Train and return the model."""
        return self._train(self._rows, self._options)

    def solution(self) -> tuple[Any, float]:
        """Return w (d,) and rho, nu n times the paper's."""
        import numpy as np

        model = self.train().contents
        return np.array([model.w[k] for k in range(self._width)]), float(model.rho)
