"""Labels, memberships and log densities of prepared rows by a mixture.

Prepared rows are rows of a table after their columns were coded and scaled as numbers.
"""

from dataclasses import dataclass

import numpy as np

from distsvc.kernels.mixture import label_rows
from distsvc.models.mixture.density import NormalMixture, Patterns


@dataclass(frozen=True)
class MixtureLabeller:
    """Labels prepared rows by a mixture, whose components may form larger clusters."""

    mixture: NormalMixture
    numbers: np.ndarray  # (p,) int64: indices of the columns of Z that contain numbers
    absent: np.ndarray  # (p,) int64: columns of Z that flag missing numbers; (0,) if NaN does
    levels: np.ndarray  # (q,) int64: columns of Z with levels of categories; -1 or NaN if missing
    cluster: np.ndarray | None = None  # (K,) int32: cluster of each component; None: its number

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the posterior probabilities (n, k) float32 of clusters for prepared rows Z."""
        return self._labelled(Z, 0, len(Z), 0)[1]

    def labels(self, Z: np.ndarray) -> np.ndarray:
        """Return the cluster (n,) int32 with the highest posterior; ties go to the first one."""
        return self._labelled(Z, len(Z), 0, 0)[0]

    def labels_and_densities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return `labels` (n,) and log densities (n,) float64.

        A missing value counts with its expected log density.
        """
        labels, _, densities = self._labelled(Z, len(Z), 0, len(Z))
        return labels, densities[:, 1]

    def __call__(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return `shares` and two log densities (n, 2) float64 of prepared rows Z (n, D).

        The first is the density of the values that are present. The second adds the expected log
        density of each missing value, so that rows with and without them are comparable.
        """
        return self._labelled(Z, 0, len(Z), len(Z))[1:]

    def _labelled(
        self, Z: np.ndarray, n_labels: int, n_shares: int, n_densities: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels (n_labels,), shares (n_shares, k) and log densities (n_densities, 2).

        Each number is len(Z), or 0 if its result is not needed.
        """
        own, Z, cluster = self.mixture, np.ascontiguousarray(Z, np.float32), self.cluster
        if cluster is None:
            cluster = np.arange(own.n_components, dtype=np.int32)
        is_known = Z[:, self.absent] == 0.0 if self.absent.size else ~np.isnan(Z[:, self.numbers])
        order, starts, present, _ = Patterns.of(is_known)
        labels, densities = np.empty(n_labels, np.int32), np.empty((n_densities, 2))
        shares = np.empty((n_shares, int(cluster.max()) + 1), np.float32)
        label_rows(
            Z, self.numbers, self.levels, order, starts, present, np.log(own.weights), own.means,
            own.covariances, np.log(own.chances), own.expected_log_chances, own.first_level,
            own.n_levels, cluster, labels, shares, densities,
        )  # fmt: skip
        return labels, shares, densities
