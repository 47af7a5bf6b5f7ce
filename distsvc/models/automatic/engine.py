"""The steps of the default algorithm, for the estimator and for jobs.

1. `model_columns` models the columns of the pilot, a random sample of rows. If columns need no
   models (`stays_as_stored`), the next steps use them as stored.
2. `set_pilot` centres the pilot. If columns stay as stored, the level trees of the columns learn.
3. `learn_graph` and `learn_mixtures` fit the views that are needed.
4. `choose` compares the views (modules `modelled_views` and `stored_views`) and makes the rule that
   labels all rows.

A run that continues an earlier run keeps the earlier clusters unless others are clearly better.
Otherwise answers that are nearly equally good would alternate from night to night.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from distsvc.inputs.mixed import MOST_LEVELS
from distsvc.job.parameters import check_parameters, completed
from distsvc.kernels.population import SIGNAL_SHARE
from distsvc.models.automatic.modelled_rows import ModelledRows
from distsvc.models.automatic.modelled_views import ModelledViews
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.automatic.proposals import GRAPH
from distsvc.models.automatic.stored_views import StoredViews
from distsvc.models.automatic.views import ViewAnswer
from distsvc.models.columns.maps import GivenColumn
from distsvc.models.columns.model import ZERO_INFLATED, ColumnModel
from distsvc.models.engine import Engine
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.rows import sampling
from distsvc.models.rows.min_cluster_size import FLAT, few_points
from distsvc.models.rows.principal_components import components_above_noise
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.level_sets import LevelSets

MAX_MIXED = 40
"""Maximum number of columns in a mixture. More columns are replaced by principal components.

The time to describe populations grows with the square of this number.
"""

MAX_MODELLED = 1_000
"""Maximum number of columns to model in a table without categories and missing values.

Fitting the model of a column takes some milliseconds.
"""

CLEAR = 1.0
"""Minimum score of the best partition by level trees of the columns that needs no graph."""

SAME_LENGTH = 1e-2
"""Maximum range of the squared norms of normalised rows, relative to the variance of the rows."""

MODELLED_KINDS = ("binary", "category", "ordinal", ZERO_INFLATED)
"""Kinds of columns in the job file that need a model; other kinds are numbers as stored."""


def stays_as_stored(X: np.ndarray, nominal: np.ndarray) -> bool:
    """Return True if the columns of rows X (m, d) are used as stored, without models.

    `nominal` (d,) bool marks categories. Tables with a category or a missing value (NaN) are always
    modelled. Other tables stay as stored in these cases:

    - at most `FLAT` columns, and one of them has more than `MOST_LEVELS` different values
    - nearly all rows lie on a few points, which are not all combinations of the columns' values
    - rows that all have nearly the same norm
    - more than `MAX_MIXED` columns that are signals, such as pixels or embeddings
    - more than `MAX_MODELLED` columns
    """
    if nominal.any() or np.isnan(X).any():
        return False
    points = few_points(X)
    if points is not None and len(points) < np.prod([len(np.unique(x)) for x in points.T]):
        return True
    if X.shape[1] > FLAT:
        squares = (X**2).sum(axis=1)
        variance = float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
        one_length = float(np.ptp(squares)) <= SAME_LENGTH * variance
        if one_length or X.shape[1] > MAX_MODELLED:
            return True
        if X.shape[1] <= MAX_MIXED:
            return False
        axes, share = components_above_noise(X)
        return len(axes) > FLAT and share > SIGNAL_SHARE
    return any(len(np.unique(x)) > MOST_LEVELS for x in X.T)


class AutomaticEngine(Engine):
    """Engine of the default algorithm, which learns the views and chooses the answer."""

    centre: np.ndarray  # (r,) float64: mean of the pilot
    pilot: np.ndarray  # (m, r) float32: centred pilot rows
    tree_parameters: dict[str, Any]  # all parameters of level trees, by name
    modelled: ModelledRows | None = None  # pilot rows as modelled; None if columns stay as stored
    # Set by `choose`:
    answer: ViewAnswer
    rule: Rule

    def __init__(self, parameters: Mapping[str, Any], seed: int):
        check_parameters("auto", parameters)
        self.tree_parameters = completed("support-vector", parameters)
        given = Parameters(**self.tree_parameters)
        self.n_clusters, self.nu = given.n_clusters, given.nu
        self.column_trees = LevelTreeEngine(given, seed)
        self.graph = GraphEngine(given, seed)
        self.notes: list[str] = []
        self.previous: PreviousAnswer | None = None
        self._cuts: dict[int, Rule] = {}

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the ranges of row keys that select the rows from which level trees learn."""
        return self.column_trees.key_ranges(n_rows)

    def go_on_from(self, previous: PreviousAnswer) -> None:
        """Add the previous answer as a proposal. Call this after `set_pilot`, before learning."""
        self.previous = previous
        if self.modelled is None:
            self.column_trees.previous_labels = self.graph.previous_labels = previous.labels

    def model_columns(
        self,
        X: np.ndarray,
        keys: np.ndarray,
        nominal: np.ndarray,
        given: Sequence[GivenColumn] | None = None,
        previous_columns: ColumnModel | None = None,
    ) -> ColumnModel | None:
        """Model the columns of stored pilot rows X (m, d) with keys (m,), if they need models.

        Columns need models if `stays_as_stored` is False, or if a kind or scale in the job file
        (`given`) requires a model. Return None if they need no models or no column varies.
        `nominal` (d,) bool marks columns of category codes. `previous_columns` is the previous
        run's model. If columns are modelled, `learner_rows` converts the pilot for `set_pilot`.
        """
        needs_model = any(
            column.kind in MODELLED_KINDS or column.scale not in (None, "identity")
            for column in given or ()
        )
        if stays_as_stored(X, nominal) and not needs_model:
            return None
        rows = sampling.rows_of(self.column_trees.seed, keys)
        columns = ColumnModel.of(X, nominal, given, previous_columns, rows)
        if not len(columns.layout.latent):
            return None
        if sum(one is not None for one in columns.columns) > MAX_MIXED:
            columns = columns.along_components(X, rows, previous_columns)
        self.modelled = ModelledRows.of(columns, X, rows)
        return columns

    @property
    def columns(self) -> ColumnModel | None:
        """Model of the columns; None if they stay as stored."""
        return None if self.modelled is None else self.modelled.columns

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        if self.modelled is None:
            self.column_trees.set_pilot(pilot, n_rows)
            self.centre, self.pilot = self.column_trees.centre, self.column_trees.pilot
        else:
            self.centre = pilot.mean(axis=0, dtype=np.float64)
            self.pilot = self.centred(pilot)
        self.graph.set_pilot(self.pilot)

    def learner_rows(self, X: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Convert stored rows X (n, d) with keys (n,) to the rows from which views learn.

        The result is X if columns stay as stored. Otherwise each row is replaced by a random draw
        of its r latent variables, the continuous variables by which models describe the columns.
        """
        if self.columns is None:
            return X
        return self.columns.latent(X, sampling.rows_of(self.column_trees.seed, keys))

    def centred(self, X: np.ndarray) -> np.ndarray:
        """Return X (n, r), rows from `learner_rows`, minus the pilot's mean, as float32."""
        return np.ascontiguousarray(X - self.centre, np.float32)

    @property
    def origin(self) -> np.ndarray:
        """Origin (D,) float64, which is subtracted from prepared rows before `rule` labels them."""
        return self.centre if self.columns is None else self.columns.origin(self.centre)

    @property
    def uses_graph(self) -> bool:
        """Whether a graph is needed. Modelled columns always need a graph.

        For stored columns, the level trees of the columns must have learned. They need no graph in
        three cases: at most `FLAT` columns, rows on a few points, or a score of at least `CLEAR`.
        """
        if self.modelled is not None:
            return True
        flat = self.pilot.shape[1] <= FLAT or self.column_trees.ensemble.ties
        return not flat and self.column_trees.levels.blind.standing < CLEAR

    def learn_graph(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Learn the graph of rows X (m, r) from `learner_rows`, sorted by keys (m,)."""
        self.graph.place(self.centred(X), keys)
        self.graph.learn()

    @cached_property
    def views(self) -> StoredViews | ModelledViews:
        """The views. If columns stay as stored, the level trees and a graph in use have learned."""
        if self.modelled is None:
            return StoredViews(self.column_trees, self.graph)
        return ModelledViews(
            self.modelled, self.pilot, self.origin, self.graph, self.nu, self.previous
        )

    def learn_mixtures(self) -> None:
        """Fit mixtures now if columns are modelled; otherwise `choose` fits them."""
        if self.modelled is not None:
            assert isinstance(self.views, ModelledViews)
            self.views.mixtures(self.n_clusters)

    def choose(self) -> None:
        """Choose the answer among the views, which have learned; set `answer` and `rule`."""
        self.answer = self.views.choose(self.n_clusters)
        self.rule = self.answer.make()
        notes, found = [*self.answer.notes], self.rule.n_clusters
        if self.n_clusters is not None and found < self.n_clusters:
            notes.append(f"no model separates {self.n_clusters} clusters: {found} were found")
        self.notes[:] = dict.fromkeys([*self.notes, *notes])

    def cut(self, n_clusters: int) -> Rule:
        """Return the rule that a fit with this `n_clusters` would choose. Rules are cached."""
        if n_clusters not in self._cuts:
            self._cuts[n_clusters] = self.views.cut(n_clusters)
        return self._cuts[n_clusters]

    def numbers(self, levels: LevelSets) -> np.ndarray | None:
        """Convert clusters of `levels` to labels (k,) of `rule`; None if cluster c has label c."""
        return self.graph.numbers(levels) if self.answer.view == GRAPH else None

    def fitted_facts(self) -> Facts:
        answer = self.answer
        facts: Facts = {}
        if answer.levels is not None:
            facts = (self.graph.tree if answer.view == GRAPH else self.column_trees).fitted_facts()
        facts |= {"n_clusters": self.rule.n_clusters, "chosen": answer.view}
        facts |= {"support": answer.support, "agreement": answer.agreement}
        if self.previous is not None:
            facts["followed"] = answer.followed
        return facts if answer.likeness is None else facts | {"likeness": answer.likeness}
