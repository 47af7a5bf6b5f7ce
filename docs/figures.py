"""The figures of "How it works", drawn by the estimators: `python -m docs.figures` draws all."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs, make_moons
from sklearn.neighbors import kneighbors_graph

from distsvc import (
    AutoClustering,
    IncrementalMDH,
    LinearOneClassSVM,
    LinearSVDD,
    SupportVectorClustering,
)
from distsvc.baselines import BICO, DePDDP
from distsvc.models.automatic.decision import ViewDecision
from distsvc.models.columns.model import CategoryColumn, ColumnModel, NumberColumn
from distsvc.models.rows import sampling

IMAGES = Path(__file__).parent / "images"
COLOURS = np.array(["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"])
GREY = "#888888"
DOTS_AN_INCH = 130
VIEWS = {"graph": "graph", "mixture": "mixture"}


def panels(*titles: str, height: float = 3.1) -> tuple[Figure, list[Axes]]:
    """Return a figure with a row of panels."""
    figure, axes = plt.subplots(
        1, len(titles), figsize=(7.4, height), layout="constrained", squeeze=False
    )
    for one, title in zip(axes[0], titles, strict=True):
        one.set_title(title, fontsize=10, loc="left")
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=8)
    return figure, list(axes[0])


def rows(axes: Axes, X: np.ndarray, labels: np.ndarray, size: float = 6.0) -> None:
    """Draw rows (n, 2) in the colours of their clusters; rows outside (-1) as crosses."""
    inside = labels >= 0
    axes.scatter(*X[inside].T, c=COLOURS[labels[inside] % len(COLOURS)], s=size, lw=0, zorder=2)
    axes.scatter(*X[~inside].T, c=GREY, s=3 * size, marker="x", lw=1)
    axes.set_aspect("equal", "datalim")


def grid(X: np.ndarray, margin: float = 0.4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points (m, 2) of a grid around rows, and their coordinates as matrices."""
    (left, bottom), (right, top) = X.min(axis=0) - margin, X.max(axis=0) + margin
    x, y = np.meshgrid(np.linspace(left, right, 200), np.linspace(bottom, top, 160))
    return np.column_stack([x.ravel(), y.ravel()]), x, y


def moons() -> np.ndarray:
    """Return two half-moons and a cloud (700, 2)."""
    X, _ = make_moons(500, noise=0.07, random_state=1)
    cloud = np.random.default_rng(1).normal([3.0, 0.9], 0.22, (200, 2))
    return np.concatenate([X, cloud])


def level_sets() -> Figure:
    """Draw level sets of one model, and the tree of its branches."""
    X = moons()
    model = SupportVectorClustering(random_state=0).fit(X)
    points, x, y = grid(X)
    tree = model.tree_
    sums = np.exp(
        -model.gamma_ * ((points[:, None] - model.support_vectors_[None]) ** 2).sum(axis=2)
    )
    g = (sums @ tree.a).reshape(x.shape)
    figure, (left, right) = panels("Three level sets", "The tree of all level sets", height=2.4)
    levels = np.quantile(g[g > g.max() / 50], [0.25, 0.6, 0.85])
    left.scatter(*X.T, s=3, c=GREY, lw=0)
    left.contour(x, y, g, levels, colors=COLOURS[:3], linewidths=1.6)
    left.set_aspect("equal", "datalim")
    branches(right, tree)
    right.axhline(levels[0], c=COLOURS[0], lw=1, ls="--")
    right.axhline(levels[1], c=COLOURS[1], lw=1, ls="--")
    right.axhline(levels[2], c=COLOURS[2], lw=1, ls="--")
    return figure


def branches(axes: Axes, tree: object) -> None:
    """Draw the larger branches of a level tree: from where they join another to their peaks."""
    births, deaths = np.asarray(tree.births), np.maximum(np.asarray(tree.deaths), 0.0)
    parents = np.asarray(tree.parents)
    large = np.argsort(-np.asarray(tree.masses))[:8]
    for place, branch in enumerate(large):
        axes.plot([place, place], [deaths[branch], births[branch]], lw=7, c="#444444")
        joined = np.flatnonzero(large == parents[branch])
        if len(joined):
            axes.plot([place, joined[0]], [deaths[branch]] * 2, lw=1, c="#444444")
    axes.set(xticks=[], xlabel="branches, by their rows", ylabel="level")


def votes() -> Figure:
    """Draw the winner, and what spoke for each number of clusters."""
    X = moons()
    model = SupportVectorClustering(random_state=0).fit(X)
    figure, (left, right) = panels(
        "The winner", "What spoke for each number of clusters", height=2.4
    )
    outside = model.decision_function(X) < 0
    rows(left, X, np.where(outside, -1, model.labels_))
    found = sorted(model.candidates_, key=lambda one: one["n_clusters"])
    k = [one["n_clusters"] for one in found]
    for shift, name in ((-0.2, "votes"), (0.2, "standing")):
        right.bar(np.array(k) + shift, [one[name] for one in found], 0.38, label=name)
    right.set(xlabel="clusters", xticks=k, ylabel="share of the largest")
    right.legend(fontsize=8, frameon=False)
    return figure


def graph() -> Figure:
    """Draw rows that wind through many columns, and the graph that joins near ones."""
    random = np.random.default_rng(0)
    turn = np.sqrt(random.uniform(1.0, 90.0, 300))
    arm = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]) / 2
    plane = np.concatenate([arm, -arm])  # two spirals
    turned, _ = np.linalg.qr(random.normal(size=(12, 12)))
    X = np.column_stack([plane, np.zeros((600, 10))]) @ turned.T
    X += random.normal(0, 0.05, X.shape)
    found = AutoClustering(random_state=0).fit(X)._engine.graph
    labels = np.empty(len(X), int)
    pair = found.tree.levels.cut(2)
    labels[np.argsort(row_keys(X))] = found.labels(pair)[found.point_of]
    shown = X @ turned[:, :2]
    first, second = kneighbors_graph(X, 15).nonzero()
    figure, (left, right) = panels("Twelve columns, seen from the best side", "Joined to 15 near")
    rows(left, shown, labels)
    for axes in (left, right):
        axes.set_aspect("equal", "datalim")
    right.plot(
        [shown[first, 0], shown[second, 0]], [shown[first, 1], shown[second, 1]], c=GREY, lw=0.15
    )
    rows(right, shown, labels, 3)
    return figure


def customers() -> tuple[np.ndarray, np.ndarray]:
    """Return customers (1500, 4) and their segments: age, visits, money and a flag."""
    random = np.random.default_rng(3)
    segment = random.integers(3, size=1500)
    age = random.normal(np.array([25, 45, 62])[segment], np.array([3, 6, 6])[segment]).round()
    visits = random.poisson(np.array([9, 5, 3])[segment])
    spent = random.lognormal(np.log([20, 250, 110])[segment], 0.6).round(2)
    flag = random.random(1500) < 0.3
    return np.column_stack([age, visits, spent, flag]), segment


def row_keys(X: np.ndarray) -> np.ndarray:
    """Return the keys (n,) of rows, as `fit` has them with `random_state=0`."""
    return sampling.row_keys(0, np.arange(len(X)))


def cells() -> Figure:
    """Draw a column of whole numbers with its density, and what learners see of it."""
    random = np.random.default_rng(0)
    x = random.lognormal(np.log(8), 0.5, 2000).round()
    model = ColumnModel.of(x[:, None], np.zeros(1, bool))
    column = model.columns[0]
    assert isinstance(column, NumberColumn)
    draws = model.prepared(x[:, None], row_keys(x))[:, 0]
    middles = model.prepared(np.unique(x)[:, None])[:, 0]
    figure, (left, right) = panels(
        "Stored: each value is a cell", f"Learned from: draws (scale: {column.map.scale})"
    )
    values, counts = np.unique(x, return_counts=True)
    left.bar(values, counts, 1.0, color="#b8c4d4", edgecolor="white", lw=0.5)
    left.set(xlabel="visits", ylabel="rows")
    right.hist(draws, 60, color="#b8c4d4")
    right.plot(middles, np.zeros(len(middles)), "|", c=COLOURS[1], ms=9, label="middles of cells")
    z = np.linspace(-3.5, 3.5, 200)
    width = np.ptp(draws) / 60
    right.plot(z, len(x) * width * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), c="black", lw=1.2)
    right.set(xlabel="standard deviations")
    right.legend(fontsize=8, frameon=False)
    return figure


def thresholds() -> Figure:
    """Draw a flag as a normal variable above or below a threshold."""
    X, segment = customers()
    telling = np.random.default_rng(1).random(len(X)) < np.array([0.9, 0.1, 0.1])[segment]
    X = np.column_stack([X[:, 0], X[:, 3], telling])
    model = ColumnModel.of(X, np.zeros(3, bool))
    age, idle, told = model.prepared(X, row_keys(X))[:, model.firsts].T
    figure, axes = panels("A flag that tells nothing", "A flag of the young")
    for one, place, z in zip(axes, (1, 2), (idle, told), strict=True):
        column = model.columns[place]
        assert isinstance(column, CategoryColumn)
        for value, colour in enumerate(COLOURS[:2]):
            own = X[:, place] == value
            one.scatter(age[own], z[own], s=3, lw=0, c=colour, label=("no", "yes")[value])
        one.axhline(z[X[:, place] == 1].min(), c="black", lw=1)
        one.set(xlabel="age, mapped")
    axes[0].set_ylabel("flag, as drawn")
    axes[1].legend(fontsize=8, frameon=False, markerscale=3)
    return figure


@cache
def decided() -> tuple[np.ndarray, ViewDecision]:
    """Return customers (1500, 4) in the order of their keys, and the decision on them."""
    X, _ = customers()
    model = AutoClustering(random_state=0).fit(X)
    found = model._engine.answer.decision
    assert found is not None
    return X[sampling.lowest(row_keys(X), len(X))], found


def proposals() -> Figure:
    """Draw the best proposal of each view for one table."""
    X, found = decided()
    figure, axes = panels(*(word.capitalize() for word in VIEWS.values()), height=2.6)
    for one, view in zip(axes, VIEWS, strict=True):
        labels = next(each.labels for each in found.proposals if each.view == view)
        ages = [X[labels == label, 0].mean() for label in range(labels.max() + 1)]
        colours = COLOURS[np.argsort(np.argsort(ages))]
        one.scatter(X[:, 0], X[:, 2], c=colours[labels], s=4, lw=0)
        one.set(yscale="log", xlabel="age")
    axes[0].set_ylabel("spent")
    return figure


def decision() -> Figure:
    """Draw the quality of all proposals for the same table."""
    _, found = decided()
    one = next(each for each in found.proposals if each.n_clusters == 1)
    figure, (axes,) = panels("Quality of each proposal, less that of one cluster", height=2.6)
    shifts, colours = (-0.06, 0.06), COLOURS[1:3]
    for view, marker, shift, colour in zip(VIEWS, "so", shifts, colours, strict=True):
        own = [each for each in found.proposals if each.view == view and each is not one]
        gains = [each.quality.bic - one.quality.bic for each in own]
        counts = [each.n_clusters + shift for each in own]
        axes.scatter(counts, gains, s=40, marker=marker, c=colour, label=VIEWS[view], lw=0)
    axes.scatter([1], [0.0], s=40, marker="*", c="black", label="one cluster")
    axes.axhline(0.0, c=GREY, lw=1)
    most = max(each.n_clusters for each in found.proposals)
    axes.set(xlabel="clusters", xticks=range(1, most + 1), ylabel="nats")
    axes.legend(fontsize=8, frameon=False)
    return figure


def given_gamma() -> Figure:
    """Draw the papers' method: the domain of novelty, support vectors and equilibria."""
    X = moons()
    model = SupportVectorClustering(gamma=8.0, nu=0.1, random_state=0).fit(X)
    points, x, y = grid(X)
    f = model.decision_function(points).reshape(x.shape)
    figure, (left, right) = panels(
        "Support vectors, and f = 0", "Equilibria, and clusters", height=2.4
    )
    for axes in (left, right):
        axes.contour(x, y, f, [0.0], colors="black", linewidths=1.2)
    left.contourf(x, y, f, [0.0, f.max()], colors=["#e8eef6"])
    left.scatter(*X.T, s=2, c=GREY, lw=0)
    left.scatter(*model.support_vectors_.T, s=400 * model.dual_coef_, c=COLOURS[0], alpha=0.5, lw=0)
    left.set_aspect("equal", "datalim")
    rows(right, X, model.labels_, 4)
    inside = model.equilibrium_labels_ >= 0
    right.scatter(*model.equilibria_[inside].T, s=60, marker="*", c="black", zorder=3)
    return figure


def hyperplanes() -> Figure:
    """Draw a tree of hyperplanes, and the density along the normal of its first."""
    centres = [[0, 0], [5, 1], [1, 5], [6, 6]]
    X, _ = make_blobs(1200, centers=centres, cluster_std=0.9, random_state=0)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    Z = (X - mean) / spread
    model = IncrementalMDH(random_state=0).fit(Z)
    points, x, y = grid(Z, 0.3)
    cells = model.predict(points).reshape(x.shape)
    tree = model.cluster_tree_
    normal = np.asarray(tree.V[tree.splits[0]], float)
    along = (Z - model.centre_) @ normal
    figure, (left, right) = panels("Four cells", "Rows along the first normal")
    left.contour(x, y, cells, np.arange(cells.max()) + 0.5, colors="black", linewidths=1)
    rows(left, Z, model.labels_)
    right.hist(along, 60, color="#b8c4d4")
    right.axvline(float(tree.thresholds[tree.splits[0]]), c="black", lw=1.5)
    right.set(xlabel="standard deviations", ylabel="rows")
    return figure


def linear() -> Figure:
    """Draw the ball and the plane, on the same counts."""
    random = np.random.default_rng(0)
    X = random.poisson(8, (400, 2)) + random.uniform(-0.4, 0.4, (400, 2))
    X = np.concatenate([X, [[19, 18], [20, 21], [1, 0.5], [0.5, 1.5]]])
    points, x, y = grid(X, 1.0)
    figure, axes = panels("LinearSVDD: a ball", "LinearOneClassSVM: a plane")
    for one, estimator in zip(axes, (LinearSVDD, LinearOneClassSVM), strict=True):
        model = estimator(nu=0.05).fit(X)
        f = model.decision_function(points).reshape(x.shape)
        one.contourf(x, y, f, [0.0, f.max()], colors=["#e8eef6"])
        one.contour(x, y, f, [0.0], colors="black", linewidths=1.2)
        rows(one, X, np.where(model.predict(X) > 0, 0, -1))
    return figure


def baselines() -> Figure:
    """Draw a coreset with its centres, and a cut at a minimum of the density."""
    X, _ = make_blobs(1500, centers=[[0, 0], [5, 0], [2.5, 4]], random_state=0)
    bico = BICO(3, size=60, random_state=0).fit(X)
    tree = DePDDP(3).fit((X - X.mean(axis=0)) / X.std(axis=0))
    along = ((X - X.mean(axis=0)) / X.std(axis=0) - tree.centre_) @ tree.directions_[0]
    figure, (left, right) = panels("BICO: 60 features, 3 centres", "dePDDP: the first cut")
    left.scatter(*X.T, s=2, c="#cccccc", lw=0)
    left.scatter(*bico.coreset_points_.T, s=2 * bico.coreset_weights_, c=COLOURS[0], alpha=0.6)
    left.scatter(*bico.cluster_centers_.T, s=120, marker="*", c="black", zorder=3)
    left.set_aspect("equal", "datalim")
    right.hist(along, 60, color="#b8c4d4")
    right.axvline(tree.thresholds_[0], c="black", lw=1.5)
    right.set(xlabel="first principal component", ylabel="rows")
    return figure


def scores() -> Figure:
    """Draw how far out rows are, and how sure: two maps of one model."""
    X = moons()
    model = SupportVectorClustering(random_state=0).fit(X)
    points, x, y = grid(X)
    figure, axes = panels("Score: how far inside", "Membership: how sure", height=2.3)
    score = np.clip(model.decision_function(points), -6, 4).reshape(x.shape)
    sure = model.predict_proba(points).max(axis=1).reshape(x.shape)
    for one, values, low, high in zip(axes, (score, sure), (-6, 0.5), (4, 1.0), strict=True):
        drawn = one.pcolormesh(x, y, values, cmap="viridis", vmin=low, vmax=high, rasterized=True)
        figure.colorbar(drawn, ax=one).ax.tick_params(labelsize=8)
        one.scatter(*X.T, s=2, c="white", lw=0)
        one.set_aspect("equal")
    axes[0].contour(x, y, score, [0.0], colors="white", linewidths=1.5)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "how-cells": cells,
    "how-thresholds": thresholds,
    "how-proposals": proposals,
    "how-decision": decision,
    "how-level-sets": level_sets,
    "how-votes": votes,
    "how-graph": graph,
    "how-given-gamma": given_gamma,
    "how-hyperplanes": hyperplanes,
    "how-linear": linear,
    "how-baselines": baselines,
    "how-scores": scores,
}
"""The figures by the names of their files."""


def main() -> None:
    """Draw all figures."""
    for name, draw in FIGURES.items():
        figure = draw()
        figure.savefig(IMAGES / f"{name}.png", dpi=DOTS_AN_INCH)
        plt.close(figure)


if __name__ == "__main__":
    main()
