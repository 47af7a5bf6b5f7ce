"""Methods that cluster a table of mixed columns: peers, and this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pandas as pd

from benchmarks.harness.data import standardised

MAX_LEVELS = 32
MIN_LEVEL_ROWS = 10
"""Levels of a category with a column of their own; the others share one."""
MAX_COMPONENTS = 12
"""Maximum number of components that the mixture chosen by BIC may have."""
MIN_COMPONENT_ROWS = 20
"""Minimum number of rows for each component of a mixture."""

Fit = Callable[[pd.DataFrame, int | None, int], np.ndarray]
"""``fit(frame, n_clusters, seed)`` returns labels (n,) int; noise is -1."""


def one_hot(values: pd.Series) -> np.ndarray:
    """Return indicator columns (n, levels) of a category, whose variances add to 1."""
    text = values.astype(object).where(values.notna(), "(missing)").astype(str)
    counts = text.value_counts()
    frequent = counts[counts >= max(MIN_LEVEL_ROWS, len(text) / 1000)].index[:MAX_LEVELS]
    text = text.where(text.isin(frequent), "(other)")
    columns = np.stack([(text == level).to_numpy(float) for level in sorted(text.unique())], axis=1)
    scale = np.sqrt(columns.var(axis=0).sum())
    return (columns - columns.mean(axis=0)) / (scale or 1.0)


def is_category(values: pd.Series) -> bool:
    """Return True if a column holds categories, not numbers or flags."""
    return not (pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values))


def numbers_of(frame: pd.DataFrame) -> np.ndarray:
    """Return numbers and flags (n, d), standardised; missing numbers become the median."""
    names = [name for name in frame if not is_category(frame[name])]
    X = frame[names].astype(float).to_numpy()
    return standardised(np.where(np.isnan(X), np.nanmedian(X, axis=0), X)) if names else X


def prepared(frame: pd.DataFrame) -> np.ndarray:
    """Return a table as numbers (n, d): standardised columns, and categories one-hot."""
    cats = [one_hot(frame[name]) for name in frame if is_category(frame[name])]
    return np.ascontiguousarray(np.hstack([numbers_of(frame), *cats]))


def ours(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of `AutoClustering`."""
    from distsvc import AutoClustering

    return AutoClustering(n_clusters, random_state=seed, n_jobs=1).fit(frame).labels_


def k_means(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of k-means."""
    from sklearn.cluster import KMeans

    return KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(prepared(frame))


def mixture(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of a Gaussian mixture; without K, the one with the lowest BIC."""
    from sklearn.mixture import GaussianMixture

    X = prepared(frame)
    most = min(MAX_COMPONENTS, max(1, len(X) // MIN_COMPONENT_ROWS))
    counts, starts = ([n_clusters], 2) if n_clusters else (range(1, most + 1), 1)
    models = [
        GaussianMixture(k, n_init=starts, reg_covar=1e-3, random_state=seed).fit(X) for k in counts
    ]
    return min(models, key=lambda model: model.bic(X)).predict(X)


def k_prototypes(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of k-prototypes; k-modes or k-means if only one kind is there."""
    from benchmarks.quality.categories import Mixed
    from benchmarks.quality.categories import k_prototypes as fit

    codes = [
        pd.factorize(frame[name], use_na_sentinel=False)[0]
        for name in frame
        if is_category(frame[name]) or frame[name].dtype == bool
    ]
    if not codes:
        return k_means(frame, n_clusters, seed)
    table = Mixed(
        numbers_of(frame.select_dtypes(exclude="bool")), np.stack(codes, axis=1), np.zeros(0)
    )
    return fit(table, n_clusters or 1, seed)


def hdbscan(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of HDBSCAN with clusters of 1 % of the rows and more."""
    from fast_hdbscan import HDBSCAN

    return HDBSCAN(min_cluster_size=max(5, len(frame) // 100)).fit_predict(prepared(frame))


def plscan(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of PLSCAN."""
    from fast_hdbscan import PLSCAN

    return PLSCAN().fit_predict(prepared(frame).astype(np.float32))


def umap_hdbscan(frame: pd.DataFrame, n_clusters: int | None, seed: int) -> np.ndarray:
    """Return the labels (n,) of HDBSCAN on two coordinates by UMAP."""
    from fast_hdbscan import HDBSCAN
    from umap import UMAP

    X = prepared(frame)
    places = UMAP(n_neighbors=30, min_dist=0.0, random_state=seed, n_jobs=1).fit_transform(X)
    return HDBSCAN(min_cluster_size=max(5, len(X) // 100)).fit_predict(places)


@dataclass(frozen=True)
class TableMethod:
    """A method of the benchmark.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit(frame, n_clusters, seed)`` returns labels (n,) int; noise is -1.
    given_k : bool
        Whether the number of classes is given.
    module : str
        Module that must be installed, from the extra `bench`; empty for none.
    max_rows : int or None
        Maximum number of rows; larger tables are cut to a sample, on which labels are judged.

    """

    name: str
    fit: Fit
    given_k: bool = False
    module: str = ""
    max_rows: int | None = 2000

    def missing(self) -> bool:
        """Return True if the module of the method is not installed."""
        return bool(self.module) and find_spec(self.module) is None


METHODS = {
    method.name: method
    for method in (
        TableMethod("ours", ours, max_rows=None),
        TableMethod("ours K", ours, given_k=True, max_rows=None),
        TableMethod("k-means K", k_means, given_k=True, max_rows=None),
        TableMethod("mixture K", mixture, given_k=True),
        TableMethod("k-prototypes K", k_prototypes, given_k=True, module="kmodes", max_rows=1000),
        TableMethod("mixture BIC", mixture),
        TableMethod("HDBSCAN", hdbscan, module="fast_hdbscan"),
        TableMethod("UMAP+HDBSCAN", umap_hdbscan, module="umap"),
        TableMethod("PLSCAN", plscan, module="fast_hdbscan"),
    )
}
"""Methods by name; those with a K are given the number of classes."""
