"""Labelling another table on a cluster: the same bytes, and the options of a run."""

import json

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import JobFileError
from distsvc.job.file import cluster_settings
from distsvc.published.predict import predict_table
from distsvc.run import forecast
from tests.clusters import loopback_cluster
from tests.jobs.blob_jobs import label_files

pytestmark = pytest.mark.usefixtures("quick_page")

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


@pytest.mark.parametrize("setting", ["model.seed=1", "cluster", "cluster.", "output.path=x"])
def test_only_cluster_settings_are_accepted(setting):
    with pytest.raises(JobFileError, match="--set expects"):
        cluster_settings(("cluster.workers=1", setting))


def test_settings_are_checked_like_a_job_file(blob_run, blob_table, tmp_path):
    assert cluster_settings(("cluster.workers=1", "cluster.workdir=/x")) == {
        "workers": 1,
        "workdir": "/x",
    }
    command = ["predict", str(blob_run[0]), str(blob_table), str(tmp_path / "out")]
    for setting in "cluster.worker=1", "cluster.workers=-1", "model.seed=1":
        said = CliRunner().invoke(main, [*command, "--set", setting])
        assert (said.exit_code, (tmp_path / "out").exists()) == (78, False)


def test_labelling_that_does_not_fit_is_refused(blob_run, blob_table, tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "machine_bytes", lambda: 1000)
    with pytest.raises(JobFileError, match=r"the driver needs .*; this machine has only"):
        predict_table(blob_run[0], str(blob_table), str(tmp_path / "out"))
