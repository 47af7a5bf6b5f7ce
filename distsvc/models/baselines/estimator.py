"""Base classes of the baselines."""

import warnings
from typing import Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from distsvc.errors import ParameterError
from distsvc.job.parameters import COUNT, RandomState, check_parameters, clusters_wanted
from distsvc.models.baselines.rules import Centres, Nodes, Splits, by_size, leaves_by_size
from distsvc.models.bases.interface import StreamEstimator
from distsvc.models.bases.validation import TableLike, check_rows, reject_weights
from distsvc.models.bases.values import DescribesRows, Values
from distsvc.models.rows.numbering import few_clusters_notes
from distsvc.models.rows.sampling import row_keys, seed_of
from distsvc.models.rows.threads import map_blocks
from distsvc.models.rules.rule import Rule


class Baseline(ClusterMixin, DescribesRows):
    """Base of all baselines. `_rule` returns the rule of a fit, which labels any row."""

    algorithm: str
    labels_: np.ndarray
    _min_rows: int = 1
    _keeps_rows: bool = True  # whether `fit` stores its rows for lazy attributes
    _in_order: bool = False  # whether rows come in the order of their keys, as in a job

    @reject_weights
    def fit(self, X: TableLike, y: object = None) -> Self:
        X = check_rows(self, X, ensure_min_samples=self._min_rows)
        check_parameters(self.algorithm, self.get_params())
        self._fit_rows(X)
        sizes = np.bincount(self.labels_, minlength=self._rule().n_clusters)
        for note in few_clusters_notes(sizes, clusters_wanted(self.get_params())):
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def predict(self, X: TableLike) -> np.ndarray:
        self._settle()
        return self._labels(check_rows(self, X, reset=False))

    def cut(self, n_clusters: int, X: TableLike = None) -> np.ndarray:
        COUNT.check("n_clusters", n_clusters)
        known = getattr(self, "labels_", None)
        labels = known if X is None else self.predict(X)
        if labels is None:
            self._settle()
            raise ValueError("cut needs X: partial_fit stores no rows")
        groups = self._groups(int(n_clusters))
        if groups.max() + 1 < n_clusters:
            warnings.warn(
                f"{n_clusters} clusters were asked for, but the fit has only {groups.max() + 1}",
                UserWarning,
                stacklevel=2,
            )
        rows = np.zeros(len(groups))
        if known is not None:
            rows = np.bincount(known, minlength=len(groups)).astype(np.float64)
        return by_size(groups, rows)[labels]

    def _settle(self) -> None:
        check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_") or hasattr(self, "tree_")

    def _fit_rows(self, X: np.ndarray) -> None:
        raise NotImplementedError

    def _labels(self, X: np.ndarray) -> np.ndarray:
        X = np.ascontiguousarray(X, np.float64)
        return map_blocks(self._rule().labels, X, self.n_jobs)

    def _order(self, n_rows: int, seed: int) -> np.ndarray:
        """Return the row numbers (n,) in the random order in which rows are learned."""
        rows = np.arange(n_rows)
        return rows if self._in_order else np.argsort(row_keys(seed, rows))

    def _groups(self, k: int) -> np.ndarray:
        """Merge the clusters into k groups; return each cluster's group (n_clusters,) int64."""
        raise NotImplementedError

    def _hold_rows(self, X: np.ndarray) -> None:
        if self._keeps_rows:
            self._hold(np.array(X, np.float64, order="C"))

    def _values(self, column: str) -> Values:
        return Values(self._rule(), np.zeros(self.n_features_in_), column)

    def _rule(self) -> Rule:
        raise NotImplementedError


class CentreBaseline(Baseline):
    """A baseline in which every row belongs to the cluster with the nearest centre."""

    n_clusters: int
    random_state: RandomState
    cluster_centers_: np.ndarray

    def _fit_rows(self, X: np.ndarray) -> None:
        if len(X) < self.n_clusters:
            raise ParameterError(f"n_samples={len(X)} should be >= n_clusters={self.n_clusters}")
        X = np.ascontiguousarray(X, np.float64)
        seed = seed_of(self.random_state)
        self._fit_centres(X, X[self._order(len(X), seed)], seed)

    def _fit_centres(self, X: np.ndarray, shuffled: np.ndarray, seed: int) -> None:
        """Fit centres to `shuffled`, the rows of X (n, d) in random order. Then label X itself."""
        raise NotImplementedError

    def _groups(self, k: int) -> np.ndarray:
        return self._rule().groups(self._sizes(), k)

    def _sizes(self) -> np.ndarray:
        """Return the size (k,) of each cluster, by default its number of rows."""
        return np.bincount(self.labels_, minlength=len(self.cluster_centers_))

    def _rule(self) -> Centres:
        return Centres(self.cluster_centers_)


class StreamBaseline(StreamEstimator, Baseline):
    """A baseline that also learns from a stream of blocks."""

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        first = not hasattr(self, "tree_")
        X = check_rows(self, X, reset=first)
        if first:
            check_parameters(self.algorithm, self.get_params())
            self._begin(X)
        self._forget()
        self._add(X)
        return self

    def _begin(self, X: np.ndarray) -> None:
        """Set the state before the first block X (n, d) is learned."""
        raise NotImplementedError

    def _add(self, X: np.ndarray) -> None:
        raise NotImplementedError


class TreeBaseline(Baseline):
    """A baseline whose clusters are the leaves of a tree."""

    directions_: np.ndarray
    thresholds_: np.ndarray
    children_: np.ndarray
    clusters_: np.ndarray
    centre_: np.ndarray
    n_clusters_: int
    _spreads: np.ndarray

    def _take_tree(self, nodes: Nodes, counts: np.ndarray, spreads: np.ndarray) -> None:
        """Store a tree. Its leaves become clusters; cluster 0 has the highest of the `counts`."""
        self.directions_, self.thresholds_, self.children_ = nodes
        self.clusters_, self._spreads = leaves_by_size(self.children_, counts), spreads
        self.n_clusters_ = int(self.clusters_.max()) + 1

    def _groups(self, k: int) -> np.ndarray:
        return self._rule().groups(k)

    def _rule(self) -> Splits:
        nodes = self.directions_, self.thresholds_, self.children_
        return Splits(*nodes, self.clusters_, self.centre_, self._spreads)
