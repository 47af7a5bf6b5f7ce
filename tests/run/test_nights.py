"""Night after night: ids that go on, models that are used again, drift, checks, gaps."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w
import zarr
from click.testing import CliRunner
from small_runs import FORMS, digests, forget, small_job, three_clusters, write_table

from distsvc.cli import main
from distsvc.errors import CheckFailedError, DataError, InputNotFoundError
from distsvc.job_file import load_job
from distsvc.run import job as jobs
from distsvc.run.job import run_job
from distsvc.run.labeller import Ids
from distsvc.run.phases import Phase
from distsvc.run.predict import predict_table
from distsvc.storage.publication import Output, collect
from tests.clusters import loopback_cluster
from tests.published_files import labels_folder, listed, published_file, read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

COLUMNS = {"columns": ["x0", "x1"]}
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 9.0], [-7.0, -5.0]])
FIRST, SECOND, THIRD = "2026-02-28", "2026-03-01", "2026-03-02"


def rows(*sizes, seed=0, shift=0.0):
    """Return rows (n, 2) around the centres, so many of each, in random order, and those."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return CENTRES[y] + random.normal(0.0, 0.4, (len(y), 2)) + shift, y


class Shop:
    """A folder of tables by date, a job file for every night, and what is published."""

    def __init__(self, folder):
        self.folder = folder

    def table(self, date, X, **columns):
        """Write the table of a night."""
        (self.folder / "in").mkdir(exist_ok=True)
        return write_table(self.folder / "in" / f"{date}.parquet", X, **columns)

    def job_file(self, **sections):
        content = {
            "input": {"path": f"{self.folder}/in/{{run_date}}.parquet"},
            "model": {"algorithm": "bico", "n_clusters": 3},
            "continuity": {"previous": f"{self.folder}/out/{{run_date-1d}}"},
            "cluster": {"workers": 0, "partition_rows": 300, "block_rows": 70},
            "output": {"path": f"{self.folder}/out/{{run_date}}"},
        }
        content |= {name: content.get(name, {}) | keys for name, keys in sections.items()}
        path = self.folder / "job.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def run(self, date, overwrite=False, scheduler=None, **sections):
        """Do a night, as a new process would, and return its report."""
        forget()
        job = load_job(self.job_file(**sections), (), date)
        return run_job(job, overwrite=overwrite, scheduler=scheduler)

    def out(self, date):
        return self.folder / "out" / date

    def said(self, date, name):
        return json.loads(published_file(self.out(date), name).read_text())

    def manifest(self, date):
        return json.loads((self.out(date) / "manifest.json").read_text())

    def ids(self, date, y):
        """Return the id that the rows of each centre have, of all of them."""
        found = read_labels(self.out(date))["label"].to_numpy()
        by_centre = {int(c): set(found[y == c].tolist()) for c in np.unique(y)}
        assert all(len(several) == 1 for several in by_centre.values())
        return {c: several.pop() for c, several in by_centre.items()}


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def invoked(shop, date, *options, monkeypatch, **sections):
    """Run the command, whose signals are not to be this process's."""
    forget()
    monkeypatch.setattr("signal.signal", lambda *_: None)
    path = str(shop.job_file(**sections))
    return CliRunner().invoke(main, ["run", path, "--run-date", date, *options])


# Ids


def test_ids_go_on_whatever_the_sizes_and_are_given_once(shop):
    nights = {
        FIRST: rows(300, 200, 100),
        SECOND: rows(100, 300, 200, seed=1),
        THIRD: rows(300, 150, 0, 100, seed=2),  # one is not there, another comes
        "2026-03-03": rows(300, 150, 100, seed=3),  # and is back, for the other
    }
    found = {}
    for date, (X, y) in nights.items():
        shop.table(date, X)
        report = shop.run(date)
        found[date] = shop.ids(date, y)
        assert sorted(c.label for c in report.clusters) == sorted(found[date].values())
    assert found[FIRST] == {0: 0, 1: 1, 2: 2}
    assert found[SECOND] == found[FIRST], "by size they would be 2, 0 and 1"
    assert found[THIRD] == {0: 0, 1: 1, 3: 3}
    assert found["2026-03-03"] == {0: 0, 1: 1, 2: 4}, "nobody is called 2 again, or 3"
    assert shop.said("2026-03-03", "lineage.json")["next_id"] == 5
    model = json.loads(published_file(shop.out("2026-03-03"), "model.json").read_text())
    assert (model["facts"]["n_clusters"], model["facts"]["next_id"]) == (3, 5)
    told = {s["id"]: s["event"] for s in shop.said(THIRD, "lineage.json")["clusters"]}
    assert {i: told[i] for i in (0, 1, 2)} == {0: "survived", 1: "survived", 2: "disappeared"}
    assert told[3] in ("split", "appeared")


def test_what_the_files_of_two_nights_say(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(100, 300, 200, seed=1)[0])
    first = shop.run(FIRST)
    assert shop.said(FIRST, "lineage.json") == {
        "path": None,
        "run_id": None,
        "mode": "refit",
        "because": [],
        "not_published": str(shop.out("2026-02-27")),
        "rows": 0,
        "moved": None,
        "next_id": 3,
        "clusters": [
            {"id": i, "event": "appeared", "jaccard": 0.0, "rows_before": 0, "rows_after": n}
            | {"others": []}
            for i, n in enumerate((300, 200, 100))
        ],
        "moves": None,
    }
    wanted = f"no run is published at {shop.out('2026-02-27')} or before: ids begin anew, from 0"
    assert wanted in first.warnings
    assert "previous" not in shop.manifest(FIRST)
    assert not [path for path in listed(shop.out(FIRST)) if path.name == "drift.json"]

    second = shop.run(SECOND)
    before = shop.manifest(FIRST)["run_id"]
    named = shop.manifest(SECOND)["previous"]
    assert (named["path"], named["run_id"]) == (str(shop.out(FIRST)), before)
    lineage = shop.said(SECOND, "lineage.json")
    assert lineage == second.lineage.model_dump()
    assert (lineage["path"], lineage["run_id"]) == (str(shop.out(FIRST)), before)
    assert (lineage["rows"], lineage["moved"], lineage["not_published"]) == (600, 0.0, None)
    assert lineage["clusters"] == [
        {"id": i, "event": "survived", "jaccard": 1.0, "rows_before": n, "rows_after": n}
        | {"others": []}
        for i, n in enumerate((100, 300, 200))
    ]
    moves = lineage["moves"]
    assert moves["before"] == moves["after"]
    assert dict(zip(moves["after"], moves["rows"], strict=True)) == {0: 100, 1: 300, 2: 200}
    drift = shop.said(SECOND, "drift.json")
    assert drift == second.drift.model_dump()
    assert {c["column"] for c in drift["columns"]} == {"x0", "x1"}
    indices = [c["index"] for c in drift["columns"]]
    assert indices == sorted(indices, reverse=True)
    assert indices[-1] > 0.1, "sizes have changed"
    assert all(c["missing_before"] == c["missing_after"] == 0.0 for c in drift["columns"])
    assert drift["score_rows"] == 600


def test_no_drift_of_the_same_table_and_missing_values_are_told(shop):
    X, _ = rows(300, 200, 100)
    Y = X.copy()
    Y[:60, 1] = np.nan
    given = {"preprocess": {"missing": "median"}}
    for date, values in ((FIRST, X), (SECOND, X), (THIRD, Y)):
        shop.table(date, values)
        shop.run(date, **given)
    drift = shop.said(SECOND, "drift.json")
    assert [c["index"] for c in drift["columns"]] == [0.0, 0.0]
    assert drift["score"] == 0.0
    worst = shop.said(THIRD, "drift.json")["columns"][0]
    assert (worst["column"], worst["missing_before"], worst["missing_after"]) == ("x1", 0.0, 0.1)
    assert worst["index"] > 0.1


def test_neither_the_cut_of_the_table_nor_workers_change_a_byte(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(150, 250, 0, 200, seed=1)[0])
    shop.run(FIRST)
    found = []
    with loopback_cluster(2) as workers:
        here, there = None, workers.scheduler_address
        for at, *cut in (here, 300, 70), (here, 100, 33), (here, 10_000, 10_000), (there, 100, 33):
            cluster = dict(zip(("partition_rows", "block_rows"), cut, strict=True))
            shop.run(SECOND, overwrite=True, scheduler=at, cluster=cluster)
            out = shop.out(SECOND)
            names = ("lineage.json", "drift.json", "model.json", "arrays.npz")
            found.append([published_file(out, name).read_bytes() for name in names])
            found[-1].append(read_labels(out).to_pydict())
            forget()
            (out / "manifest.json").unlink()
    assert found[0] == found[1] == found[2] == found[3]


def test_predict_gives_ids(shop):
    (X, _), (Y, y) = rows(300, 200, 100), rows(200, 0, 300, 100, seed=1)
    shop.table(FIRST, X)
    table = shop.table(SECOND, Y)
    shop.run(FIRST)
    shop.run(SECOND)
    assert shop.ids(SECOND, y) == {0: 0, 2: 2, 3: 3}
    manifest = predict_table(shop.out(SECOND), str(table), str(shop.folder / "new"))
    assert manifest["clusters"] == 3
    assert read_labels(shop.folder / "new").equals(read_labels(shop.out(SECOND)))


# Nights that are missing


def test_a_night_that_is_not_published_is_skipped(shop):
    (X, _), (Y, y) = rows(300, 200, 100), rows(100, 300, 200, seed=1)
    shop.table(FIRST, X)
    shop.table("2026-03-04", Y)
    shop.run(FIRST)
    report = shop.run("2026-03-04")
    assert shop.ids("2026-03-04", y) == {0: 0, 1: 1, 2: 2}
    assert report.lineage.path == str(shop.out(FIRST))
    assert report.lineage.not_published == str(shop.out("2026-03-03"))
    note = f"no run is published at {shop.out('2026-03-03')}: ids go on from {shop.out(FIRST)}"
    assert note in report.warnings


@pytest.mark.parametrize(("mode", "code"), [("assign", 66), ("auto", 0), ("refit", 0)])
def test_the_first_night_of_a_mode(shop, mode, code, monkeypatch):
    shop.table(FIRST, rows(300, 200, 100)[0])
    model = {"algorithm": "bico", "n_clusters": 3, "mode": mode}
    result = invoked(shop, FIRST, monkeypatch=monkeypatch, model=model)
    assert result.exit_code == code, result.output
    if code:
        assert "continuity.previous: no run is published at" in result.stderr
        assert str(shop.out("2026-02-27")) in result.stderr
        assert not shop.out(FIRST).exists()


# Columns


def test_columns_that_are_missing_are_named(shop, monkeypatch):
    X, _ = rows(300, 200, 100)
    shop.table(FIRST, np.column_stack([X, X[:, 0], X[:, 1]])[:, :3], y=X[:, 0], z=X[:, 1])
    shop.run(FIRST)
    shop.table(SECOND, X)
    model = {"algorithm": "bico", "n_clusters": 3}
    for mode in ("assign", "auto", "refit"):
        result = invoked(shop, SECOND, monkeypatch=monkeypatch, model=model | {"mode": mode})
        assert result.exit_code == 65, result.output
        assert all(f"'{name}'" in result.stderr for name in ("x2", "y", "z"))
        assert "Traceback" not in result.stderr
        assert not (shop.out(SECOND) / "manifest.json").exists()


@pytest.mark.parametrize("mode", ["assign", "auto"])
def test_columns_that_the_model_does_not_know_are_ignored_with_a_warning(shop, mode):
    (X, _), (Y, y) = rows(300, 200, 100), rows(300, 200, 100, seed=1)
    shop.table(FIRST, X)
    shop.table(SECOND, Y, more=np.arange(600.0), word=[str(i) for i in range(600)])
    shop.run(FIRST)
    report = shop.run(SECOND, model={"mode": mode})
    ignored = "ignored, since the model of the run before does not know them: more"
    assert ignored in report.warnings
    assert {column.column for column in report.drift.columns} == {"x0", "x1"}
    assert shop.ids(SECOND, y) == {0: 0, 1: 1, 2: 2}
    named = shop.run(THIRD, input={"path": f"{shop.folder}/in/{SECOND}.parquet"} | COLUMNS)
    assert not [text for text in named.warnings if "ignored" in text]


@pytest.mark.parametrize("mode", ["assign", "auto"])
def test_columns_that_a_job_names_are_those_of_the_model(shop, mode, monkeypatch):
    X, y = rows(300, 200, 100)
    for date in FIRST, SECOND:
        shop.table(date, X, more=np.arange(600.0), other=np.arange(600.0))
    shop.run(FIRST, input=COLUMNS)
    model = {"algorithm": "bico", "n_clusters": 3, "mode": mode}
    fewer = {"columns": ["x1", "more"]}
    said = invoked(shop, SECOND, monkeypatch=monkeypatch, model=model, input=fewer)
    assert said.exit_code == 78, said.output
    assert "input.columns: expected all columns of the model of " in said.stderr
    assert "missing: 'x0'" in said.stderr
    report = shop.run(SECOND, model=model, input={"columns": ["more", "x1", "x0"]})
    ignored = [text for text in report.warnings if "ignored" in text]
    assert ignored == ["ignored, since the model of the run before does not know them: more"]
    assert shop.ids(SECOND, y) == {0: 0, 1: 1, 2: 2}


def test_a_new_model_may_know_more_columns_in_another_order(shop):
    (X, _), (Y, y) = rows(300, 200, 100), rows(100, 300, 200, seed=1)
    shop.table(FIRST, X)
    new = np.random.default_rng(0).normal(0.0, 0.1, 600)
    shop.table(SECOND, np.column_stack([new, Y[:, 1]]), a=Y[:, 0])
    shop.run(FIRST, input={"columns": ["x0", "x1"]})
    with pytest.raises(DataError, match=r"continuity.previous: the model of .* 'x0'"):
        shop.run(SECOND, input={"columns": ["a", "x1"]})
    table = {"x1": Y[:, 1], "new": new, "x0": Y[:, 0]}
    shop.table(SECOND, np.zeros((600, 0)), **table)
    report = shop.run(SECOND)
    assert shop.ids(SECOND, y) == {0: 0, 1: 1, 2: 2}
    assert {c.column for c in report.drift.columns} == {"x0", "x1"}
    assert not [text for text in report.warnings if "ignored" in text]


# Modes


@pytest.fixture(scope="module", params=FORMS)
def learned(request, tmp_path_factory):
    """A table, and runs over it that learned their models, with an output of each format."""
    folder = tmp_path_factory.mktemp("learned")
    table = write_table(folder / "t.parquet", three_clusters(700), event=np.arange(700) + 5)
    given = {"input": {"id": "event"}}
    outs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("distsvc.run.report_files.render_page", lambda _: "a page")
        for form in ("parquet", "zarr"):
            outs[form] = folder / form
            output = {"path": str(outs[form]), "format": form}
            run_job(small_job(table, FORMS[request.param], output=output, **given))
    return request.param, table, outs


@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_a_model_that_labels_again_gives_the_same_bytes(learned, form, tmp_path):
    name, table, outs = learned
    content = {"input": {"id": "event"}, "continuity": {"previous": str(outs["parquet"])}}
    content["output"] = {"path": str(tmp_path / "out"), "format": form}
    job = small_job(table, FORMS[name] | {"mode": "assign"}, **content)
    forget()
    report = run_job(job)
    out = tmp_path / "out"
    assert digests(labels_folder(out)) == digests(labels_folder(outs[form]))
    for file in ("model.json", "arrays.npz"):
        assert published_file(out, file).read_bytes() == (
            published_file(outs["parquet"], file).read_bytes()
        )
    before = json.loads((outs["parquet"] / "manifest.json").read_text())
    assert report.model.fitted["learned_by"] == before["run_id"]
    assert report.lineage.mode == "assign"
    assert {story.event for story in report.lineage.clusters} == {"survived"}
    assert (report.lineage.moved, report.lineage.rows) == (0.0, 700)
    assert {column.index for column in report.drift.columns} == {0.0}
    assert report.drift.score == 0.0
    assert report.drift.outlier_share_before == report.drift.outlier_share_after
    if form == "zarr":
        label = zarr.open_array(str(labels_folder(out) / "label"))[:]
        np.testing.assert_array_equal(label, read_labels(outs["parquet"])["label"].to_numpy())


AUTO = {"algorithm": "bico", "n_clusters": 3, "mode": "auto"}


def test_auto_labels_with_the_model_before_until_the_table_drifts(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 100, seed=1)[0])
    X, y = rows(300, 200, 100, seed=2, shift=1.5)
    shop.table(THIRD, X)
    shop.run(FIRST, model=AUTO)
    report = shop.run(SECOND, model=AUTO)
    assert report.lineage.mode == "assign"
    first = shop.manifest(FIRST)["run_id"]
    assert report.model.fitted == {"learned_by": first, "n_clusters": 3}
    report = shop.run(THIRD, model=AUTO)
    assert report.lineage.mode == "refit"
    assert [text.split(":")[0] for text in report.lineage.because] == ["max_drift"]
    assert "at most 0.25 expected" in report.lineage.because[0]
    assert "learned_by" not in report.model.fitted
    assert shop.ids(THIRD, y) == {0: 0, 1: 1, 2: 2}
    assert not (shop.out(THIRD) / "labels" / "assign").exists()
    assert shop.said(THIRD, "model.json")["chosen_columns"] is False, "predict tells of others"


def test_auto_has_the_limits_of_the_checks(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 100, seed=2, shift=1.5)[0])
    shop.run(FIRST, model=AUTO)
    report = shop.run(SECOND, model=AUTO, checks={"max_drift": 100.0})
    assert report.lineage.mode == "assign"


def published_bytes(out):
    """Return what a run published, but for its page and report, by names of its own."""
    names = ("lineage.json", "drift.json", "model.json", "arrays.npz")
    return [published_file(out, name).read_bytes() for name in names], digests(labels_folder(out))


@pytest.mark.parametrize("moment", ["assign/00001", "clustering", "match", "label/00001"])
def test_auto_that_is_killed_goes_on_to_the_same_bytes(shop, moment, monkeypatch):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 200, 100, seed=2, shift=1.5)[0])
    shop.run(FIRST, model=AUTO)
    undisturbed = {"path": f"{shop.folder}/other"}
    shop.run(SECOND, model=AUTO, output=undisturbed)
    do, cluster = Phase.do, jobs.cluster_table

    def stopped(self, run, number):
        if self.result(number) == moment:
            raise KeyboardInterrupt
        return do(self, run, number)

    def not_begun(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(Phase, "do", stopped)
        if moment == "clustering":
            patch.setattr(jobs, "cluster_table", not_begun)
        if moment == "match":
            patch.setattr("distsvc.run.clustering.ids_of", not_begun)
        shop.run(SECOND, model=AUTO)
    assert not (shop.out(SECOND) / "manifest.json").exists()
    assert len(Output(shop.out(SECOND)).kept_works()) == 1
    assert jobs.cluster_table is cluster
    report = shop.run(SECOND, model=AUTO)
    assert report.lineage.because
    assert published_bytes(shop.out(SECOND)) == published_bytes(shop.folder / "other")
    assert collect(shop.out(SECOND)) == []


# Checks

LIMITS = {
    "min_rows": 600,
    "max_outlier_share": 0.9,
    "clusters": [2, 5],
    "max_rows_moved": 0.5,
    "max_drift": 1.0,
    "min_agreement": 0.1,
}


def test_checks_that_pass_or_are_not_measured(shop):
    for date, seed in ((FIRST, 0), (SECOND, 1)):
        shop.table(date, rows(300, 200, 100, seed=seed)[0])
        report = shop.run(date, checks=LIMITS)
    states = {check.name: check.state for check in report.checks}
    measured = {"min_rows", "clusters", "max_rows_moved", "max_drift"}
    assert states == {name: "passed" if name in measured else "not measured" for name in LIMITS}
    assert not report.held
    told = shop.manifest(SECOND)["checks"]
    assert [check["name"] for check in told] == list(LIMITS)


WRONG = {
    "min_rows": (601, "min_rows: 600 rows, at least 601 expected"),
    "clusters": ([4, 9], "clusters: 3 clusters, 4 to 9 expected"),
    "max_drift": (0.0, "max_drift: "),
    "max_rows_moved": (0.1, "max_rows_moved: 33.3 % of the rows have another id than before"),
}


@pytest.mark.parametrize("level", ["error", "warn"])
@pytest.mark.parametrize("name", WRONG)
def test_a_check_that_fails_holds_the_run_or_warns(shop, name, level):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 100, 0, 200, seed=1)[0])
    shop.run(FIRST)
    limit, words = WRONG[name]
    checks = {name: {"limit": limit, "level": level}}
    if level == "error":
        with pytest.raises(CheckFailedError, match=r"^run .* is held back: ") as caught:
            shop.run(SECOND, checks=checks)
        assert words in str(caught.value)
        assert not (shop.out(SECOND) / "manifest.json").exists()
        return
    report = shop.run(SECOND, checks=checks)
    assert [check.state for check in report.checks] == ["warned"]
    assert any(text.startswith(words) for text in report.warnings)
    assert not report.held


def test_a_held_run_is_kept_beside_what_is_published(shop, monkeypatch):
    """The output is one folder, replaced every night."""
    given = {"output": {"path": f"{shop.folder}/out/now"}}
    given["continuity"] = {"previous": f"{shop.folder}/out/now"}
    X, _ = rows(300, 200, 100)
    shop.table(FIRST, X)
    shop.run(FIRST, **given)
    before = {str(path): path.read_bytes() for path in listed(shop.out("now"))}
    manifest = (shop.out("now") / "manifest.json").read_bytes()
    copies = {
        name: (shop.out("now") / name).read_bytes() for name in ("report.html", "report.json")
    }
    shop.table(SECOND, X[:500])
    again = ("--overwrite",)
    given["checks"] = {"min_rows": 550}
    result = invoked(shop, SECOND, *again, monkeypatch=monkeypatch, **given)
    assert result.exit_code == 76, result.output
    (run_id,) = Output(shop.out("now")).held()
    assert "min_rows: 500 rows, at least 550 expected" in result.stderr
    assert f"distsvc publish {shop.out('now')} --held {run_id}" in result.stderr
    assert "Traceback" not in result.stderr
    assert (shop.out("now") / "manifest.json").read_bytes() == manifest
    assert {str(path): path.read_bytes() for path in listed(shop.out("now"))} == before
    assert {name: (shop.out("now") / name).read_bytes() for name in copies} == copies
    held = Output(shop.out("now")).held()[run_id]
    assert held["rows"] == 500
    assert [check["state"] for check in held["checks"]] == ["failed"]
    for file in held["files"]:
        assert (shop.out("now") / file["file"]).stat().st_size == file["bytes"]
    report = next(file["file"] for file in held["files"] if file["file"].endswith("report.json"))
    assert json.loads((shop.out("now") / report).read_text())["held"] is True
    assert collect(shop.out("now")) == [], "what is held is kept"

    shop.table(THIRD, rows(100, 300, 200, seed=1)[0])
    result = invoked(shop, THIRD, *again, monkeypatch=monkeypatch, **given)
    assert result.exit_code == 0, result.output
    assert Output(shop.out("now")).held() == {}
    removed = collect(shop.out("now"))
    assert {file["file"] for file in held["files"]} <= set(removed)
    assert shop.ids("now", rows(100, 300, 200, seed=1)[1]) == {0: 0, 1: 1, 2: 2}


# One output for every night


@pytest.mark.parametrize("mode", ["refit", "assign", "auto"])
def test_an_output_that_goes_on_from_itself(shop, mode, monkeypatch):
    given = {"output": {"path": f"{shop.folder}/out/now"}}
    given["continuity"] = {"previous": f"{shop.folder}/out/now"}
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.run(FIRST, **given)
    first = shop.manifest("now")["run_id"]
    X, y = rows(100, 300, 200, seed=1)
    shop.table(SECOND, X)
    given["model"] = {"algorithm": "bico", "n_clusters": 3, "mode": mode}
    # (the mode is a part of the job, so the first night's is another job)
    result = invoked(shop, SECOND, "--overwrite", monkeypatch=monkeypatch, **given)
    assert result.exit_code == 0, result.output
    assert shop.ids("now", y) == {0: 0, 1: 1, 2: 2}
    second = shop.manifest("now")
    assert second["previous"]["run_id"] == first
    before = (shop.out("now") / "manifest.json").read_bytes()
    for options in ((), ("--overwrite",)):
        result = invoked(shop, SECOND, *options, monkeypatch=monkeypatch, **given)
        assert result.exit_code == 0, result.output
        assert (shop.out("now") / "manifest.json").read_bytes() == before, "it was published"
    shop.table(SECOND, X[:500])
    result = invoked(shop, SECOND, monkeypatch=monkeypatch, **given)
    assert result.exit_code == 78
    assert "published from an input that has changed since; give --overwrite" in result.output


def test_assign_without_a_model_names_what_was_looked_for(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    model = {"algorithm": "bico", "n_clusters": 3, "mode": "assign"}
    with pytest.raises(InputNotFoundError, match=r"no run is published at .* or at 30 others"):
        shop.run(FIRST, model=model)
    other = {"previous": str(shop.folder / "nowhere")}
    with pytest.raises(InputNotFoundError, match=r"published at [^ ]*nowhere, whose model"):
        shop.run(FIRST, model=model, continuity=other)


def test_parts_have_ids_in_them(shop):
    """Not labels, which are the rule's."""
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(0, 200, 300, seed=1)[0])
    shop.run(FIRST)
    shop.run(SECOND, model={"n_clusters": 2})
    found = [
        pq.read_table(path)["label"].to_pylist() for path in listed(shop.out(SECOND), "labels/")
    ]
    assert {i for part in found for i in part} == {1, 2}
    assert shop.manifest(SECOND)["clusters"] == 2
    assert Path(published_file(shop.out(SECOND), "lineage.json")).exists()


def named_labels(content):
    """Return every cluster that some JSON names by its ``label``."""
    if isinstance(content, list):
        return set().union(*map(named_labels, content))
    if not isinstance(content, dict):
        return set()
    found = content.get("label")
    own = set(found) if isinstance(found, list) else {found} - {None}
    return own.union(*map(named_labels, content.values()))


@pytest.mark.parametrize("form", ["level-tree", "support-vector", "imdh", "centres"])
def test_a_report_names_clusters_by_their_ids(form, tmp_path, monkeypatch):
    def odd(steps, rule, survey, match):
        k = rule.n_clusters
        return Ids((np.arange(k)[::-1] * 7 + 3).astype(np.int32), 7 * k + 10)

    monkeypatch.setattr("distsvc.run.clustering.ids_of", odd)
    table = write_table(tmp_path / "t.parquet", three_clusters(700))
    forget()
    report = run_job(small_job(table, FORMS[form]))
    rows_of = {cluster.label: cluster.rows for cluster in report.clusters}
    found = read_labels(tmp_path / "out")["label"].to_numpy()
    assert rows_of == {i: int((found == i).sum()) for i in (3, 10, 17)}
    assert named_labels(report.dumped()) == set(rows_of)
