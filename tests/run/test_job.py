"""The whole job: the same labels however it is done, and a run that is whole or absent."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr
from distributed import LocalCluster
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from distsvc import SupportVectorClustering
from distsvc.config import parse_job
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.report.content import Report
from distsvc.models.support_vector.boundary_engine import BoundaryEngine
from distsvc.report.page import render_page
from distsvc.run import job as job_module
from distsvc.run import summary, tasks
from distsvc.run.job import predict_table, run_job
from distsvc.run.summary import rewrite_page

MODEL = {"gamma": 4.0, "nu": 0.1, "max_iter": 20_000, "budget": 40}
N = 900


def blobs(n: int = N, seed: int = 0) -> pa.Table:
    """Three clusters in two columns of unlike scale, an id, a class, and a column to filter by."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    X = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.5]])[y] + random.normal(0, 0.4, (n, 2))
    return pa.table(
        {
            "x": X[:, 0],
            "y": 100.0 * X[:, 1] + 7.0,
            "event": pa.array(random.permutation(n) + 10_000),
            "class": pa.array(np.array(["a", "b", "c"])[y]),
            "split": pa.array(np.arange(n) % 3, pa.int8()),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The blobs as Parquet, in row groups of 100."""
    path = tmp_path_factory.mktemp("data") / "blobs.parquet"
    pq.write_table(blobs(), path, row_group_size=100)
    return path


@pytest.fixture(scope="module")
def one_worker():
    with LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def two_workers():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def quick_page(monkeypatch):
    """Drawing the page takes longer than all the rest; `published` has a real one."""
    for module in (summary, job_module):
        monkeypatch.setattr(module, "render_page", lambda _: "a page")


FEATURES = {"columns": ["x", "y"]}


def config(path, out, **sections):
    given = {
        "input": {"path": str(path)} | FEATURES | sections.pop("input", {}),
        "output": {"path": str(out)} | sections.pop("output", {}),
        "model": MODEL | sections.pop("model", {}),
        "cluster": {"partition_rows": 300, "block_rows": 100} | sections.pop("cluster", {}),
    }
    return parse_job(given | sections)


def files(out) -> dict[str, str]:
    return {
        str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(Path(out).rglob("*"))
        if p.is_file()
    }


def label_files(out) -> dict[str, str]:
    return {name: digest for name, digest in files(out).items() if name.startswith("labels/")}


def labels(out) -> pa.Table:
    return pq.read_table(sorted((Path(out) / "labels").iterdir()))


@pytest.fixture(scope="module")
def published(table, tmp_path_factory):
    """One run, done in this process, that tests may read and not change."""
    out = tmp_path_factory.mktemp("out") / "run"
    return out, run_job(config(table, out, input={"label": "class"}), command="distsvc run x")


# The same labels


@pytest.mark.parametrize("block_rows", [97, 1000, 65536])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_and_blocks_do_not_change_a_byte(
    request, table, published, tmp_path, workers, block_rows
):
    scheduler = [None, "one_worker", "two_workers"][workers]
    run_job(
        config(table, tmp_path / "out", cluster={"block_rows": block_rows, "workers": 0}),
        scheduler=scheduler and request.getfixturevalue(scheduler),
    )
    assert len(label_files(tmp_path / "out")) == 3
    assert label_files(tmp_path / "out") == label_files(published[0])
    assert (tmp_path / "out/model/arrays.npz").read_bytes() == (
        published[0] / "model/arrays.npz"
    ).read_bytes()


@pytest.mark.parametrize(("rows", "parts"), [(100, 9), (450, 3), (10_000, 1), (49, 27)])
def test_partitions_do_not_change_a_label(table, published, tmp_path, rows, parts):
    run_job(config(table, tmp_path / "out", cluster={"partition_rows": rows}))
    assert len(label_files(tmp_path / "out")) == parts
    assert labels(tmp_path / "out").equals(labels(published[0]))


def test_row_groups_do_not_change_a_label(published, tmp_path):
    pq.write_table(blobs(), tmp_path / "one.parquet")
    run_job(config(tmp_path / "one.parquet", tmp_path / "out"))
    assert labels(tmp_path / "out").equals(labels(published[0]))


@pytest.mark.parametrize("form", ["zarr", "zarr-group", "csv", "folder"])
def test_the_kind_of_input_does_not_change_a_label(published, tmp_path, form):
    data = blobs()
    X = np.column_stack([data["x"], data["y"]])
    path, given = tmp_path / "in", {}
    if form == "zarr":
        path = tmp_path / "in.zarr"
        zarr.create_array(path, data=X, chunks=(128, 2))
        given = {"columns": ["f0", "f1"]}
    elif form == "zarr-group":
        group = zarr.create_group(path)
        for name in ("x", "y"):
            group.create_array(name, data=data[name].to_numpy(), chunks=(128,))
    elif form == "csv":
        path = tmp_path / "in.csv"
        pa.csv.write_csv(data, path)
    else:
        for k in range(3):
            (path / f"part={k}").mkdir(parents=True)
            pq.write_table(data.slice(300 * k, 300), path / f"part={k}" / "rows.parquet")
    run_job(config(path, tmp_path / "out", input=given))
    assert labels(tmp_path / "out").equals(labels(published[0]))


def test_the_job_equals_the_estimator(table, tmp_path):
    run_job(config(table, tmp_path / "out", preprocess={"scale": "none"}, model={"gamma": 0.001}))
    X = np.column_stack([blobs()["x"], blobs()["y"]])
    estimator = SupportVectorClustering(**(MODEL | {"gamma": 0.001}), random_state=0).fit(X)
    found = labels(tmp_path / "out")
    np.testing.assert_array_equal(found["label"], estimator.labels_)
    np.testing.assert_allclose(found["score"], estimator.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("scale", "scaler", "gamma"),
    [("standard", StandardScaler(), 4), ("minmax", MinMaxScaler(), 60)],
)
def test_scaling_is_scikit_learns(table, tmp_path, scale, scaler, gamma):
    model = {"gamma": float(gamma)}
    run_job(config(table, tmp_path / "out", preprocess={"scale": scale}, model=model))
    X = scaler.fit_transform(np.column_stack([blobs()["x"], blobs()["y"]]))
    estimator = SupportVectorClustering(**(MODEL | model), random_state=0).fit(X)
    found = labels(tmp_path / "out")
    np.testing.assert_array_equal(found["label"], estimator.labels_)
    np.testing.assert_allclose(found["score"], estimator.decision_function(X), atol=1e-4)
    assert adjusted_rand_score(blobs()["class"].to_pylist(), estimator.labels_) > 0.95


def test_a_sorted_table_is_clustered_as_well_as_a_shuffled_one(tmp_path):
    data = blobs(3000)
    quality = []
    for name, rows in {"shuffled": data, "sorted": data.sort_by("class")}.items():
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=500)
        run_job(
            config(
                tmp_path / f"{name}.parquet",
                tmp_path / name,
                model={"max_iter": 1500},
                cluster={"partition_rows": 500},
            )
        )
        found = labels(tmp_path / name)["label"].to_numpy()
        quality.append(adjusted_rand_score(rows["class"].to_pylist(), found))
    assert min(quality) > 0.98
    assert abs(quality[0] - quality[1]) < 0.02


def test_the_seed_decides(table, published, tmp_path):
    run_job(config(table, tmp_path / "out", model={"seed": 1}))
    assert not labels(tmp_path / "out")["score"].equals(labels(published[0])["score"])
    assert (
        adjusted_rand_score(labels(tmp_path / "out")["label"], labels(published[0])["label"]) > 0.95
    )


# What the job asks for


def test_the_report(published):
    out, report = published
    read = json.loads((out / "report.json").read_text())
    assert report | {"phases": report["phases"][:-1]} == read
    assert report["input"]["n_rows"] == report["input"]["n_rows_read"] == N
    assert report["input"]["columns"] == ["x", "y"]
    assert report["command"] == "distsvc run x"
    assert sum(cluster["rows"] for cluster in report["clusters"]) == N
    found = labels(out)
    for cluster in report["clusters"]:
        inside = found["label"].to_numpy() == cluster["label"]
        assert cluster["rows"] == inside.sum()
        assert cluster["outliers"] == found["outlier"].to_numpy()[inside].sum()
    assert report["outliers"]["rows"] == found["outlier"].to_numpy().sum()
    assert sum(report["score_histogram"]["counts"]) == N
    expected = adjusted_rand_score(blobs()["class"].to_pylist(), found["label"])
    assert report["indices"]["adjusted_rand_index"]["value"] == pytest.approx(expected)
    assert [phase["name"] for phase in report["phases"]][:3] == ["open", "cluster", "survey"]
    assert "indices" not in run_without_label(out)


def run_without_label(out) -> dict:
    job = json.loads((out / "manifest.json").read_text())["job"]
    return run_job(config(job["input"]["path"], out.parent / "unlabelled"))


def test_an_outlier_is_a_row_with_a_negative_score(published):
    found = labels(published[0])
    np.testing.assert_array_equal(found["outlier"], found["score"].to_numpy() < 0)
    assert found["label"].to_numpy().min() >= 0
    assert 0.05 < found["outlier"].to_numpy().mean() < 0.15
    np.testing.assert_array_equal(found["row"], np.arange(N))


def test_where_and_id(table, tmp_path):
    given = {"id": "event", "where": "split != 1 and x < 3"}
    report = run_job(config(table, tmp_path / "out", input=given))
    data = blobs()
    kept = (data["split"].to_numpy() != 1) & (data["x"].to_numpy() < 3)
    found = labels(tmp_path / "out")
    assert found.column_names == ["event", "label", "score", "outlier"]
    np.testing.assert_array_equal(found["event"], data["event"].to_numpy()[kept])
    assert report["input"]["n_rows"] == kept.sum()
    assert report["input"]["n_rows_read"] == N


def test_rows_are_numbered_in_the_whole_table(table, tmp_path):
    run_job(config(table, tmp_path / "out", input={"where": "split == 2"}))
    np.testing.assert_array_equal(labels(tmp_path / "out")["row"], np.arange(2, N, 3))


def test_partitions_that_where_empties(tmp_path):
    """Their parts have no rows, and the same columns, so that a reader can join all."""
    data = blobs().append_column("name", pa.array([f"n{i}" for i in range(N)]))
    data = data.append_column("place", pa.array(np.arange(N)))
    pq.write_table(data, tmp_path / "in.parquet", row_group_size=100)
    given = {"id": "name", "where": "place >= 350 and place < 550", "columns": ["x", "y"]}
    run_job(
        config(
            tmp_path / "in.parquet", tmp_path / "out", input=given, cluster={"partition_rows": 100}
        )
    )
    assert len(label_files(tmp_path / "out")) == 9
    assert labels(tmp_path / "out")["name"].to_pylist() == [f"n{i}" for i in range(350, 550)]


def test_default_columns_leave_out_id_label_and_where(table, tmp_path):
    given = {"columns": None, "id": "event", "label": "class", "where": "split < 2"}
    report = run_job(config(table, tmp_path / "out", input=given))
    assert report["input"]["columns"] == ["x", "y"]


@pytest.fixture
def holes(tmp_path):
    """The blobs with missing values in every tenth row, and the rows that have them."""
    data = blobs()
    x, y = data["x"].to_numpy().copy(), data["y"].to_numpy().copy()
    x[5::20], y[15::20] = np.nan, np.nan
    path = tmp_path / "holes.parquet"
    pq.write_table(pa.table({"x": pa.array(x, from_pandas=True), "y": y}), path, row_group_size=100)
    return path, np.isnan(x) | np.isnan(y)


def test_missing_error(holes, tmp_path):
    message = r"holes\.parquet: column 'x', row 5: expected a finite number .*'drop' or 'median'"
    with pytest.raises(DataError, match=message):
        run_job(config(holes[0], tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_missing_drop(holes, tmp_path):
    report = run_job(config(holes[0], tmp_path / "out", preprocess={"missing": "drop"}))
    found = labels(tmp_path / "out")
    np.testing.assert_array_equal(found["row"], np.flatnonzero(~holes[1]))
    assert report["input"]["n_rows"] == N - holes[1].sum()


def test_missing_median(holes, tmp_path):
    report = run_job(config(holes[0], tmp_path / "out", preprocess={"missing": "median"}))
    np.testing.assert_array_equal(labels(tmp_path / "out")["row"], np.arange(N))
    assert (
        f"{holes[1].sum()} missing values were replaced by their columns' medians"
        in (report["warnings"])
    )
    arrays = np.load(tmp_path / "out/model/arrays.npz", allow_pickle=False)
    medians = [np.nanmedian(pq.read_table(holes[0])[name]) for name in ("x", "y")]
    np.testing.assert_allclose(arrays["fill"], medians)


def test_zarr_output(table, published, tmp_path):
    run_job(config(table, tmp_path / "out", output={"format": "zarr"}))
    group, expected = zarr.open_group(tmp_path / "out", mode="r"), labels(published[0])
    for name in ("row", "label", "score", "outlier"):
        np.testing.assert_array_equal(group[name][:], expected[name])
    assert not (tmp_path / "out/labels").exists()
    assert group.attrs["id"] == "row"


# A run is whole or absent


def check_manifest(out) -> dict:
    manifest = json.loads((out / "manifest.json").read_text())
    listed = {file["file"]: file for file in manifest["files"]}
    found = files(out)
    assert set(listed) == set(found) - {"manifest.json", "_SUCCESS"}
    for name, file in listed.items():
        assert file["sha256"] == found[name]
        assert file["bytes"] == (out / name).stat().st_size
    return manifest


def test_the_manifest_lists_exactly_the_files(published):
    out, _ = published
    manifest = check_manifest(out)
    parts = [file for file in manifest["files"] if file["file"].startswith("labels/")]
    assert [part["rows"] for part in parts] == [300, 300, 300]
    assert manifest["rows"] == N
    assert manifest["clusters"] == 3
    assert {file["file"] for file in manifest["files"]} - {part["file"] for part in parts} == {
        "model/arrays.npz",
        "model/model.json",
        "report.html",
        "report.json",
    }
    assert (out / "_SUCCESS").exists()
    assert not (out / ".runs").exists()


def test_the_manifest_of_zarr(table, tmp_path):
    run_job(config(table, tmp_path / "out", output={"format": "zarr"}))
    listed = {file["file"] for file in check_manifest(tmp_path / "out")["files"]}
    assert {"zarr.json", "label/zarr.json", "label/c/0"} <= listed


def test_two_runs_differ_in_nothing_but_times(table, tmp_path):
    manifests = []
    for name in ("a", "b"):
        run_job(config(table, tmp_path / name))
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        del manifest["created"], manifest["job"]["output"]["path"]
        manifest["files"] = [f for f in manifest["files"] if "report" not in f["file"]]
        manifests.append(manifest)
    assert manifests[0] == manifests[1]


def test_an_identical_run_is_not_done_again(table, tmp_path, monkeypatch):
    job = config(table, tmp_path / "out")
    run_job(job)
    first = json.loads((tmp_path / "out/report.json").read_text())
    before = files(tmp_path / "out")

    def unwanted(*_):
        raise AssertionError("work was done")

    monkeypatch.setattr(job_module, "survey_table", unwanted)
    assert run_job(job) == first
    elsewhere = config(table, tmp_path / "out", cluster={"workers": 2, "partition_rows": 7})
    assert run_job(elsewhere) == first
    assert files(tmp_path / "out") == before


def test_another_configuration_is_refused_unless_overwritten(table, tmp_path):
    run_job(config(table, tmp_path / "out", cluster={"partition_rows": 100}))
    before = files(tmp_path / "out")
    other = config(table, tmp_path / "out", model={"nu": 0.2})
    message = "was already published by a different configuration; give --overwrite"
    with pytest.raises(JobFileError, match=message):
        run_job(other)
    assert files(tmp_path / "out") == before
    run_job(other, overwrite=True)
    assert len(label_files(tmp_path / "out")) == 3, "parts of the old run are left"
    check_manifest(tmp_path / "out")


def test_a_changed_input_is_refused(tmp_path):
    pq.write_table(blobs(), tmp_path / "in.parquet")
    job = config(tmp_path / "in.parquet", tmp_path / "out")
    run_job(job)
    pq.write_table(blobs(seed=1), tmp_path / "in.parquet")
    with pytest.raises(
        JobFileError, match="from an input that has changed since; give --overwrite"
    ):
        run_job(job)
    run_job(job, overwrite=True)


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (tasks, "survey_partition", DataError("broken")),
        (tasks, "find_boundary", KeyboardInterrupt()),
        (tasks, "label_partition", DataError("broken")),
        (BoundaryEngine, "train", SystemExit(143)),
        (summary, "make_report", OSError("disk full")),
        (summary, "manifest", KeyboardInterrupt()),
    ],
)
def test_a_failed_run_leaves_nothing(table, tmp_path, monkeypatch, place, name, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(place, name, fail)
    with pytest.raises(type(error)):
        run_job(config(table, tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_what_was_published(table, tmp_path, monkeypatch):
    run_job(config(table, tmp_path / "out"))
    before = files(tmp_path / "out")
    monkeypatch.setattr(summary, "make_report", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_job(config(table, tmp_path / "out", model={"nu": 0.2}), overwrite=True)
    assert files(tmp_path / "out") == before
    check_manifest(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "exit_code", "workers"), [("SIGINT", 130, 0), ("SIGTERM", 143, 1)]
)
def test_an_interrupted_run_leaves_nothing(table, tmp_path, name, exit_code, workers):
    path = tmp_path / "job.toml"
    path.write_text(
        f'[input]\npath = "{table}"\ncolumns = ["x", "y"]\n'
        '[model]\ngamma = 4.0\nstopping = "step-norm"\ntheta = 1e-300\nmax_iter = 1000000000000\n'
        f'[cluster]\nworkers = {workers}\n[output]\npath = "{tmp_path}/out"\n'
    )
    command = [sys.executable, "-m", "distsvc", "run", str(path)]
    # A process started in the background may have been told to ignore SIGINT, and so its children.
    restore = "import signal, sys, os; signal.signal(signal.SIGINT, signal.default_int_handler); "
    restore += "os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", restore, *command], stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if json.loads(line).get("phase") == "prepare":
                break
        children = psutil.Process(process.pid).children(recursive=True)
        assert any((tmp_path / "out" / ".runs").iterdir())
        process.send_signal(getattr(signal, name))
        _, error = process.communicate(timeout=60)
    assert process.returncode == exit_code, error
    assert "Traceback" not in error
    assert len(children) >= workers
    assert psutil.wait_procs(children, timeout=30)[1] == []
    assert [p.name for p in tmp_path.iterdir()] == ["job.toml"]


# Predict and report


def test_predicting_the_same_table_gives_the_same_labels(table, published, tmp_path):
    manifest = predict_table(published[0], str(table), str(tmp_path / "out"))
    assert labels(tmp_path / "out").equals(labels(published[0]))
    assert manifest == check_manifest(tmp_path / "out")
    assert manifest["rows"] == N


def test_predict_scales_new_rows_as_the_models(published, tmp_path):
    few = blobs().slice(100, 5)
    pq.write_table(few, tmp_path / "few.parquet")
    predict_table(published[0], str(tmp_path / "few.parquet"), str(tmp_path / "out"))
    expected = labels(published[0]).slice(100, 5)
    for name in ("label", "score", "outlier"):
        assert labels(tmp_path / "out")[name].equals(expected[name])


@pytest.fixture(scope="module")
def with_default_columns(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "default"
    given = {"columns": None, "id": "event", "label": "class", "where": "split < 3"}
    run_job(config(table, out, input=given))
    return out


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["y", "x", "event"], "found 2: y, x"),
        (["x", "event"], "found 1: x"),
        (["x", "y", "split", "extra", "event"], "found 3: x, y, extra"),
    ],
)
def test_predict_with_other_columns(with_default_columns, tmp_path, columns, found):
    data = blobs().append_column("extra", pa.array(np.zeros(N))).select(columns)
    pq.write_table(data, tmp_path / "in.parquet")
    message = rf"expected the model's 2 columns in their order, x, y; {found}$"
    with pytest.raises(DataError, match=message):
        predict_table(with_default_columns, str(tmp_path / "in.parquet"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_predict_keeps_the_id(with_default_columns, table, tmp_path):
    predict_table(with_default_columns, str(table), str(tmp_path / "out"))
    np.testing.assert_array_equal(labels(tmp_path / "out")["event"], blobs()["event"])


def test_predict_finds_chosen_columns_by_name(published, tmp_path):
    data = blobs().select(["split", "y", "class", "x"])
    pq.write_table(data, tmp_path / "in.parquet")
    predict_table(published[0], str(tmp_path / "in.parquet"), str(tmp_path / "out"))
    assert labels(tmp_path / "out").equals(labels(published[0]))


def test_predict_without_a_chosen_column(published, tmp_path):
    pq.write_table(blobs().select(["x", "split"]), tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"in\.parquet has no column 'y'"):
        predict_table(published[0], str(tmp_path / "in.parquet"), str(tmp_path / "out"))


def test_predict_again_does_nothing(published, table, tmp_path):
    first = predict_table(published[0], str(table), str(tmp_path / "out"))
    before = (tmp_path / "out/manifest.json").stat().st_mtime_ns
    assert predict_table(published[0], str(table), str(tmp_path / "out")) == first
    assert (tmp_path / "out/manifest.json").stat().st_mtime_ns == before


def test_predict_with_another_model_is_refused_unless_overwritten(published, table, tmp_path):
    run_job(config(table, tmp_path / "other", model={"nu": 0.3}))
    predict_table(published[0], str(table), str(tmp_path / "out"))
    with pytest.raises(JobFileError, match="already published by a different configuration"):
        predict_table(tmp_path / "other", str(table), str(tmp_path / "out"))
    predict_table(tmp_path / "other", str(table), str(tmp_path / "out"), overwrite=True)
    assert labels(tmp_path / "out").equals(labels(tmp_path / "other"))


def test_predict_does_not_replace_a_run(published, table):
    before = files(published[0])
    with pytest.raises(JobFileError, match="already published by a different configuration"):
        predict_table(published[0], str(table), str(published[0]))
    assert files(published[0]) == before


def test_predict_from_a_folder_without_a_manifest(published, table, tmp_path):
    with pytest.raises(InputNotFoundError, match=r"no run is published in .*: it has no manifest"):
        predict_table(published[0] / "labels", str(table), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def copied(published, tmp_path) -> Path:
    for name in files(published[0]):
        target = tmp_path / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((published[0] / name).read_bytes())
    return tmp_path / "copy"


def test_predict_with_a_damaged_model(published, table, tmp_path):
    copy = copied(published, tmp_path)
    content = (copy / "model/arrays.npz").read_bytes()
    (copy / "model/arrays.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"arrays\.npz can't be read"):
        predict_table(copy, str(table), str(tmp_path / "out"))


def test_predict_with_a_newer_model(published, table, tmp_path):
    copy = copied(published, tmp_path)
    model = json.loads((copy / "model/model.json").read_text())
    (copy / "model/model.json").write_text(json.dumps(model | {"format": 99}))
    with pytest.raises(JobFileError, match="has format 99, expected 3"):
        predict_table(copy, str(table), str(tmp_path / "out"))


def test_the_page_can_be_written_again(published, tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "render_page", render_page)
    copy = copied(published, tmp_path)
    (copy / "report.html").write_text("lost")
    assert rewrite_page(copy) == copy / "report.html"
    report = json.loads((copy / "report.json").read_text())
    assert (copy / "report.html").read_text() == render_page(Report.parsed(report, "report.json"))
    check_manifest(copy)
    with pytest.raises(InputNotFoundError, match="no run is published in"):
        rewrite_page(tmp_path)


def test_a_damaged_report_is_named(published, tmp_path):
    copy = copied(published, tmp_path)
    page = (copy / "report.html").read_bytes()
    report = json.loads((copy / "report.json").read_text())
    report["input"]["n_rows"] = "many"
    (copy / "report.json").write_text(json.dumps(report))
    expected = "report.json: input.n_rows: expected a valid integer, found 'many'"
    with pytest.raises(DataError, match=expected):
        rewrite_page(copy)
    assert (copy / "report.html").read_bytes() == page


def test_a_task_can_be_done_by_hand_and_twice(table, tmp_path, monkeypatch):
    """As after a lost worker: the second file is the first, byte for byte."""
    real = tasks.label_partition

    def twice(run_dir, number):
        rows = real(run_dir, number)
        part = Path(run_dir) / "labels" / f"part-{number:05d}.parquet"
        before = part.read_bytes()
        assert real(run_dir, number) == rows
        assert part.read_bytes() == before
        assert os.listdir(part.parent).count(part.name) == 1
        return rows

    monkeypatch.setattr(tasks, "label_partition", twice)
    run_job(config(table, tmp_path / "out"))
    check_manifest(tmp_path / "out")
