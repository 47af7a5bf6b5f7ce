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
from tests.published_files import published_file

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


def test_a_driver_starts_without_what_takes_long_to_import():
    heavy = "{'sklearn', 'matplotlib', 'scipy.stats', 'scipy.signal', 'distributed'}"
    code = f"import sys, distsvc.run.job; print(*{heavy} & sys.modules.keys())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""
