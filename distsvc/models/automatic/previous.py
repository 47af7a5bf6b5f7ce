"""The previous run's answer for tonight's rows, which the default algorithm proposes again."""

from dataclasses import dataclass, replace

import numpy as np

from distsvc.models.automatic.rule import MixtureRule
from distsvc.models.columns.model import ColumnModel
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.mixture.density import MixtureRows, NormalMixture
from distsvc.models.rules.rule import Rule


@dataclass(frozen=True)
class MixtureStart:
    """Posteriors from which EM starts, so that it continues the previous run's answer."""

    posterior: np.ndarray  # (n, K) float64: the components' posteriors for the first pilot rows
    cluster: np.ndarray  # (K,) int64: cluster of each component
    mixture: NormalMixture | None = None  # prior of EM; None if each cluster is a component


@dataclass(frozen=True)
class PreviousAnswer:
    """The previous run's rule, and its labels of tonight's rows."""

    labels: np.ndarray  # (m,) int32: labels of the pilot's first rows by `rule`
    rule: Rule  # the previous run's rule
    origin: np.ndarray  # (D,) float64: origin of the rows that the rule takes
    columns: ColumnModel | None = None  # models in tonight's column order; None if as stored
    latent: np.ndarray | None = None  # (r,) int64: the prepared columns that are latent variables

    @property
    def by_landmarks(self) -> bool:
        """Whether `rule` labels a row by the nearest landmark, such as a point of the graph."""
        return isinstance(self.rule, LandmarkRule)

    def takes_rows_of(self, columns: ColumnModel) -> bool:
        """Return True if `columns` equal the previous models, so that `rule` can label new rows."""
        return (
            self.columns is not None
            and self.latent is not None
            and self.columns.facts() == columns.facts()
            and np.array_equal(self.columns.tables, columns.tables)
            and np.array_equal(self.latent, columns.layout.latent)
        )

    def start(self, rows: MixtureRows, columns: ColumnModel) -> MixtureStart:
        """Return the start from which a mixture is fitted to `rows`, the first n <= m pilot rows.

        The previous mixture is continued if there was one and if it has the same columns, or
        principal components. Otherwise each previous cluster becomes a component, and posteriors
        are 0 or 1.
        """
        rule, names = self.rule, ("numbers", "absent", "levels", "n_levels")
        axes = None if self.columns is None else self.columns.axes
        if (
            isinstance(rule, MixtureRule)
            and all(
                np.array_equal(getattr(rule, name), getattr(columns.layout, name)) for name in names
            )
            and np.array_equal(axes, columns.axes)  # type: ignore[arg-type]
        ):
            mixture = replace(rule.mixture, means=rule.means + self.origin[rule.numbers])
            return MixtureStart(mixture.posterior(rows), rule.cluster.astype(np.int64), mixture)
        labels = np.unique(self.labels[: len(rows)], return_inverse=True)[1]
        return MixtureStart(np.eye(int(labels.max()) + 1)[labels], np.arange(labels.max() + 1))
