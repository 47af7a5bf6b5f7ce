"""Base classes of estimators that read their rows in several passes.

A fit reads the rows as often as a job does. The first pass draws the pilot and the sample by the
rows' keys (`distsvc.models.rows.sampling`). Some algorithms then read all rows again. The last pass
labels the rows. A table and a NumPy array of its rows give exactly the same results.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from distsvc.errors import UnusableRowsError
from distsvc.inputs.given import ArrayRows, opened
from distsvc.inputs.rows import Ends, Input, OfRows, Reading, block_rows, cut, readable_again
from distsvc.job.parameters import COUNT, VERBOSE, clusters_wanted
from distsvc.models.bases.interface import DecidesRows, ScoresRows
from distsvc.models.bases.validation import LazyValues, TableLike, check_rows, reject_weights
from distsvc.models.bases.values import DescribesRows, Values
from distsvc.models.rows import sampling
from distsvc.models.rows.numbering import few_clusters_notes
from distsvc.models.rows.sampling import PILOT_ROWS, Ranges
from distsvc.models.rows.scaling import check_length
from distsvc.models.rows.threads import map_blocks, map_threads


class CheckedRows(ArrayRows):
    """Input of an array that scikit-learn has checked."""

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield blocks without a check for finite values, since some estimators take NaN."""
        return self._joined(block_rows(self.n_features))


def open_rows(estimator: BaseEstimator, X: TableLike, *, reset: bool) -> Input | None:
    """Check the columns of X, and return its reader; None if X is an array in memory."""
    source = opened(X)
    if source is not None:
        validate_data(estimator, source.header, reset=reset, skip_check_array=True)
    return source


def map_rows(
    estimator: BaseEstimator, X: TableLike, of_rows: OfRows, n_jobs: int | None = 1
) -> LazyValues:
    """Check rows X (n, d), and return ``of_rows(X)``, (n,) or (n, k), lazy if X is lazy."""
    if isinstance(estimator, ClusterEstimator):
        X = estimator._as_numbers(X, reset=False)
    source = open_rows(estimator, X, reset=False)
    if source is not None:
        return source.map(of_rows)
    X = check_rows(estimator, X, reset=False, **getattr(estimator, "_allowed", {}))
    # A quarter of a block stays in cache while it is centred.
    parts = cut(X, max(block_rows(X.shape[1]) // 4, 1))
    return of_rows.answer.joined(map_threads(of_rows, parts, n_jobs))


class ClusterEstimator(ScoresRows, ClusterMixin, DescribesRows):
    """Base of estimators that read rows in passes and learn a rule, which labels any row."""

    verbose: int
    notes_: list[str]
    labels_: LazyValues
    _engine: Any
    _rows: np.ndarray | None = None  # prepared rows of `fit`, for `cut`; None if not in memory

    @reject_weights
    def fit(self, X: TableLike, y: object = None) -> Self:
        X = self._as_numbers(X, reset=True)
        source = open_rows(self, X, reset=True)
        if source is None:
            if isinstance(X, np.ndarray) and X.ndim == 2:
                ends = Ends()
                ends.add_array(X)
                ends.check("X", None)
            X = check_rows(self, X, ensure_min_samples=2, **self._allowed)
            source = CheckedRows(X, Reading()).opened()
        with readable_again(source) as source:
            self._fit_source(source)
        if isinstance(self.labels_, np.ndarray):
            # A cluster has no rows if others have larger kernel sums everywhere in it.
            k = self._values("label").rule.n_clusters
            sizes = np.bincount(self.labels_[self.labels_ >= 0], minlength=k)
            self.n_clusters_ = int(sizes.astype(bool).sum())
            wanted = clusters_wanted(self.get_params())
            self.notes_ = [*self.notes_, *few_clusters_notes(sizes, wanted)]
        for note in self.notes_:
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    @cached_property
    def n_clusters_(self) -> int:
        """Number of clusters; set by `fit`, or computed on first access after `partial_fit`."""
        self._settle()
        return int(vars(self)["n_clusters_"])

    def _as_numbers(self, X: TableLike, reset: bool) -> TableLike:
        return X

    @property
    def _allowed(self) -> dict[str, str]:
        """Further options for scikit-learn's `validate_data`."""
        return {}

    @abstractmethod
    def _fit_source(self, source: Input) -> None:
        """Check the parameters, and fit rows in several passes."""

    def predict(self, X: TableLike) -> LazyValues:
        self._settle()
        return map_rows(self, X, self._values("label"), self.n_jobs)

    def predict_proba(self, X: TableLike) -> LazyValues:
        """Return the share of every row in each cluster. The shares of a row add up to 1.

        Shares compare clusters with each other, so a row outside all clusters has shares, too.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, as `fit` takes them.

        Returns
        -------
        shares : ndarray of shape (n, k), float32
            As lazy as X is.

        Examples
        --------
        >>> from distsvc import SupportVectorClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = SupportVectorClustering(random_state=0).fit(X)
        >>> model.predict_proba([[0.1, 0.2], [3.0, 0.0]]).max(axis=1).round(1)
        array([1. , 0.6], dtype=float32)

        """
        self._settle()
        return map_rows(self, X, self._values("share"), self.n_jobs)

    def cut(self, n_clusters: int, X: TableLike = None) -> LazyValues:
        COUNT.check("n_clusters", n_clusters)
        self._settle()
        return self._labels_by(self._values_of_cut(int(n_clusters)), X, n_clusters)

    def _labels_by(self, values: Values, X: TableLike, wanted: int | None = None) -> LazyValues:
        """Return the labels of rows X, or of the rows of `fit` if X is None.

        Warn if there are fewer than `wanted` clusters.
        """
        found, words = values.rule.n_clusters, "the fit has only {}"
        if X is not None:
            labels = map_rows(self, X, values, self.n_jobs)
        elif self._rows is None:
            raise ValueError("cut needs X: fit stores no rows that it reads block by block")
        else:
            labels = map_blocks(values.of_centred, self._rows, self.n_jobs)
            found, words = len(np.unique(labels[labels >= 0])), "only {} have rows"
        if wanted is not None and found < wanted:
            note = f"{wanted} clusters were asked for, but {words.format(found)}"
            warnings.warn(note, UserWarning, stacklevel=3)
        return labels

    def score_samples(self, X: TableLike) -> LazyValues:
        self._settle()
        return map_rows(self, X, self._values("score"), self.n_jobs)

    def _values_of_cut(self, n_clusters: int) -> Values:
        raise NotImplementedError

    def _values(self, column: str) -> Values:
        return Values(self._engine.rule, self._engine.centre, column)

    def _label_passes(self, passes: "Passes") -> None:
        """Label the rows of `fit`.

        Rows in memory are stored, and their shares and scores are computed when they are needed.
        For other rows, shares and scores are computed in the pass that labels them.
        """
        phases = Phases(self)
        if passes.source.in_memory:
            values = self._values("label")
            self._rows = passes.prepared(values)
            self.labels_ = map_blocks(values.of_centred, self._rows, self.n_jobs)
            self._hold(self._rows)
            phases.ended("labels")
        else:
            columns = "label", "probability", "outlier_score"
            found = passes.values(*map(self._values, columns))
            self.labels_, self.probabilities_, self.outlier_scores_ = found
            phases.ended("labels, shares and scores of the rows")


class OutlierEstimator(DecidesRows, ClusterEstimator):
    """Base of estimators whose clusters have a boundary."""

    def decision_function(self, X: TableLike) -> LazyValues:
        self._settle()
        return map_rows(self, X, self._values("score"), self.n_jobs)


class Phases:
    """Prints a line for each phase of an estimator's fit, unless its `verbose` is 0."""

    def __init__(self, estimator: BaseEstimator):
        self._name, self._verbose = type(estimator).__name__, estimator.verbose
        VERBOSE.check("verbose", self._verbose)
        self._began = perf_counter()

    def ended(self, phase: str) -> float:
        """Print the phase and its duration if verbose; return the present time."""
        now = perf_counter()
        if self._verbose:
            print(f"[{self._name}] {phase}: {now - self._began:.1f} s", flush=True)
        self._began = now
        return now


class Passes:
    """Reads the rows of one fit several times; `seed` determines each row's random key."""

    # Set by `draw`:
    n_rows: int
    pilot: np.ndarray  # (m, d): at most PILOT_ROWS rows with the lowest keys, by ascending key
    pilot_keys: np.ndarray  # (m,) uint64

    def __init__(self, source: Input, seed: int):
        self.source, self.seed = source, seed

    def draw(self, key_ranges: Callable[[int], Ranges]) -> tuple[np.ndarray, np.ndarray]:
        """Read all rows once; return the sample's rows (s, d) and keys (s,), sorted by key.

        The sample consists of the rows whose keys lie in the ranges ``key_ranges(n_rows)``.
        """
        held, ends = _LowestKeys(self.source, key_ranges), self.source.watched()
        for keys, block in self._blocks():
            held.add(block, keys)
        ends.check(self.source.asked.name, self.source.names)
        if held.n_rows < 2:
            raise UnusableRowsError(
                f"Found array with {held.n_rows} sample(s) while a minimum of 2 is required"
            )
        X, keys = held.ordered()
        self.n_rows = held.n_rows
        self.pilot, self.pilot_keys = X[:PILOT_ROWS].copy(), keys[:PILOT_ROWS].copy()
        ranges = key_ranges(self.n_rows)
        sample = sampling.slice_by_key(keys, ranges[0][0], ranges[-1][1])
        return X[sample], keys[sample]

    def again(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows (n, d) and keys (n,) of all blocks in another pass.

        Raise UnusableRowsError if rows or their order differ from the first pass.
        """
        n_rows = 0
        for keys, block in self._blocks():
            self._compare(keys, block, n_rows)
            n_rows += len(block)
            if n_rows <= self.n_rows:
                yield block, keys
        if n_rows != self.n_rows:
            raise _changed(
                f"had {self.n_rows} rows at the first reading, {n_rows} at a later reading"
            )

    def values(self, *columns: OfRows) -> list[LazyValues]:
        """Read all rows again; return the values (n,) that each function in `columns` computes.

        Values are lazy if the rows are lazy. Raise UnusableRowsError if the rows have changed.
        """
        if self.source.lazy:
            return [self.source.map(of_rows) for of_rows in columns]
        found, done = [np.empty(self.n_rows, of.answer.dtype) for of in columns], 0
        for block, _ in self.again():
            for values, of_rows in zip(found, columns, strict=True):
                values[done : done + len(block)] = of_rows(block)
            done += len(block)
        return found

    def prepared(self, values: Values) -> np.ndarray:
        """Read all rows again; return them as `values.prepared` converts them, (n, D) float32."""
        Z, done = np.empty((self.n_rows, len(values.centre)), np.float32), 0
        for block, _ in self.again():
            Z[done : done + len(block)] = values.prepared(block)
            done += len(block)
        return Z

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        first = 0
        for block in self.source.blocks():
            check_length(block)
            rows = np.arange(first, first + len(block))
            yield sampling.row_keys(self.seed, rows), block
            first += len(block)

    def _compare(self, keys: np.ndarray, block: np.ndarray, first: int) -> None:
        """Raise UnusableRowsError if a pilot row of the block differs from the first pass."""
        known = np.flatnonzero(keys[: max(self.n_rows - first, 0)] <= self.pilot_keys[-1])
        places = np.searchsorted(self.pilot_keys, keys[known])
        then, now = self.pilot[places], block[known]
        other = ((now != then) & ~(np.isnan(now) & np.isnan(then))).any(axis=1)
        if other.any():
            row = first + int(known[other.argmax()])
            raise _changed(f"has a row {row} that differs between two readings")


class _LowestKeys:
    """Collects the rows with the lowest keys: all rows of the sample and of the pilot."""

    def __init__(self, source: Input, key_ranges: Callable[[int], Ranges]):
        self.key_ranges, self.n_rows, self.limit = key_ranges, 0, 2**64
        self.rows = [np.empty((0, source.n_features), source.dtype)]
        self.keys = [np.empty(0, np.uint64)]
        self._most, self._n = 2 * PILOT_ROWS, 0

    def add(self, X: np.ndarray, keys: np.ndarray) -> None:
        self.n_rows += len(X)
        self.rows.append(X)
        self.keys.append(keys)
        self._keep(-1)
        self._n += len(self.keys[-1])
        if self._n > self._most:
            self._lower()

    def ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows (s, d) and keys (s,), sorted by key, and drop the collected arrays."""
        self._lower()
        return sampling.in_order_of_keys(self.rows, self.keys)

    def _lower(self) -> None:
        """Drop the rows that neither sample nor pilot can need, and lower the `limit` of keys."""
        keys = np.concatenate(self.keys)
        pilot = int(np.partition(keys, PILOT_ROWS)[PILOT_ROWS]) if len(keys) > PILOT_ROWS else 2**64
        self.limit = max(self.key_ranges(max(self.n_rows, 1))[-1][1], pilot)
        for number in range(len(self.keys)):
            self._keep(number)
        self._n = sum(map(len, self.keys))
        # Up to a quarter more rows than the sample are in memory before the next call.
        self._most = max(int(1.25 * self._n), 2 * PILOT_ROWS)

    def _keep(self, number: int) -> None:
        if self.limit < 2**64:
            kept = self.keys[number] < np.uint64(self.limit)
            self.rows[number] = self.rows[number][kept]
            self.keys[number] = self.keys[number][kept]


def _changed(what: str) -> UnusableRowsError:
    return UnusableRowsError(
        f"X {what}: expected the same rows in the same order at each reading (for a query: add "
        "ORDER BY, or write the query's result to a file first)"
    )
