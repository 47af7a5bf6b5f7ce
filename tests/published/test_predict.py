"""Labelling other tables with a published model, here and on a cluster."""

import json
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from distsvc import load
from distsvc.cli.main import main
from distsvc.errors import DataError, JobFileError
from distsvc.job.file import cluster_settings
from distsvc.models.rows.scaling import Scaling
from distsvc.published.predict import predict_table
from distsvc.run import forecast
from distsvc.run.algorithms import ALGORITHMS
from distsvc.run.job import run_job
from distsvc.run.learning.preparation import Preparation
from distsvc.run.model.files import LABELLER_FIELDS
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import Start
from tests.clusters import loopback_cluster
from tests.jobs.blob_jobs import N, blobs, config, label_files
from tests.published_files import nothing_left, read_labels
from tests.small_runs import FORMS, digests, small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

OVERWRITE = Start(overwrite=True)


@pytest.fixture(scope="module")
def with_default_columns(blob_table, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "default"
    given = {"columns": None, "id": "event", "label": "class", "where": "split < 3"}
    run_job(config(blob_table, out, input=given))
    return out


@pytest.mark.parametrize(
    ("columns", "lacking"),
    [(["x", "event"], "column 'y'"), (["extra", "event"], "columns 'x', 'y'")],
)
def test_missing_columns_are_refused(with_default_columns, tmp_path, columns, lacking):
    data = blobs().append_column("extra", pa.array(np.zeros(N))).select(columns)
    pq.write_table(data, tmp_path / "in.parquet")
    with pytest.raises(DataError, match=rf"in\.parquet has no {lacking}"):
        predict_table(with_default_columns, str(tmp_path / "in.parquet"), str(tmp_path / "out"))
    assert nothing_left(tmp_path / "out")


@pytest.mark.parametrize(
    ("columns", "ignored"),
    [(["y", "x", "event"], []), (["extra", "x", "y", "split", "event"], ["extra"])],
)
def test_other_columns_and_another_order_change_nothing(
    with_default_columns, tmp_path, columns, ignored
):
    data = blobs().append_column("extra", pa.array(np.zeros(N))).select(columns)
    pq.write_table(data, tmp_path / "in.parquet")
    progress, told = Progress(quiet=True), []
    progress.event = lambda *of, **known: told.append(known) if "ignored" in of[0] else None
    predict_table(
        with_default_columns, str(tmp_path / "in.parquet"), str(tmp_path / "out"), progress=progress
    )
    assert [known["names"] for known in told] == ignored
    assert read_labels(tmp_path / "out").equals(read_labels(with_default_columns))


def test_predict_again_does_nothing(blob_run, blob_table, tmp_path):
    first = predict_table(blob_run[0], str(blob_table), str(tmp_path / "out"))
    before = (tmp_path / "out/manifest.json").stat().st_mtime_ns
    assert predict_table(blob_run[0], str(blob_table), str(tmp_path / "out")) == first
    assert (tmp_path / "out/manifest.json").stat().st_mtime_ns == before


def test_predict_with_another_model_is_refused_unless_overwritten(blob_run, blob_table, tmp_path):
    run_job(config(blob_table, tmp_path / "other", model={"nu": 0.3}))
    predict_table(blob_run[0], str(blob_table), str(tmp_path / "out"))
    with pytest.raises(JobFileError, match="already published by a different configuration"):
        predict_table(tmp_path / "other", str(blob_table), str(tmp_path / "out"))
    predict_table(tmp_path / "other", str(blob_table), str(tmp_path / "out"), start=OVERWRITE)
    assert read_labels(tmp_path / "out").equals(read_labels(tmp_path / "other"))


def test_predict_does_not_replace_a_run(blob_run, blob_table):
    before = digests(blob_run[0])
    with pytest.raises(JobFileError, match="is the published run with the model"):
        predict_table(blob_run[0], str(blob_table), str(blob_run[0]), start=OVERWRITE)
    assert digests(blob_run[0]) == before


@pytest.mark.parametrize(
    "rule", [r for algorithm in ALGORITHMS for r in algorithm.rules], ids=lambda r: r.form
)
def test_arrays_of_a_saved_model_have_unique_names(rule):
    """The arrays of rule, preparation and score histogram are in one file."""
    prepared = Preparation(Scaling(*np.zeros((3, 2))), np.zeros(2), rule.float64).result()
    others = {*prepared.arrays, *prepared.facts, *LABELLER_FIELDS, "algorithm"}
    assert {"centre", "scale", "fill", "origin", "score_edges", "ids", "next_id"} <= others
    assert not others & {field.name for field in fields(rule)}


@pytest.mark.parametrize("form", ["level-tree", "support-vector", "linear-svdd", "components"])
def test_many_rows_outside_give_a_warning(form, tmp_path):
    X, progress = three_clusters(400, 3), Progress(quiet=True)
    run_job(small_job(write_table(tmp_path / "1.parquet", X), FORMS[form]))
    path = str(write_table(tmp_path / "2.parquet", X * 3.0 + 40.0))
    predict_table(tmp_path / "out", path, str(tmp_path / "far"), progress=progress)
    words = "100.0% of the {} lie outside, more than expected"
    assert sum(words.format("rows") in note for note in progress.notes) == 1
    model = load(tmp_path / "out").model
    model.predict(X)  # without a warning
    with pytest.warns(UserWarning, match=words.format("first 400 rows")):
        model.predict(X * 3.0 + 40.0)


CUT = {"partition_rows": 100, "block_rows": 70}


def test_labels_do_not_depend_on_workers(blob_run, blob_table, tmp_path):
    for workers in 0, 2:
        out = tmp_path / str(workers)
        given = CUT | {"workers": workers}
        predict_table(blob_run[0], str(blob_table), str(out), settings=given)
    found = label_files(tmp_path / "0")
    assert len(found) == 9
    assert label_files(tmp_path / "2") == found
    with loopback_cluster(1) as cluster:
        command = ["predict", str(blob_run[0]), str(blob_table), str(tmp_path / "s"), "--json"]
        command += ["--scheduler", cluster.scheduler_address]
        command += [f"--set=cluster.{key}={value}" for key, value in CUT.items()]
        said = CliRunner().invoke(main, command)
        assert said.exit_code == 0, said.output
        assert json.loads(said.stdout)["rows"] == 900
        assert label_files(tmp_path / "s") == found
        command[3] = str(tmp_path / "t")
        refused = CliRunner().invoke(main, [*command, "--require-tls"])
        assert refused.exit_code == 78


def test_cluster_settings_are_checked_and_others_refused(blob_run, blob_table, tmp_path):
    found = cluster_settings(("cluster.workers=1", "cluster.workdir=/x"))
    assert found == {"workers": 1, "workdir": "/x"}
    command = ["predict", str(blob_run[0]), str(blob_table), str(tmp_path / "out")]
    for setting, words in {
        "cluster.worker=1": "cluster.worker", "cluster.workers=-1": "cluster.workers",
        "model.seed=1": "--set expects", "output.path=x": "--set expects",
        "cluster": "--set expects", "cluster.": "--set expects",
    }.items():  # fmt: skip
        said = CliRunner().invoke(main, [*command, "--set", setting])
        assert (said.exit_code, (tmp_path / "out").exists()) == (78, False)
        assert words in said.stderr


def test_labelling_that_does_not_fit_is_refused(blob_run, blob_table, tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "machine_bytes", lambda: 1000)
    with pytest.raises(JobFileError, match=r"the driver needs .*; this machine has only"):
        predict_table(blob_run[0], str(blob_table), str(tmp_path / "out"))
