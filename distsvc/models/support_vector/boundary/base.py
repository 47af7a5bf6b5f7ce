"""Base class of the two engines of support vector clustering."""

from abc import abstractmethod
from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.models.engine import Engine
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rows.scaling import check_finite
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.labelling import DecisionFunction

Parts = Iterable[tuple[np.ndarray, np.ndarray]]
"""Blocks of a table: rows (m, q) float32 from `SupportVectorEngine.seen`, and keys (m,) uint64."""


class Parameters(SimpleNamespace):
    """All parameters of `SupportVectorClustering` as attributes."""

    @property
    def is_published(self) -> bool:
        """Whether to run the papers' algorithms exactly as printed."""
        return bool(self.variant == "published")


class SupportVectorEngine(Engine):
    """Base class of the two engines of support vector clustering.

    An engine learns from rows, finds clusters, and sets the rule that labels rows. An estimator
    calls `learn` and `find_clusters`; a job calls their steps one by one. `seed` decides the rows'
    random keys and all other random choices. `notes` are remarks on cases that the papers leave
    undefined.
    """

    pilot: np.ndarray  # (m, d) float32, centred
    gamma: float  # kernel parameter, as given or as chosen from the pilot
    C: float  # penalty of rows outside, as given or as computed from nu
    n_iter: int  # number of training steps
    decision: DecisionFunction  # f, once trained
    equilibria: np.ndarray  # (M, d) float32, centred
    equilibrium_labels: np.ndarray  # (M,) int32: clusters, -1 outside the domain of novelty
    rule: Rule  # rule that labels centred rows; set when the clusters are known

    n_jobs: int | None = 1  # number of threads, which changes no answer

    def __init__(self, parameters: Parameters, seed: int):
        self.parameters, self.seed = parameters, seed
        self.notes: list[str] = []

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the centre of rows, and the centred pilot, for a table of `n_rows` rows.

        `pilot` (m, d) are the table's pilot rows, sorted by key.
        """
        self.centre = pilot.mean(axis=0, dtype=np.float64)
        self.pilot = self.centred(pilot)
        check_finite(self.pilot)
        largest = float(np.abs(self.pilot).max(initial=0.0))
        # Squares of smaller deviations underflow in float32.
        if 0.0 < largest < 16.0 * float(np.sqrt(np.finfo(np.float32).tiny)):
            raise UnusableRowsError(
                f"values differ from their column's mean by at most {largest:.1e}, and squared "
                "differences are too small for float32; scale the features, such as by "
                "StandardScaler or preprocess.scale = 'standard'"
            )
        if (self.pilot == self.pilot[0]).all():
            self.note("all tested rows are equal: the answer is one cluster")

    def centred(self, X: np.ndarray) -> np.ndarray:
        """Return rows (n, d) centred, float32 in C order."""
        return np.ascontiguousarray(X - self.centre, np.float32)

    def original(self, Z: np.ndarray) -> np.ndarray:
        """Return centred rows (n, d) with the centre added again, float32."""
        return (Z + self.centre).astype(np.float32)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    @abstractmethod
    def support_vectors(self) -> np.ndarray:
        """Centred support vectors (B, d) float32, with the weights ``decision.a``."""

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the rows that `learn` needs.

        They contain all ranges that `key_ranges` returns.
        """
        return self.key_ranges(n_rows)

    @abstractmethod
    def seen(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, q) float32 of rows X (n, d) that are used in learning."""

    @abstractmethod
    def learn(self, rows: np.ndarray, keys: np.ndarray, n_rows: int) -> None:
        """Train on the rows (m, q) of a table of `n_rows` whose keys lie in `sample_ranges`.

        The rows are sorted by their keys (m,) uint64.
        """

    @abstractmethod
    def find_clusters(self, parts: Parts) -> None:
        """Find the clusters of a table, whose rows come in `parts`, and set `rule`."""
