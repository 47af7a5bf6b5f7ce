"""The base of the two engines of support vector clustering."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rows.scaling import check_finite
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.labelling import DecisionFunction

Parts = Iterable[tuple[np.ndarray, np.ndarray]]
"""Seen rows (m, q) float32 and keys (m,) uint64 of consecutive parts of a table."""

SMALLEST_DEVIATION = 16.0 * float(np.sqrt(np.finfo(np.float32).tiny))
"""Least largest deviation from a mean, 1.7e-18: squares of less are no normal float32."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of `SupportVectorClustering` that decide a fit; it says what they mean."""

    gamma: float | Sequence[float] | str
    nu: float | None
    C: float | None
    solver: str
    budget: int | None
    maintenance: str
    projection_size: int
    stopping: str
    tol: float
    theta: float
    max_iter: int
    iterate: str
    labelling: str
    n_clusters: int | None
    effort: str
    granularity: str
    assignment: str
    bridging: bool
    epsilon: float
    segment_samples: int
    boundary_size: int
    ball_radius: float
    merge_radius: float
    variant: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Parameters:
        """Return them from all of the estimator's parameters by name, which are checked."""
        return cls(**{field.name: given[field.name] for field in fields(cls)})

    @property
    def is_published(self) -> bool:
        """Whether the papers' algorithms are followed as printed."""
        return self.variant == "published"


class SupportVectorEngine(ABC):
    """Fits one table: its pilot settles what it can, a stream of rows trains, a rule labels.

    A job calls the steps one by one. An estimator calls `learn` and `find_clusters`, which do them
    all on rows as `seen` gives them.

    `seed` is that of the rows' random keys, and of all other choices. `notes` tell of cases that
    the papers leave undefined, and their solutions.
    """

    centre: np.ndarray  # (d,) float64, the mean of the pilot
    pilot: np.ndarray  # (m, d) float32, centred
    gamma: float  # this and C are the values used
    C: float
    n_iter: int  # steps done
    decision: DecisionFunction  # f, once it is trained
    equilibria: np.ndarray  # (M, d) float32, centred
    equilibrium_labels: np.ndarray  # (M,) int32: clusters, -1 outside the domain of novelty
    rule: Rule  # of centred rows, once clusters are found

    n_jobs: int | None = 1  # threads, which change no answer

    def __init__(self, parameters: Parameters, seed: int):
        self.parameters, self.seed = parameters, seed
        self.notes: list[str] = []

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle what follows from pilot rows (m, d) of a table of `n_rows`, in order of keys."""
        self.centre = pilot.mean(axis=0, dtype=np.float64)
        self.pilot = self.centred(pilot)
        check_finite(self.pilot)
        largest = float(np.abs(self.pilot).max(initial=0.0))
        if 0.0 < largest < SMALLEST_DEVIATION:
            raise UnusableRowsError(
                f"values are within {largest:.1e} of their means, and their squares are too small "
                "for float32; scale the features"
            )
        if (self.pilot == self.pilot[0]).all():
            self.note("all rows looked at are equal: they are one cluster")

    def centred(self, X: np.ndarray) -> np.ndarray:
        """Return rows (n, d) as the kernels want them: centred, float32, C order."""
        return np.ascontiguousarray(X - self.centre, np.float32)

    def original(self, Z: np.ndarray) -> np.ndarray:
        """Return centred rows (n, d) in the features' own units, float32."""
        return (Z + self.centre).astype(np.float32)

    def note(self, text: str) -> None:
        """Remember a remark, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    @abstractmethod
    def support_vectors(self) -> np.ndarray:
        """Centred support vectors (B, d) float32; ``decision.a`` are their weights."""

    @abstractmethod
    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the blocks of an epoch over a table of `n_rows`."""

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the rows that `learn` takes: those, or more."""
        return self.key_ranges(n_rows)

    @abstractmethod
    def fitted_facts(self) -> Facts:
        """Return the numbers that the fit arrived at, for its report."""

    @abstractmethod
    def seen(self, X: np.ndarray) -> np.ndarray:
        """Return rows X (n, d) as the engine looks at them, float32."""

    @abstractmethod
    def learn(self, rows: np.ndarray, keys: np.ndarray, n_rows: int) -> None:
        """Do phase one for a table of `n_rows`.

        It takes all of its seen rows (m, q) whose keys (m,) uint64 are in `sample_ranges`, or more.
        """

    @abstractmethod
    def find_clusters(self, parts: Parts, n_rows: int) -> None:
        """Do phase two for a table of `n_rows`, on all of its rows in parts."""

    @abstractmethod
    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the cluster (n,) int32 of seen rows (n, q)."""

    @abstractmethod
    def values(self, rows: np.ndarray) -> np.ndarray:
        """Return f (n,) float32 of seen rows (n, q)."""
