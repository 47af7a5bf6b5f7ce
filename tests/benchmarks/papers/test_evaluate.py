import json
import os

import pyarrow.parquet as pq
import pytest

from benchmarks.harness import data
from benchmarks.papers import evaluate, fits, suites
from benchmarks.papers.evaluate import SCHEMA, run_suites
from benchmarks.papers.fits import Fit, FitFolder, run_fit
from benchmarks.papers.suites import Suite, SuiteOptions
from distsvc.errors import InputNotFoundError
from distsvc.run.work.progress import Progress

QUIET = Progress(quiet=True)
ABOUT = {"experiment": "oracle", "set": "toy", "protocol": "oracle"}
pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture
def small_suite(monkeypatch):
    def first(choice):
        return [
            Fit("grid", "toy", "BSGD-R", "oracle", {"gamma": g, "C": 0.5, "maintenance": "removal"})
            for g in (1e-3, 2.0)
        ]

    def then(choice, rows):
        ((key, point),) = suites.best_points(rows).items()
        return [Fit("oracle", *key, "oracle", point, seed, whole=True) for seed in choice.seeds(2)]

    suite = Suite(("toy",), first, then)
    monkeypatch.setitem(suites.SUITES, "toy", suite)
    monkeypatch.setattr(evaluate, "KNOWN", ("toy",))


def run(out, **choice):
    return run_suites(("toy",), out, None, SuiteOptions(**choice), QUIET, workers=0)


def test_a_suite_from_grid_to_table(small_suite, tmp_path):
    (path,) = run(tmp_path)
    table = pq.read_table(path)
    assert table.schema.names == SCHEMA.names
    rows = table.to_pylist()
    assert [row["experiment"] for row in rows] == ["grid", "grid", "oracle", "oracle"]
    assert json.loads(rows[2]["point"])["gamma"] == 2.0
    assert [row["seed"] for row in rows[2:]] == [0, 1]
    for row in rows[2:]:
        assert row["adjusted_rand_index"] == pytest.approx(1.0)
        assert (row["n"], row["rows"], row["d"], row["classes"]) == (300, 300, 2, 3)
        assert row["n_clusters"] == 3
        assert row["compactness"] > 0.0
        assert row["training_seconds"] > 0.0
        assert row["clustering_seconds"] > 0.0
        assert row["cores"] >= 1
    assert rows[0]["compactness"] is None  # the grid is scored by the classes alone


def test_what_is_done_is_not_done_again(small_suite, tmp_path, monkeypatch):
    run(tmp_path, repetitions=1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / ".fits").glob("*/*.json")}
    done = []
    monkeypatch.setattr(evaluate, "run_fit", lambda *a: done.append(a[1]) or run_fit(*a))
    (path,) = run(tmp_path, repetitions=2)
    assert done == [1]  # of the second list, the second seed
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert pq.read_table(path).num_rows == 4


def test_a_fit_that_raises_is_a_row_with_a_note(tmp_path):
    broken = Fit(**ABOUT, system="SVC", point={"gamma": -1.0})
    folder = FitFolder(tmp_path / "fits")
    assert run_fit(str(folder.plan([broken], None)), 0) == 1
    (row,) = folder.rows([broken])
    assert "gamma must be" in row["note"]
    assert "purity" not in row


def test_a_sweep_gives_a_row_for_each_labelling_of_one_model(tmp_path):
    sweep = [{"ball_radius": 0.2, "merge_radius": 0.2}, {"ball_radius": 0.8, "merge_radius": 0.2}]
    fit = Fit(
        **ABOUT, system="FSVC", point={"gamma": 2.0, "C": 1.0, "labelling": "balls"}, sweep=sweep
    )
    folder = FitFolder(tmp_path / "fits")
    assert run_fit(str(folder.plan([fit], None)), 0) == 2
    rows = folder.rows([fit])
    assert [json.loads(row["point"])["ball_radius"] for row in rows] == [0.2, 0.8]
    assert rows[0]["training_seconds"] == rows[1]["training_seconds"]
    for row, settings in zip(rows, sweep, strict=True):
        alone = Fit(**ABOUT, system="FSVC", point=fit.point | settings)
        X, y, size = data.table(None, "toy", None, None)
        (same,) = fits.fitted(alone, X, y, size)
        assert row["n_clusters"] == same["n_clusters"]
        assert row["normalized_mutual_information"] == same["normalized_mutual_information"]


def test_plans_of_one_moment_are_told_apart_and_never_rewritten(tmp_path):
    folder = FitFolder(tmp_path / "fits")
    one, other = (
        [Fit(**ABOUT, system="k-means", point={"n_init": 1}, seed=s)] for s in (0, 1)
    )  # fmt: skip
    plans = [folder.plan(fits, None) for fits in (one, other)]
    for plan in plans:
        os.utime(plan, ns=(0, 0))  # a tick of the clock, or of a network disk's attributes
    for plan in plans:
        run_fit(str(plan), 0)
    assert [row["seed"] for row in folder.rows(one + other)] == [0, 1]
    assert folder.plan(one, None) == plans[0]
    assert plans[0].stat().st_mtime_ns == 0
    assert folder.plan(one, tmp_path) not in plans


def test_unknown_names(tmp_path):
    with pytest.raises(InputNotFoundError, match="no suite 'nosuch'; there are bsgd"):
        run_suites(("nosuch",), tmp_path, None, SuiteOptions(), QUIET)
    with pytest.raises(InputNotFoundError, match="suite bsgd has no set 'nosuch'"):
        run_suites(("bsgd",), tmp_path, None, SuiteOptions(("nosuch",)), QUIET, workers=0)
    with pytest.raises(InputNotFoundError, match="suite peers has no set 'iris'; it has gaussians"):
        run_suites(("peers",), tmp_path, None, SuiteOptions(("iris",)), QUIET)
    with pytest.raises(InputNotFoundError, match="linear needs --data"):
        run_suites(("linear",), tmp_path, None, SuiteOptions(), QUIET)
    assert not list(tmp_path.glob("*.parquet"))
