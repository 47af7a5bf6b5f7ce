"""What the baselines have in common as the model of a job: one sample, fitted in memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from threadpoolctl import threadpool_limits

from distsvc.models import sampling
from distsvc.models.baselines.rules import Rule
from distsvc.parameters import check_parameters

SAMPLE_ROWS = 200_000
"""Rows, about, that a job fits a baseline on, drawn at random; all rows of a smaller table."""

FITTED = ("inertia_", "objective_", "n_iter_")


class Baseline(ClusterMixin, BaseEstimator):
    """An estimator that a job fits on a sample, in memory, and labels a table with by its rule.

    The clusters are those of `fit` on the sample's rows, in the order of their keys, and are
    numbered by their sizes there.
    """

    algorithm: str
    notes_: list[str]
    centre_: np.ndarray

    @property
    def rule(self) -> Rule:
        """What labels rows, after `fit`; cluster 0 has most rows."""
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Raise ParameterError for a parameter that is not allowed."""
        check_parameters(self.algorithm, self.get_params())

    def begin(self) -> None:
        """Check the parameters before any row is read."""
        self.check_parameters()
        self.notes_ = []

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        """Return the key ranges of the sample of a table of so many rows."""
        return sampling.key_blocks(n_rows, min(n_rows, SAMPLE_ROWS))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Take the table's rows as they are: `fit` centres them where it wants."""
        self.n_rows_ = n_rows
        self.centre_ = np.zeros(pilot.shape[1])

    def fit_sample(self, X: np.ndarray) -> Rule:
        """Fit the rows X (n, d) float64 of the sample and return the rule; warnings become notes.

        On one thread: sums of several have no fixed order, and labels would differ in a last bit.
        """
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            self.fit(X)
        self.notes_ += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        return self.rule

    def fitted_facts(self) -> dict[str, Any]:
        """Return the numbers that the fit arrived at."""
        n = len(self.labels_)
        facts = {"n_clusters": self.rule.n_clusters, "n_samples": n}
        more = {name[:-1]: getattr(self, name) for name in FITTED if hasattr(self, name)}
        return facts | {"share_sampled": n / self.n_rows_} | more
