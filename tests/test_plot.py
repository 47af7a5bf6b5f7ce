"""Figures of estimators and runs: their contents and rows, and errors."""

import io
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, make_blobs, make_moons

import distsvc
from distsvc import AutoClustering, IncrementalMDH, LinearSVDD, SupportVectorClustering, plot
from distsvc.baselines import BICO, DePDDP, FuzzyCMeans
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.figures.drawing import Dots


@pytest.fixture(scope="module")
def moons():
    return make_moons(500, noise=0.05, random_state=0)[0]


@pytest.fixture(scope="module")
def iris():
    X = load_iris().data
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture(scope="module")
def level_tree(moons):
    return SupportVectorClustering(effort="fast", random_state=0).fit(moons)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    X, _ = make_blobs(600, centers=[[0, 0, 0], [6, 0, 3], [0, 6, 3]], random_state=0)
    table = pl.DataFrame(X, schema=["a", "b", "c"])
    table.write_parquet(folder / "t.parquet")
    job = {"input": {"path": str(folder / "t.parquet")}, "output": {"path": str(folder / "out")}}
    return distsvc.run(job | {"model": {"effort": "fast"}}), table


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda of: hasattr(of, "get_text"))]


def dots(figure):
    return sum(len(one.get_path().vertices) // 2 for one in figure.findobj(Dots))


def ink(figure):
    """Return the share of pixels of a picture that are coloured."""
    file = io.BytesIO()
    figure.savefig(file, format="rgba", dpi=60)
    pixels = np.frombuffer(file.getvalue(), np.uint8).reshape(-1, 4)[:, :3].astype(int)
    return float((np.ptp(pixels, axis=1) > 60).mean())


def test_the_tree_of_a_level_tree_has_its_clusters(level_tree):
    figure = plot.tree(level_tree)
    assert isinstance(figure, Figure)
    assert {"0", "1"} <= set(texts(figure))
    assert ink(figure) > 0.1


def test_the_tree_of_hyperplanes(iris):
    model = IncrementalMDH(n_clusters=3, random_state=0).fit(iris)
    figure = plot.tree(model)
    assert {"0", "1", "2"} <= set(texts(figure))
    assert any("x2" in text for text in texts(figure))
    assert sum(text.startswith("n = ") for text in texts(figure)) == 2


def test_a_tree_names_the_columns_of_a_frame(iris):
    frame = pl.DataFrame(iris, schema=["sepal", "width", "petal", "thin"])
    model = IncrementalMDH(n_clusters=3, random_state=0).fit(frame.to_pandas())
    assert any("petal" in text for text in texts(plot.tree(model)))


def test_the_tree_of_a_stream(iris):
    model = IncrementalMDH(random_state=0, n_clusters=2)
    model.partial_fit(iris)
    assert {"0", "1"} <= set(texts(plot.tree(model)))


def test_the_default_and_a_run_have_trees(moons, run):
    model = AutoClustering(effort="fast", random_state=0).fit(moons)
    assert {"0", "1"} <= set(texts(plot.tree(model)))
    assert {"0", "1", "2"} <= set(texts(plot.tree(run[0])))


@pytest.mark.parametrize(
    "model",
    [BICO(2, random_state=0), DePDDP(), SupportVectorClustering(gamma=4.0, nu=0.1, random_state=0)],
    ids=repr,
)
def test_models_without_a_tree_are_refused(moons, model):
    with pytest.raises(ValueError, match=f"plot.tree needs .* found {type(model).__name__}"):
        plot.tree(model.fit(moons))


def test_profiles_of_an_estimator_are_refused(level_tree):
    words = "needs a published run, from distsvc.load or .* found SupportVectorClustering"
    with pytest.raises(ValueError, match=words):
        plot.profiles(level_tree)


def test_clusters_in_two_columns(level_tree, moons):
    figure = plot.clusters(level_tree, moons)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x0", "x1")
    assert dots(figure) == len(moons) - int((level_tree.decision_function(moons) < 0).sum())
    assert ink(figure) > 0.02  # every dot is drawn in a raster, too
    assert ink(plot.clusters(level_tree, moons[:20])) < ink(figure)


@pytest.mark.parametrize(
    "model",
    [
        AutoClustering(effort="fast", random_state=0),
        IncrementalMDH(n_clusters=3, random_state=0),
        SupportVectorClustering(gamma=0.5, nu=0.1, random_state=0),
        BICO(3, random_state=0),
        FuzzyCMeans(3, random_state=0),
    ],
    ids=repr,
)
def test_clusters_of_every_estimator(iris, model):
    figure = plot.clusters(model.fit(iris), iris)
    assert figure.axes[0].get_xlabel().startswith(("first component", "first direction"))
    shown = {text for text in texts(figure) if text.isdigit()}
    counted = set(np.unique(model.predict(iris)).tolist())
    assert {str(label) for label in counted} <= shown | ({"0"} if len(counted) == 1 else set())


def test_clusters_of_a_frame_with_text_and_missing_values():
    X, y = make_blobs(300, centers=[[0, 0], [8, 0]], random_state=0)
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "plan": np.where(y == 0, "free", "paid")})
    frame.loc[::40, "x"] = np.nan
    model = AutoClustering(effort="fast", random_state=0).fit(frame)
    figure = plot.clusters(model, frame)
    assert {str(label) for label in range(model.n_clusters_)} <= set(texts(figure))
    assert dots(figure) > 280
    assert dots(plot.clusters(model, pl.from_pandas(frame))) == dots(figure)


def test_clusters_of_many_rows_are_a_sample(level_tree):
    X = np.tile(make_moons(500, noise=0.05, random_state=1)[0], (10, 1))
    figure = plot.clusters(level_tree, X)
    crosses = len(figure.axes[0].collections[0].get_offsets())
    assert dots(figure) + crosses == PAGE_LIMITS.drawn_rows


def test_clusters_of_a_run_are_drawn_from_raw_rows(run):
    published, table = run
    for model in (published, published.model):
        figure = plot.clusters(model, table)
        assert {"0", "1", "2"} <= set(texts(figure))
        assert dots(figure) > 550


def test_models_without_clusters_and_missing_columns_are_refused(moons, run):
    with pytest.raises(ValueError, match="a model with clusters, found LinearSVDD"):
        plot.clusters(LinearSVDD().fit(moons), moons)
    with pytest.raises(distsvc.errors.DataError, match="c"):
        plot.clusters(run[0], run[1].select("a", "b"))


def test_profiles_of_a_run(run):
    figure = plot.profiles(run[0])
    assert len(figure.axes) == 3
    assert [axes.get_title("left").split(":")[0] for axes in figure.axes] == [
        "Cluster 0", "Cluster 1", "Cluster 2",
    ]  # fmt: skip
    best = run[0].report.profiles.clusters[0].columns[0].column
    assert figure.axes[0].get_yticklabels()[0].get_text() == best
    assert ink(figure) > 0.02


def test_a_run_of_one_cluster_has_no_profiles(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    pl.DataFrame(X, schema=["a", "b"]).write_parquet(tmp_path / "t.parquet")
    job = {
        "input": {"path": str(tmp_path / "t.parquet")},
        "output": {"path": str(tmp_path / "out")},
        "model": {"algorithm": "imdh"},
    }
    one = distsvc.run(job)
    assert len(one.report.clusters) == 1
    with pytest.raises(ValueError, match="has no profiles, which need two clusters"):
        plot.profiles(one)


def test_a_users_style_does_not_change(level_tree):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plot.tree(level_tree)
    assert dict(mpl.rcParams) == before


def test_a_notebook_shows_a_figure_without_a_magic_command():
    X, _ = make_blobs(120, centers=[[0, 0], [6, 0]], random_state=0)
    figure = plot.clusters(BICO(n_clusters=2, random_state=0).fit(X), X)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure)).axes
