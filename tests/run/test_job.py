"""The whole job: the same labels however it is done, and what the job asks for."""

import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from distsvc import SupportVectorClustering
from distsvc.run.job import run_job
from distsvc.run.work.start import ClusterAddress
from tests.clusters import loopback_cluster
from tests.jobs.blob_jobs import MODEL, N, blobs, config, label_files, labels
from tests.published_files import labels_folder, published_file

pytestmark = pytest.mark.usefixtures("quick_page")


# The same labels


@pytest.mark.parametrize(("workers", "block_rows"), [(0, 97), (0, 65536), (1, 1000), (2, 97)])
def test_workers_and_blocks_do_not_change_a_byte(
    blob_table, blob_run, tmp_path, workers, block_rows
):
    job = config(blob_table, tmp_path / "out", cluster={"block_rows": block_rows, "workers": 0})
    with loopback_cluster(workers) if workers else nullcontext() as cluster:
        run_job(job, ClusterAddress(cluster and cluster.scheduler_address))
    assert len(label_files(tmp_path / "out")) == 3
    assert label_files(tmp_path / "out") == label_files(blob_run[0])
    assert published_file(tmp_path / "out", "arrays.npz").read_bytes() == (
        published_file(blob_run[0], "arrays.npz").read_bytes()
    )


@pytest.mark.parametrize(("rows", "parts"), [(100, 9), (450, 3), (10_000, 1), (49, 27)])
def test_partitions_do_not_change_a_label(blob_table, blob_run, tmp_path, rows, parts):
    run_job(config(blob_table, tmp_path / "out", cluster={"partition_rows": rows}))
    assert len(label_files(tmp_path / "out")) == parts
    assert labels(tmp_path / "out").equals(labels(blob_run[0]))


def test_row_groups_do_not_change_a_label(blob_run, tmp_path):
    pq.write_table(blobs(), tmp_path / "one.parquet")
    run_job(config(tmp_path / "one.parquet", tmp_path / "out"))
    assert labels(tmp_path / "out").equals(labels(blob_run[0]))


@pytest.mark.parametrize("form", ["zarr", "zarr-group", "csv", "folder"])
def test_the_kind_of_input_does_not_change_a_label(blob_run, tmp_path, form):
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
    assert labels(tmp_path / "out").equals(labels(blob_run[0]))


def test_the_job_equals_the_estimator(blob_table, tmp_path):
    run_job(
        config(blob_table, tmp_path / "out", preprocess={"scale": "none"}, model={"gamma": 0.001})
    )
    X = np.column_stack([blobs()["x"], blobs()["y"]])
    estimator = SupportVectorClustering(**(MODEL | {"gamma": 0.001}), random_state=0).fit(X)
    found = labels(tmp_path / "out")
    np.testing.assert_array_equal(found["label"], estimator.labels_)
    np.testing.assert_allclose(found["score"], estimator.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("scale", "scaler", "gamma"),
    [("standard", StandardScaler(), 4), ("minmax", MinMaxScaler(), 60)],
)
def test_scaling_is_scikit_learns(blob_table, tmp_path, scale, scaler, gamma):
    model = {"gamma": float(gamma)}
    run_job(config(blob_table, tmp_path / "out", preprocess={"scale": scale}, model=model))
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


def test_the_seed_decides(blob_table, blob_run, tmp_path):
    run_job(config(blob_table, tmp_path / "out", model={"seed": 1}))
    assert not labels(tmp_path / "out")["score"].equals(labels(blob_run[0])["score"])
    assert (
        adjusted_rand_score(labels(tmp_path / "out")["label"], labels(blob_run[0])["label"]) > 0.95
    )


# What the job asks for


def test_an_outlier_is_a_row_with_a_negative_score(blob_run):
    found = labels(blob_run[0])
    np.testing.assert_array_equal(found["outlier"], found["score"].to_numpy() < 0)
    assert found["label"].to_numpy().min() >= 0
    assert 0.05 < found["outlier"].to_numpy().mean() < 0.15
    np.testing.assert_array_equal(found["row"], np.arange(N))


def test_where_and_id(blob_table, tmp_path):
    given = {"id": "event", "where": "split != 1 and x < 3"}
    report = run_job(config(blob_table, tmp_path / "out", input=given))
    data = blobs()
    kept = (data["split"].to_numpy() != 1) & (data["x"].to_numpy() < 3)
    found = labels(tmp_path / "out")
    assert found.column_names == ["event", "label", "score", "outlier"]
    np.testing.assert_array_equal(found["event"], data["event"].to_numpy()[kept])
    assert report.input.n_rows == kept.sum()
    assert report.input.n_rows_read == N


def test_rows_are_numbered_in_the_whole_table(blob_table, tmp_path):
    run_job(config(blob_table, tmp_path / "out", input={"where": "split == 2"}))
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


def test_default_columns_leave_out_id_label_and_where(blob_table, tmp_path):
    given = {"columns": None, "id": "event", "label": "class", "where": "split < 2"}
    report = run_job(config(blob_table, tmp_path / "out", input=given))
    assert report.input.columns == ["x", "y"]


@pytest.fixture
def holes(tmp_path):
    """The blobs with missing values in every tenth row, and the rows that have them."""
    data = blobs()
    x, y = data["x"].to_numpy().copy(), data["y"].to_numpy().copy()
    x[5::20], y[15::20] = np.nan, np.nan
    path = tmp_path / "holes.parquet"
    pq.write_table(pa.table({"x": pa.array(x, from_pandas=True), "y": y}), path, row_group_size=100)
    return path, np.isnan(x) | np.isnan(y)


def test_missing_drop(holes, tmp_path):
    report = run_job(config(holes[0], tmp_path / "out", preprocess={"missing": "drop"}))
    found = labels(tmp_path / "out")
    np.testing.assert_array_equal(found["row"], np.flatnonzero(~holes[1]))
    assert report.input.n_rows == N - holes[1].sum()


def test_missing_median(holes, tmp_path):
    report = run_job(config(holes[0], tmp_path / "out", preprocess={"missing": "median"}))
    np.testing.assert_array_equal(labels(tmp_path / "out")["row"], np.arange(N))
    assert (
        f"{holes[1].sum()} missing values were replaced by their columns' medians"
        in report.warnings
    )
    arrays = np.load(published_file(tmp_path / "out", "arrays.npz"), allow_pickle=False)
    medians = [np.nanmedian(pq.read_table(holes[0])[name]) for name in ("x", "y")]
    np.testing.assert_allclose(arrays["fill"], medians)


def test_zarr_output(blob_table, blob_run, tmp_path):
    run_job(config(blob_table, tmp_path / "out", output={"format": "zarr"}))
    group, expected = (
        zarr.open_group(labels_folder(tmp_path / "out"), mode="r"),
        labels(blob_run[0]),
    )
    for name in ("row", "label", "score", "outlier"):
        np.testing.assert_array_equal(group[name][:], expected[name])
    assert not list((tmp_path / "out").rglob("*.parquet"))
    assert group.attrs["id"] == "row"


def test_a_driver_starts_without_what_takes_long_to_import():
    heavy = "{'sklearn', 'matplotlib', 'scipy.stats', 'scipy.signal', 'distributed'}"
    code = f"import sys, distsvc.run.job; print(*{heavy} & sys.modules.keys())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""
