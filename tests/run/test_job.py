"""Whole jobs: kinds of input, the seed, the filter and ids."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.metrics import adjusted_rand_score

from distsvc.run.job import run_job
from tests.jobs.blob_jobs import N, blobs, config
from tests.published_files import read_labels

pytestmark = pytest.mark.usefixtures("quick_page")


# The same labels


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
    assert read_labels(tmp_path / "out").equals(read_labels(blob_run[0]))


def test_the_seed_changes_scores(blob_table, blob_run, tmp_path):
    run_job(config(blob_table, tmp_path / "out", model={"seed": 1}))
    found, other = read_labels(tmp_path / "out"), read_labels(blob_run[0])
    assert not found["score"].equals(other["score"])
    assert adjusted_rand_score(found["label"], other["label"]) > 0.95


# What the job asks for


def test_filter_and_ids(blob_table, tmp_path):
    given = {"id": "event", "where": "split != 1 and x < 3"}
    report = run_job(config(blob_table, tmp_path / "out", input=given))
    data = blobs()
    kept = (data["split"].to_numpy() != 1) & (data["x"].to_numpy() < 3)
    found = read_labels(tmp_path / "out")
    assert found.column_names == ["event", "label", "score", "outlier"]
    np.testing.assert_array_equal(found["event"], data["event"].to_numpy()[kept])
    assert report.input.n_rows == kept.sum()
    assert report.input.n_rows_read == N


def test_a_driver_starts_without_slow_imports():
    heavy = "{'sklearn', 'matplotlib', 'scipy.stats', 'scipy.signal', 'distributed'}"
    code = f"import sys, distsvc.run.job; print(*{heavy} & sys.modules.keys())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""
