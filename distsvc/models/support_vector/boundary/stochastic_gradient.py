"""Stochastic gradient descent for the large-margin one-class SVM: phase one of the papers.

| Pham, Le and Dang (2017) | here |
|---|---|
| J(w), eq. (1) | `StochasticGradient.objective` |
| w_{t+1} | ``StochasticGradient.coefficients`` on ``StochasticGradient.vectors`` |
| t; B; k of section 3.3.2 | ``n_steps``; ``budget``; ``projection_size`` |
| Algorithms 1 and 2 | `descend` |
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels import training as kernels
from distsvc.kernels.rbf import weighted_sums
from distsvc.models.rows.checkpoints import (
    MAX_STATE_COUNT,
    NO_CHECKPOINT,
    Checkpoint,
    Position,
    State,
)
from distsvc.models.rules.fields import ArrayField, Facts, Field, check_fields, whole

STRATEGIES = {
    "merge": kernels.MERGE,
    "project-nearest": kernels.PROJECT_NEAREST,
    "project-random": kernels.PROJECT_RANDOM,
    "removal": kernels.REMOVAL,
}

GRADIENT_FIELDS: dict[str, Field] = {
    "S": ArrayField("float32", "d B", may_be_empty=True),
    "counts": ArrayField("float64", "B", least=0.0, may_be_empty=True),
    "born": ArrayField("int64", "B", least=0, may_be_empty=True),
    "moments": ArrayField("float64", "B", may_be_empty=True),
    "state": ArrayField("uint64", "6"),
    "sums": ArrayField("float64", "2"),
    "average_from": whole(0, MAX_STATE_COUNT),
}
"""The fields of `StochasticGradient.state`."""

VECTOR_ARRAYS = ("counts", "born", "moments")

DESCENT_PIECE = 2**33
"""Maximum number of support vector coordinates that are read before a checkpoint can be saved."""

CHECK_STEPS = 10_000
"""Number of steps between two measurements of J."""

DESCENT_PATIENCE = 3
"""Number of measurements without an improvement of J after which a descent ends."""

Blocks = Callable[[int, int], Iterable[np.ndarray]]


class StochasticGradient:
    """Stochastic gradient descent on rows, which are fed in blocks of any size.

    J(w) = 1/2 ||w||^2 + (C/N) sum max(0, 1 - w.phi(x)) is minimised. Without a `budget` of support
    vectors, the method is SGD-LMOC (Pham, Le, Le and Tran 2016). With `average`, the coefficients
    are the mean of all iterates (Theorem 7) since the last `forget_average`. `average` needs the
    descent without a budget, because the vectors of all iterates must be stored.
    """

    def __init__(
        self,
        n_features: int,
        gamma: float,
        C: float,
        budget: int | None = None,
        maintenance: str = "merge",  # a key of `STRATEGIES`
        projection_size: int = 5,  # vectors on which a removed one is projected
        theta: float = 0.0,  # stops once ||w_{t+1} - w_t|| is at most theta; 0 for never
        average: bool = False,
        seed: int = 0,  # seed of the random choice of vectors, for "project-random"
    ):
        self.gamma, self.C = float(gamma), float(C)
        self.budget = np.iinfo(np.int64).max if budget is None else int(budget)
        self.strategy = STRATEGIES[maintenance]
        self.projection_size = int(projection_size)
        self.theta = float(theta)
        self.average = bool(average)
        self._S = np.zeros((n_features, 0), np.float32)
        self._counts = np.zeros(0)
        self._counts32 = np.zeros(0, np.float32)
        self._born = np.zeros(0, np.int64)
        self._moments = np.zeros(0)
        self._state = np.zeros(6, np.uint64)
        self._state[kernels.RANDOM] = (
            np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | 1
        )
        self._sums = np.zeros(2)
        self._average_from = 0

    n_vectors = property(lambda self: int(self._state[kernels.N_VECTORS]))
    n_steps = property(lambda self: int(self._state[kernels.STEP]))
    n_maintained = property(lambda self: int(self._state[kernels.MAINTAINED]))
    stopped = property(lambda self: bool(self._state[kernels.STOPPED_FLAG]))

    def feed(self, X: np.ndarray) -> None:
        """Do one step for each row of X (n, d) float32, in order, unless the descent stopped."""
        if self.stopped or not len(X):
            return
        self._reserve(min(self.budget, self.n_vectors + len(X)) + 1)
        vectors = self._S, self._counts, self._counts32, self._born, self._moments
        how = self.budget, self.strategy, self.projection_size, self.theta
        kernels.descend(X, *vectors, self._state, self._sums, self.gamma, self.C, *how)

    @property
    def piece_rows(self) -> int:
        """Maximum number of rows before a checkpoint can be saved; `DESCENT_PIECE` limits it."""
        n = max(self.n_vectors, 1)
        work = n * self._S.shape[0] * (n if self.theta > 0.0 else 1)
        return max(DESCENT_PIECE // work, 1)

    def state(self) -> State:
        n = self.n_vectors
        arrays = {"S": self.vectors, "state": self._state.copy(), "sums": self._sums.copy()}
        arrays |= {name: getattr(self, f"_{name}")[:n].copy() for name in VECTOR_ARRAYS}
        return {"average_from": self._average_from}, arrays

    def restore(self, facts: Facts, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from the `state` of a descent with equal parameters.

        If the state does not fit this descent, raise DataError and change nothing.
        """
        sizes = {"d": self._S.shape[0]}
        check_fields(GRADIENT_FIELDS, {**facts, **arrays}, sizes)
        n = int(arrays["state"][kernels.N_VECTORS])
        if n != sizes["B"] or n > self.budget:
            raise DataError(
                f"array state: expected {sizes['B']} vectors as in array S, and no more than the "
                f"budget of {self.budget}, found {n}"
            )
        self._S, self._state, self._sums = arrays["S"], arrays["state"], arrays["sums"]
        for name in VECTOR_ARRAYS:
            setattr(self, f"_{name}", arrays[name])
        self._counts32 = self._counts.astype(np.float32)
        self._average_from = facts["average_from"]

    def forget_average(self) -> None:
        """Drop all iterates so far from the mean; it restarts with the next step's iterate."""
        self._moments[:] = self._counts * self._sums[0]
        self._average_from = self.n_steps

    @property
    def vectors(self) -> np.ndarray:
        """Support vectors (d, B) float32, one in each column."""
        return np.ascontiguousarray(self._S[:, : self.n_vectors])

    @property
    def coefficients(self) -> np.ndarray:
        """The weights a (B,) float64 of f(x) = sum_j a_j K(s_j, x) - 1."""
        n = self.n_vectors
        if self.average and self.n_steps > self._average_from:
            weights = self._counts[:n] * self._sums[0] - self._moments[:n]
            return self.C / (self.n_steps - self._average_from) * weights
        return self.C / max(self.n_steps, 1) * self._counts[:n]

    def objective(self, X: np.ndarray) -> float:
        """Return the objective J(w), eq. (1), estimated on the rows X (n, d) float32."""
        S, a = self.vectors, self.coefficients
        on_vectors = weighted_sums(np.ascontiguousarray(S.T), S, a.astype(np.float32), self.gamma)
        margins = weighted_sums(X, S, a.astype(np.float32), self.gamma)
        hinge = np.maximum(0.0, 1.0 - margins.astype(np.float64)).mean()
        return float(0.5 * a @ on_vectors.astype(np.float64) + self.C * hinge)

    def _reserve(self, capacity: int) -> None:
        have = self._counts.size
        if capacity <= have:
            return
        capacity = capacity if self.budget < capacity else max(capacity, 2 * have)
        for name in ("_S", "_counts", "_counts32", "_born", "_moments"):
            old = getattr(self, name)
            more = [(0, 0)] * (old.ndim - 1) + [(0, capacity - have)]
            setattr(self, name, np.pad(old, more))


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

    ``blocks(epoch, first)`` returns the blocks of an epoch, from block `first` on. With
    `evaluation` rows (m, d) float32, the objective J is measured on them every `CHECK_STEPS` steps.
    The descent then also ends when the best of the last `DESCENT_PATIENCE` values does not improve
    on the earlier best by a relative `tol`.
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
