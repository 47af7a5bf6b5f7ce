"""The fit of a baseline in a job: on a sample, in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from distsvc.models.baselines.rules import Centres, Splits
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint, State
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule

if TYPE_CHECKING:
    from distsvc.models.baselines.estimator import Baseline

MAX_FITTED_ROWS = 200_000
"""Rows, about, that a job fits a baseline on, drawn at random; all rows of a smaller table."""

FITTED = ("inertia_", "objective_", "n_iter_")
"""Numbers that some of the estimators find."""


class SampledEngine:
    """Fits a baseline on a sample; a table is labelled by its rule.

    The clusters are those of `fit` on the sample's rows, in the order of their keys, and are
    numbered by their sizes there. The `estimator` is not fitted yet, its parameters in range.
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
        """Say how many columns the table has: of wide rows the sample has fewer."""
        self.n_features = n_features

    def key_ranges(self, n_rows: int) -> list[tuple[int, int]]:
        """Return the key ranges of the sample of a table of so many rows."""
        most = sampling.most_rows(self.n_features)
        return sampling.key_blocks(n_rows, min(n_rows, MAX_FITTED_ROWS, most))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Take the table's rows as they are: `fit` centres them where it wants."""
        self.n_rows = n_rows
        self.centre = np.zeros(pilot.shape[1])

    def fit_sample(self, X: np.ndarray, checkpoint: Checkpoint = NO_CHECKPOINT) -> Rule:
        """Fit the rows X (n, d) float64 of the sample and return the rule; warnings become notes.

        On one thread: sums of several have no fixed order, and labels would differ in a last bit.
        """
        self.estimator._checkpoint, self.estimator._keeps_rows = checkpoint, False
        self.estimator._in_order = True
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model = self.estimator.fit(X)
            self.rule = model._rule()
        self.notes += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        found = {name[:-1]: getattr(model, name) for name in FITTED if hasattr(model, name)}
        self._found = {"n_samples": len(model.labels_), **found}
        return self.rule

    def fitted_facts(self) -> Facts:
        """Return the numbers that the fit arrived at."""
        found = dict(self._found)
        n = found.pop("n_samples")
        facts = {"n_clusters": self.rule.n_clusters, "n_samples": n}
        return facts | {"share_sampled": n / self.n_rows} | found

    def solved(self) -> State:
        """Return facts, which JSON can hold, and arrays: what `restore` goes on from."""
        facts = {"form": self.rule.form, "found": self._found, "notes": list(self.notes)}
        return facts | self.rule.facts(), self.rule.arrays()

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Go on as the engine whose `solved` these are; its notes replace those so far."""
        rule = next(rule for rule in (Centres, Splits) if rule.form == facts["form"])
        self.rule = rule.restored(facts, arrays)
        self._found, self.notes = dict(facts["found"]), list(facts["notes"])
