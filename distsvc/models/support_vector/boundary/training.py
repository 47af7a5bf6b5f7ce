"""Phase one: the solvers for the weights of f(x) = sum_j a_j K(s_j, x) - 1.

| Pham et al. (2017 and 2016): J(w) = 1/2 ||w||^2 + (C/N) sum max(0, 1 - w.phi(x)) | here |
|---|---|
| its dual, max sum a - a'Ka/2 over 0 <= a_i <= C/N | `solve_penalised` |
| the nu-one-class SVM (Schoelkopf et al. 2001), rho* with sum a = 1 | `solve_one_class` |
| C = 1 / (nu rho*), with which both have the same solution | `penalty_for` |
| Algorithms 1 and 2 | `descend` |
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels.training import coordinate_ascent, gram_matrix
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint, Position, State
from distsvc.models.rules.fields import Facts
from distsvc.models.support_vector.boundary.libsvm import one_class_machine, one_class_offset
from distsvc.models.support_vector.boundary.stochastic_gradient import StochasticGradient

CHECK_STEPS = 10_000
DESCENT_PATIENCE = 3
PENALTY_ROWS = 2000

Blocks = Callable[[int, int], Iterable[np.ndarray]]


@dataclass
class DescentProgress:
    """A descent, its position in the stream of rows, and the values of J so far."""

    descent: StochasticGradient
    position: Position
    history: list[float]

    def state(self) -> State:
        facts, arrays = self.descent.state()
        return facts | {"place": self.position.facts(), "history": self.history}, arrays

    def restored(self, facts: Facts, arrays: dict[str, np.ndarray]) -> "DescentProgress":
        position, history = Position.restored(facts.get("place", {})), facts.get("history")
        if not isinstance(history, list) or not all(isinstance(J, float) for J in history):
            raise DataError("fact history: expected a list of numbers")
        self.descent.restore(facts, arrays)
        return DescentProgress(self.descent, position, history)


def descend(
    descent: StochasticGradient,
    blocks: Blocks,
    max_iter: int,
    evaluation: np.ndarray | None,
    tol: float,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> None:
    """Feed epochs of blocks to the descent until it stops, or has done `max_iter` steps.

    ``blocks(epoch, first)`` returns the blocks of an epoch, from number `first` on. With
    `evaluation` rows (m, d) float32, J is measured on them every `CHECK_STEPS` steps. The descent
    also ends when the best of the last `DESCENT_PATIENCE` values does not improve on the earlier
    best by a relative `tol`.
    """
    course = DescentProgress(descent, Position(), [])
    course = checkpoint.last(course.restored) or course
    position, history = course.position, course.history

    def most() -> int:
        n = descent.n_steps
        return min(CHECK_STEPS - n % CHECK_STEPS, max_iter - n, descent.piece_rows)

    while True:
        for piece in position.pieces(blocks(position.epoch, position.block), most):
            descent.feed(piece)
            if descent.stopped or descent.n_steps >= max_iter:
                return
            if evaluation is not None and descent.n_steps % CHECK_STEPS == 0:
                history.append(descent.objective(evaluation))
                best = min(history[:-DESCENT_PATIENCE], default=np.inf)
                if min(history[-DESCENT_PATIENCE:]) > best * (1.0 - tol):
                    return
            checkpoint.keep(descent.n_steps, course.state)
        if position.epoch == 1:
            descent.forget_average()


def solve_penalised(
    X: np.ndarray, gamma: float, C: float, max_sweeps: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return support vectors (d, B) float32, weights (B,) and sweeps for rows X (n, d)."""
    a = np.zeros(len(X))
    K = gram_matrix(X.astype(np.float64), gamma)
    n_sweeps = coordinate_ascent(K, a, C / len(X), 1e-9, max_sweeps)
    used = a > 0.0
    return np.ascontiguousarray(X[used].T), a[used], n_sweeps


def solve_one_class(
    X: np.ndarray, gamma: float, nu: float
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Return support vectors (d, B) float32, weights (B,), C and LIBSVM's number of iterations.

    They solve the nu-one-class SVM for rows X (n, d). Weights are multipliers divided by the
    offset, so that f is 0 on the boundary.
    """
    machine, offset = one_class_machine(X, gamma, nu)
    S = np.ascontiguousarray(X[machine.support_].T, np.float32)
    return S, machine.dual_coef_[0] / offset, len(X) / offset, int(machine.n_iter_)


def penalty_for(X: np.ndarray, gamma: float, nu: float) -> float:
    """Return C = 1 / (nu rho*) from the first `PENALTY_ROWS` of the rows X (n, d)."""
    X = X[:PENALTY_ROWS]
    return len(X) / one_class_offset(X, gamma, nu)
