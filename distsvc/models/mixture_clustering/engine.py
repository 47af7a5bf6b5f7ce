"""The steps of the algorithm "mixture" on the pilot (a sample of rows), for estimators and jobs.

`model_columns` fits a model of the columns, and `set_pilot` sets the pilot. `learn` chooses the
number of components, and sets the rule that labels rows. `add` refines the mixture by further rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from distsvc.job.parameters import Given, check_parameters
from distsvc.models.columns.maps import GivenColumn
from distsvc.models.columns.model import ColumnModel
from distsvc.models.engine import Engine
from distsvc.models.mixture.density import MixtureRows, MixtureSums, NormalMixture, Prior, run_em
from distsvc.models.mixture.labeller import MixtureLabeller
from distsvc.models.mixture.search import MAX_WANTED, search
from distsvc.models.mixture_clustering.rule import ComponentRule
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import State
from distsvc.models.rows.sampling import PILOT_ROWS, Ranges
from distsvc.models.rules.fields import Facts

MAX_SEARCH_ROWS = 4_000
"""Maximum number of pilot rows used to choose the number of components.

The chosen mixture is then fitted to all pilot rows.
"""

PILOT_STEPS, PILOT_TOLERANCE = 100, 1e-5
"""Maximum EM steps on all pilot rows, and the gain in nats per row below which they end."""


class MixtureEngine(Engine):
    """Fits a mixture to pilot rows for a rule that labels rows."""

    centre: np.ndarray  # (r,) float64: zeros
    columns: ColumnModel | None = None  # model of the stored columns; None if rows are only scaled
    n_rows: int  # number of rows in the table and in all calls of `add`
    # Set by `learn`:
    rule: ComponentRule
    mixture: NormalMixture

    def __init__(self, parameters: Given, seed: int):
        check_parameters("mixture", parameters)
        self.n_components: int | None = parameters["n_components"]
        self.n_jobs: int | None = parameters["n_jobs"]
        self.seed = seed
        self.notes: list[str] = []
        self._sums: MixtureSums | None = None

    def key_ranges(self, n_rows: int) -> Ranges:
        return sampling.key_blocks(n_rows, min(n_rows, PILOT_ROWS))

    def model_columns(
        self,
        X: np.ndarray,
        keys: np.ndarray,
        nominal: np.ndarray,
        given: Sequence[GivenColumn] | None = None,
        previous_columns: ColumnModel | None = None,
    ) -> ColumnModel:
        """Fit the model of the columns to stored pilot rows X (m, d) with keys (m,).

        `nominal` (d,) bool marks columns of category codes. `given` are kinds and scales of columns
        from the job file, and `previous_columns` is the previous run's model.
        """
        rows = sampling.rows_of(self.seed, keys)
        columns = ColumnModel.of(X, nominal, given, previous_columns, rows)
        layout = columns.layout
        self.columns, self.places = columns, (layout.numbers, layout.absent, layout.levels)
        self._rows = layout.mixed(columns.prepared(X, rows))
        self._prepared = columns.prepared(X).astype(np.float32)
        return columns

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the pilot rows (m, r) of a table of `n_rows`.

        After `model_columns`, these rows are draws of the columns' latent variables. Without a
        model of the columns, they are the scaled columns.
        """
        self.centre, self._latent, self.n_rows = np.zeros(pilot.shape[1]), pilot, n_rows
        if self.columns is None:
            none = np.zeros(0, np.int64)
            self.places = np.arange(pilot.shape[1]), none, none
            self._rows = MixtureRows(pilot, np.zeros((len(pilot), 0), np.int32), none)
            self._prepared = pilot.astype(np.float32)

    @property
    def origin(self) -> np.ndarray:
        return self.centre if self.columns is None else self.columns.origin(self.centre)

    def learn(self) -> None:
        """Choose the number of components unless it is given; set `mixture` and `rule`."""
        self.mixture, self.rule = self.fit_components(self.n_components)
        n = len(self._rows)
        likelihood = float(self.mixture.likelihoods(self._rows).sum())
        bic = likelihood - 0.5 * self.mixture.n_parameters * float(np.log(n))
        self._facts: Facts = {
            "n_clusters": self.rule.n_clusters,
            "covariances": self.mixture.shape,
            "n_parameters": self.mixture.n_parameters,
            "log_likelihood": likelihood / n,
            "bic": bic / n,
            "n_samples": n,
        }
        found = self.rule.n_clusters
        if self.n_components is not None and found != self.n_components:
            reason = "the sample has rows for only"
            if found == MAX_WANTED:
                reason = "the maximum is"
            self.notes.append(f"n_components = {self.n_components}, but {reason} {found}")

    def fit_components(self, n_components: int | None) -> tuple[NormalMixture, ComponentRule]:
        """Return a mixture of `n_components`, and its rule; if None, the BIC chooses the number.

        There are fewer components if the rows are too few.
        """
        m = min(len(self._rows), MAX_SEARCH_ROWS)
        first = self._rows.take(np.arange(m))
        found = search(first, self._latent[:m], n_components, self.n_jobs)
        fits = [found.best]
        if n_components is not None:  # rows may be too few for so many
            fits = [fit for fit in found.best_of_each if fit.mixture.n_components <= n_components]
        prior = Prior.of(self._rows)
        mixture, _ = run_em(self._rows, fits[-1].mixture, prior, PILOT_STEPS, PILOT_TOLERANCE)
        posterior = MixtureLabeller(mixture, *self.places).shares(self._prepared)
        sizes = np.bincount(posterior.argmax(axis=1), minlength=mixture.n_components)
        mixture = mixture.ordered(np.argsort(-sizes, kind="stable"))
        return mixture, ComponentRule.of(mixture, self.places, self._prepared)

    def add(self, X: np.ndarray) -> None:
        """Refine the mixture by further stored rows X (n, d); column models don't change.

        The sums of X, weighted by posteriors, are added to the sums of all earlier rows. They give
        the new mixture: incremental EM (Neal and Hinton 1998).
        """
        assert self.columns is not None
        numbers = np.arange(self.n_rows, self.n_rows + len(X))
        rows = self.columns.layout.mixed(self.columns.prepared(X, numbers))
        if self._sums is None:
            self._sums = self.mixture.expectation(self._rows)
        self._sums = self._sums.plus(self.mixture.expectation(rows))
        self.n_rows += len(X)
        prior = Prior.of(self._rows)
        self.mixture = NormalMixture.of(self._sums, rows.n_levels, prior, self.mixture.axes)
        self.rule = ComponentRule.of(self.mixture, self.places, self._prepared)

    def fitted_facts(self) -> Facts:
        return self._facts

    def solved(self) -> State:
        return {"found": self._facts, "notes": self.notes}, self.rule.arrays()

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.rule = ComponentRule.restored(facts, arrays)
        self._facts, self.notes = dict(facts["found"]), list(facts["notes"])
