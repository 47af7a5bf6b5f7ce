"""The manifest lists every file of a run, and explains the columns."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distsvc
from distsvc.run.model.files import write_model
from distsvc.run.reporting.manifest import make_manifest
from tests.jobs.blob_jobs import check_manifest
from tests.published_files import published_file
from tests.small_runs import FORMS, fit, small_job, three_clusters, write_table

N = 700
X = three_clusters(N)


def labelled(tmp_path, form, **sections):
    """Return a labelled run, its counts and its manifest."""
    names = pa.array([f"id-{i}" for i in range(N)])
    table = write_table(tmp_path / "t.parquet", X, name=names, event=np.arange(N))
    given = {"columns": ["x0", "x1"]} | sections.pop("input", {})
    run = fit(small_job(table, FORMS[form], input=given, **sections), tmp_path / "run")
    labels = run.label()
    write_model(run.run, run.job, run.algorithm.learned(), labels)
    for name in ("report.html", "report.json", ".unfinished"):
        with run.run.place("report").created(name) as path:
            path.write_text(name)
    manifest = make_manifest(run.run, run.job, "a" * 64, "b" * 64, labels)
    return run, labels.counts, manifest.dumped()


def test_the_manifest_names_job_input_and_versions(tmp_path):
    run, counts, manifest = labelled(tmp_path, "centres")
    assert json.loads(json.dumps(manifest)) == manifest
    assert (manifest["job_sha256"], manifest["input_sha256"]) == ("a" * 64, "b" * 64)
    assert (
        (manifest["rows"], manifest["clusters"]) == (N, 3) == (counts.n_rows, run.rule.n_clusters)
    )
    assert manifest["job"]["model"] == {
        "algorithm": "bico", "mode": "refit", "seed": 0, "n_clusters": 3,
    }  # fmt: skip
    assert "cluster" not in manifest["job"]
    assert manifest["versions"]["distsvc"] == distsvc.__version__
    assert manifest["versions"]["numpy"] == np.__version__
    assert (manifest["format"], manifest["run_id"]) == (2, "run")


@pytest.mark.parametrize("form", FORMS)
def test_the_schema_has_the_columns_of_the_parts_with_their_meanings(form, tmp_path):
    reasons = {"reasons": 1} if form.startswith("linear") else {}
    run, _, manifest = labelled(tmp_path, form, input={"id": "name"}, output=reasons)
    parts = sorted(Path(run.run.place("labels").address).iterdir())
    assert list(manifest["schema"]) == pq.read_schema(parts[0]).names
    assert manifest["schema"]["name"] == "the input's id, or the row's number"
    for column, meaning in run.rule.meanings.items():
        assert manifest["schema"][column] == meaning
    assert ("reasons" in manifest["schema"]) == bool(reasons)


@pytest.mark.usefixtures("quick_page")
def test_the_manifest_lists_exactly_the_files(blob_run):
    out, _ = blob_run
    manifest = check_manifest(out)
    assert [file["rows"] for file in manifest["files"] if "rows" in file] == [300, 300, 300]
    assert manifest["rows"] == 900
    assert manifest["clusters"] == 3
    run_id = manifest["run_id"]
    assert [file["file"] for file in manifest["files"]] == [
        *(f"labels/{run_id}/part-0000{k}.parquet" for k in range(3)),
        f"model/{run_id}/arrays.npz",
        f"model/{run_id}/model.json",
        f"report/{run_id}/clusters.parquet",
        f"report/{run_id}/report.html",
        f"report/{run_id}/report.json",
    ]
    for name in ("report.html", "report.json"):
        assert (out / name).read_bytes() == published_file(out, name).read_bytes()
    assert (out / "_SUCCESS").exists()
    assert sorted(path.name for path in (out / ".runs").iterdir()) == ["files", "lock"]
