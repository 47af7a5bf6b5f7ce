"""The figures of the report page, as matplotlib figures of fitted estimators and published runs.

They need the extra ``report``: ``pip install 'distsvc[report]'``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distsvc.models.rules.rule import Rule
from distsvc.published.run import Run
from distsvc.published.saved_model import Model
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.report import ClusterRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from distsvc.report.content.model_parts import LevelTreePart, TreePart

__all__ = ["clusters", "profiles", "tree"]


def tree(model: Any) -> "Figure":
    """Draw the tree of a model, which explains its number of clusters.

    A level tree is drawn as hills of density in the colours of the clusters. A tree of hyperplanes
    is drawn as its splits, each with the density of the rows across its hyperplane.

    Parameters
    ----------
    model : SupportVectorClustering, AutoClustering, IncrementalMDH or Run
        The fitted estimator, or the published run.

    Returns
    -------
    figure : matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The model has no tree, or its tree has one node.

    See Also
    --------
    clusters : Draws the rows by cluster.

    Examples
    --------
    >>> from distsvc import SupportVectorClustering, plot
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> figure = plot.tree(SupportVectorClustering(random_state=0).fit(X))
    >>> figure.savefig("tree.png")

    """
    from distsvc.report.figures import drawing, levels
    from distsvc.report.figures import tree as trees

    if isinstance(model, Run):
        report = model.report
        hills = report.levels.tree if report.levels else None
        splits, sizes = report.tree, report.clusters
    else:
        hills, splits, sizes = _parts_of_fit(model)
    if splits is not None and len(splits.nodes) > 1:
        return drawing.as_figure(trees.tree, splits.nodes, sizes)
    if hills is not None and hills.branches:
        return drawing.as_figure(levels.level_tree, hills, drawing.cluster_colours(sizes))
    chosen = getattr(model, "algorithm_", None)
    which = "" if chosen is None else f", whose clusters come from the method {chosen!r}"
    raise ValueError(
        f"plot.tree needs a model with a tree of more than one node, found {_named(model)}{which}"
    )


def clusters(model: Any, X: Any) -> "Figure":
    """Draw rows in a plane in the colours of their clusters; outliers are grey.

    The plane is chosen as on the report page: two columns, a column and the score, two directions
    that separate the clusters, or the first two principal components.

    Parameters
    ----------
    model : estimator, Run or Model
        A fitted clustering estimator, a published run, or the run's `model`.
    X : array-like or table of shape (n, d)
        Rows in memory, as `predict` takes them. At most 3000 random rows are drawn.

    Returns
    -------
    figure : matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The model has no clusters, or X lacks a column.

    See Also
    --------
    tree : Draws the tree of a model.

    Examples
    --------
    >>> from distsvc import SupportVectorClustering, plot
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> figure = plot.clusters(SupportVectorClustering(random_state=0).fit(X), X)
    >>> figure.axes[0].get_xlabel()
    'x0'

    """
    from distsvc.report.figures import clusters as figures
    from distsvc.report.figures import drawing
    from distsvc.run.reporting.explaining import plane

    rows = _shown_rows(model.model if isinstance(model, Run) else model, X)
    sizes, boundary = _cluster_rows(rows.labels), rows.rule.words.boundary
    return drawing.as_figure(figures.plane, plane(*rows), sizes, None, boundary)


def profiles(run: Run) -> "Figure":
    """Draw, for each cluster of a published run, the columns that distinguish it best.

    Each column has a bar for the cluster's rows above a bar for all other rows. A bar reaches from
    the lower to the upper quartile, with a mark at the median. For a category, the bar's length is
    the share of rows in the category.

    Parameters
    ----------
    run : Run
        A run, as `distsvc.load` returns it.

    Returns
    -------
    figure : matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The run has fewer than two clusters, or `run` is an estimator.

    See Also
    --------
    clusters : Draws rows by cluster.

    Examples
    --------
    >>> import distsvc
    >>> figure = distsvc.plot.profiles(distsvc.load("out/moons"))
    >>> len(figure.axes)
    2

    """
    from distsvc.report.figures import clusters as figures
    from distsvc.report.figures import drawing

    if not isinstance(run, Run):
        raise ValueError(
            "plot.profiles needs a published run, from distsvc.load or distsvc.run, found "
            f"{_named(run)}"
        )
    report = run.report
    if report.profiles is None:
        raise ValueError(f"{run.path} has no profiles, which need two clusters at least")
    return drawing.as_figure(figures.profiles, report.cards, report.clusters)


class _Rows(NamedTuple):
    """The rows of a scatter plot with labels and scores, and the rule that labelled them."""

    rule: Rule
    columns: Sequence[str]
    raw: np.ndarray  # (m, d): rows as given
    prepared: np.ndarray  # (m, D): rows as the rule takes them
    labels: np.ndarray
    scores: np.ndarray
    firsts: np.ndarray  # (d,): the first prepared column of each raw column


def _named(model: Any) -> str:
    return repr(model) if isinstance(model, Run) else type(model).__name__


def _cluster_rows(labels: np.ndarray) -> list[ClusterRow]:
    """Return each cluster among the labels (n,) with its number of rows, the largest first."""
    names, counts = np.unique(labels[labels >= 0], return_counts=True)
    total = max(int(counts.sum()), 1)
    order = np.argsort(-counts, kind="stable")
    rows = [(int(names[k]), int(counts[k])) for k in order]
    return [ClusterRow(label=label, rows=n, share=n / total) for label, n in rows]


def _parts_of_fit(
    model: Any,
) -> tuple["LevelTreePart | None", "TreePart | None", list[ClusterRow]]:
    """Return a fitted estimator's level tree, its tree of splits, and its clusters.

    An estimator has at most one of these trees; the other is None.
    """
    from distsvc.models.automatic.engine import AutomaticEngine
    from distsvc.models.bases.passes import ClusterEstimator
    from distsvc.models.hyperplanes.engine import TreeEngine
    from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
    from distsvc.run.algorithms.hyperplanes import tree_part
    from distsvc.run.algorithms.level_tree import levels_part

    if not isinstance(model, ClusterEstimator):
        return None, None, []
    model._settle()
    engine = model._engine
    labels = np.asarray(model.labels_) if hasattr(model, "labels_") else np.empty(0, np.int32)
    sizes = _cluster_rows(labels)
    if isinstance(engine, TreeEngine):
        columns = _column_names(model, engine.pilot.shape[1])
        labelled = engine.rule.labels(engine.pilot)
        part = tree_part(engine, columns, engine.pilot, labelled)
        return None, part, sizes or _cluster_rows(labelled)
    if isinstance(engine, AutomaticEngine) and (levels := engine.answer.levels) is not None:
        return levels_part(levels, engine.numbers(levels)).tree, None, sizes
    if isinstance(engine, LevelTreeEngine):
        return levels_part(engine.levels).tree, None, sizes
    return None, None, []


def _column_names(model: Any, d: int) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    if names is None:  # a table with categories or missing values is fitted as an array of codes
        names = getattr(model, "_names", None) or map("x{}".format, range(d))
    return [str(name) for name in names]


def _shown_rows(model: Any, X: Any) -> _Rows:
    """Return the rows to draw: at most `PageLimits.drawn_rows` of X, labelled by a model."""
    from distsvc.models.bases.values import DescribesRows

    if isinstance(model, Model):
        raw, prepared = model._read(X)
        shown = _some(len(raw))
        rule, Z = model._labeller.rule, prepared[shown]
        labels = model.ids[rule.labels(Z)]
        firsts = model._preparation.firsts
        return _Rows(rule, model.array_columns, raw[shown], Z, labels, rule.scores(Z), firsts)
    if isinstance(model, DescribesRows):
        model._settle()
        raw = _array_of(model, X)
        values, d = model._values("label"), raw.shape[1]
        labels, Z = np.asarray(model.predict(raw)), values.prepared(raw)
        scores, columns = values.rule.scores(Z), _column_names(model, d)
        return _Rows(values.rule, columns, raw, Z, labels, scores, values.firsts(d))
    raise ValueError(f"plot.clusters needs a model with clusters, found {_named(model)}")


def _array_of(model: Any, X: Any) -> np.ndarray:
    """Return at most `PageLimits.drawn_rows` rows of X (n, d) as an array of numbers."""
    from distsvc.models.bases.passes import ClusterEstimator, open_rows
    from distsvc.models.bases.validation import check_rows

    if isinstance(model, ClusterEstimator):
        X = model._as_numbers(X, reset=False)
    source = open_rows(model, X, reset=False)
    if source is not None:
        X = np.concatenate([np.asarray(block) for block in source.blocks()])
    else:
        X = check_rows(model, X, reset=False, **getattr(model, "_allowed", {}))
    return np.asarray(X[_some(len(X))])


def _some(n: int) -> np.ndarray:
    """Return the sorted indices of the rows that are drawn, out of n rows.

    If n is larger than `PageLimits.drawn_rows`, this number of rows is chosen at random.
    """
    if n <= PAGE_LIMITS.drawn_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, PAGE_LIMITS.drawn_rows, replace=False))
