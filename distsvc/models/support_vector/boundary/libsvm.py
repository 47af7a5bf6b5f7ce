"""LIBSVM's one-class SVM, in this process or in a child process.

A job needs LIBSVM for one number only, but importing scikit-learn would take 50 MB for as long as
the process runs. So a child process solves the problem: it runs this file and imports nothing of
distsvc.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np


def one_class_machine(X: np.ndarray, gamma: float, nu: float) -> Any:
    """Return the fitted `sklearn.svm.OneClassSVM` of the rows X (n, d)."""
    from sklearn.svm import OneClassSVM

    return OneClassSVM(gamma=gamma, nu=nu, tol=1e-6).fit(X)


def one_class_offset(X: np.ndarray, gamma: float, nu: float) -> float:
    """Return the offset of `one_class_machine`.

    This process computes it if scikit-learn is loaded, or if the child process fails.
    """
    if "sklearn" not in sys.modules and sys.executable and not getattr(sys, "frozen", False):
        rows = np.ascontiguousarray(X, np.float64)
        given = (float(gamma).hex(), float(nu).hex(), str(rows.shape[1]))
        try:
            answer = subprocess.run(
                [sys.executable, "-P", __file__, *given],
                input=rows.tobytes(),
                capture_output=True,
                check=True,
            )
            return float.fromhex(answer.stdout.decode())
        except (OSError, ValueError, subprocess.SubprocessError):
            pass
    return float(one_class_machine(X, gamma, nu).offset_[0])


if __name__ == "__main__":
    # scikit-learn imports pandas if it is installed, for nothing that this process needs
    sys.modules["pandas"] = None  # type: ignore[assignment]
    width, share = (float.fromhex(text) for text in sys.argv[1:3])
    values = np.frombuffer(sys.stdin.buffer.read()).reshape(-1, int(sys.argv[3]))
    print(float(one_class_machine(values, width, share).offset_[0]).hex())
