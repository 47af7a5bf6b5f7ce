"""LIBSVM's one-class SVM, in this process or in a child process.

The child process runs this file, which imports nothing of distsvc. In a job, scikit-learn then
takes no memory after the offset is computed.
"""

import subprocess
import sys
from typing import Any

import numpy as np


def one_class_machine(X: np.ndarray, gamma: float, nu: float) -> tuple[Any, float]:
    """Return the `sklearn.svm.OneClassSVM` fitted to rows X (n, d), and its positive offset.

    nu is limited to 1 - 1/n, so that the row with the largest kernel sum is on the boundary. With
    nu = 1, the offset would not be unique. The offset is at least 1e-12 nu n.
    """
    from sklearn.svm import OneClassSVM

    nu = min(nu, 1.0 - 1.0 / len(X))
    machine = OneClassSVM(gamma=gamma, nu=nu, tol=1e-6).fit(X)
    return machine, max(float(machine.offset_[0]), 1e-12 * nu * len(X))


def one_class_offset(X: np.ndarray, gamma: float, nu: float) -> float:
    """Return the offset of `one_class_machine`, usually computed in a child process.

    The calling process computes it if it already uses scikit-learn, or if the child process fails.
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
    return one_class_machine(X, gamma, nu)[1]


if __name__ == "__main__":
    # scikit-learn imports pandas if it is installed, for nothing that this process needs
    sys.modules["pandas"] = None  # type: ignore[assignment]
    width, share = (float.fromhex(text) for text in sys.argv[1:3])
    values = np.frombuffer(sys.stdin.buffer.read()).reshape(-1, int(sys.argv[3]))
    print(one_class_machine(values, width, share)[1].hex())
