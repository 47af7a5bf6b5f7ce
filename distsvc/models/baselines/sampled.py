"""The fit of a baseline in a job: on a sample, in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from distsvc.models.baselines.rules import Centres, Splits
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import State
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule

if TYPE_CHECKING:
    from distsvc.models.baselines.estimator import Baseline

MAX_FITTED_ROWS = 200_000
"""Approximate number of rows, drawn at random, on which a job fits a baseline."""

FITTED = ("inertia_", "objective_", "n_iter_")
"""Attributes of some of the estimators that the report shows."""


class SampledEngine:
    """Fits a baseline on a sample; its rule labels the table.

    On the sample's rows, in the order of their keys, `fit` gives the same clusters and numbers.
    The parameters of the unfitted `estimator` are in range.
    """

    n_rows: int  # of the table
    centre: np.ndarray  # (d,) float64, the rows' origin
    rule: Rule  # set by `fit_sample`

    def __init__(self, estimator: Baseline):
        self.estimator = estimator
        self.n_features = 1
        self.notes: list[str] = []
        self._found: dict[str, float] = {}

    def set_width(self, n_features: int) -> None:
        """Set the number of columns of the table; the sample has fewer rows if they are wide."""
        self.n_features = n_features

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        most = sampling.most_rows(self.n_features)
        return sampling.key_blocks(n_rows, min(n_rows, MAX_FITTED_ROWS, most))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the origin to 0: `fit` centres the rows itself."""
        self.n_rows = n_rows
        self.centre = np.zeros(pilot.shape[1])

    def fit_sample(self, X: np.ndarray) -> Rule:
        """Fit the rows X (n, d) float64 of the sample and return the rule; warnings become notes.

        It runs on one thread: the sums of several threads have no fixed order, and labels would
        depend on it.
        """
        self.estimator._keeps_rows, self.estimator._in_order = False, True
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model = self.estimator.fit(X)
            self.rule = model._rule()
        self.notes += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        found = {name[:-1]: getattr(model, name) for name in FITTED if hasattr(model, name)}
        self._found = {"n_samples": len(model.labels_), **found}
        return self.rule

    def fitted_facts(self) -> Facts:
        n = self._found["n_samples"]
        facts = {"n_clusters": self.rule.n_clusters, "n_samples": n}
        return facts | {"share_sampled": n / self.n_rows} | self._found

    def solved(self) -> State:
        """Return facts, as JSON can store them, and arrays for `restore`."""
        facts = {"form": self.rule.form, "found": self._found, "notes": list(self.notes)}
        return facts | self.rule.facts(), self.rule.arrays()

    def restore(self, facts: Facts, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `solved`; its notes replace the present ones."""
        rule = next(rule for rule in (Centres, Splits) if rule.form == facts["form"])
        self.rule = rule.restored(facts, arrays)
        self._found, self.notes = dict(facts["found"]), list(facts["notes"])
