"""A night on which a cluster appears that is larger than all others."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from distsvc.job.file import parse_job
from distsvc.run.job import run_job
from distsvc.run.nights.comparison import cluster_stories

CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [2.0, 4.0]])
NEW = 900


@pytest.mark.usefixtures("quick_page")
def test_it_has_a_new_id_and_the_others_keep_theirs(tmp_path):
    run_night(tmp_path, "one", rows(1))
    far = np.random.default_rng(3).normal((30.0, 30.0), 0.5, (NEW, 2))
    ids = run_night(tmp_path, "two", np.concatenate([far, rows(2)]), previous="one")
    assert np.unique(ids[:NEW]).tolist() == [3]
    assert np.unique(ids[NEW:]).tolist() == [0, 1, 2]
    [lineage] = (tmp_path / "two").glob("report/*/lineage.json")
    events = {one["id"]: one["event"] for one in json.loads(lineage.read_text())["clusters"]}
    assert events == {0: "survived", 1: "survived", 2: "survived", 3: "appeared"}


def test_a_cluster_without_rows_is_neither_new_nor_gone():
    found = [
        {"id": k, "event": event, "jaccard": 0.0, "others": []}
        for k, event in enumerate(["survived", "disappeared", "appeared", "appeared"])
    ]
    stories = cluster_stories(found, {0: 9}, {0: 8, 3: 7, 2: 0})
    assert [(one.id, one.rows_before, one.rows_after) for one in stories] == [(0, 9, 8), (3, 0, 7)]


def rows(seed):
    random = np.random.default_rng(seed)
    return CENTRES[random.integers(0, 3, 600)] + random.normal(0.0, 0.5, (600, 2))


def run_night(folder, name, X, previous=""):
    """Cluster rows X (n, 2) into a folder; return the published labels (n,)."""
    table, out = folder / f"{name}.parquet", folder / name
    pq.write_table(pa.table({"x": X[:, 0], "y": X[:, 1]}), table)
    job = {
        "input": {"path": str(table)},
        "model": {"effort": "fast", "max_iter": 2000},
        "cluster": {"workers": 0},
        "output": {"path": str(out)},
    }
    if previous:
        job["continuity"] = {"previous": str(folder / previous)}
    run_job(parse_job(job))
    listed = json.loads((out / "manifest.json").read_text())["files"]
    parts = [str(out / file["file"]) for file in listed if file["file"].startswith("labels/")]
    return ds.dataset(parts).to_table().sort_by("row")["label"].to_numpy()
