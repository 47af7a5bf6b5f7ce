"""Posteriors and densities of prepared rows in a mixture, without grouping the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distsvc.kernels.mixture import LOG_TWO_PI, label_rows
from distsvc.models.mixture.density import NormalMixture


@dataclass(frozen=True)
class MixtureLabeller:
    """A mixture with factorised covariances, for labelling.

    Attributes
    ----------
    mixture : NormalMixture
    numbers : ndarray of shape (p,), int64
        Columns of prepared rows that hold the numbers; NaN where missing.
    absent : ndarray of shape (p,) or (0,), int64
        Columns that are not 0 where a number is missing, if there are such columns.
    levels : ndarray of shape (q,), int64
        Columns of prepared rows that hold levels; -1 or NaN where missing.
    constants, factors, expected : ndarray of float64
        As `distsvc.kernels.mixture.label_rows` takes them.

    """

    mixture: NormalMixture
    numbers: np.ndarray
    absent: np.ndarray
    levels: np.ndarray
    constants: np.ndarray
    factors: np.ndarray
    expected: np.ndarray

    @classmethod
    def of(
        cls, mixture: NormalMixture, numbers: np.ndarray, absent: np.ndarray, levels: np.ndarray
    ) -> MixtureLabeller:
        """Return the labeller of a mixture for prepared rows with columns at these places."""
        p = mixture.means.shape[1]
        if mixture.covariances.shape[1] == p and p > 1:
            factors = np.linalg.inv(np.linalg.cholesky(mixture.covariances))
            diagonal = np.diagonal(factors, axis1=1, axis2=2)
        else:
            factors = 1.0 / np.sqrt(mixture.covariances)
            diagonal = factors[:, 0]
        constants = np.log(mixture.weights) + np.log(diagonal).sum(axis=1) - 0.5 * p * LOG_TWO_PI
        own = mixture.chances * np.log(mixture.chances)
        expected = np.zeros((len(own), len(mixture.n_levels)))
        for j, (first, n) in enumerate(zip(mixture.first_level, mixture.n_levels, strict=True)):
            expected[:, j] = own[:, first : first + n].sum(axis=1)
        return cls(mixture, numbers, absent, levels, constants, factors, expected)

    def __call__(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return posteriors (n, K) and log densities (n, 2) float64 of prepared rows Z (n, d).

        The first density leaves missing values out. The second counts them by their expected log
        density, so that rows with and without missing values are comparable.
        """
        own = self.mixture
        posterior = np.empty((len(Z), own.n_components))
        densities = np.empty((len(Z), 2))
        label_rows(
            np.ascontiguousarray(Z, np.float32), self.numbers, self.absent, self.levels,
            self.constants, own.means, np.ascontiguousarray(self.factors), np.log(own.chances),
            np.ascontiguousarray(self.expected), own.first_level, own.n_levels,
            posterior, densities,
        )  # fmt: skip
        return posterior, densities
