"""The job of a job file, of a table, or of sections."""

import importlib
import io
import json

import numpy as np
import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import InputNotFoundError, JobFileError
from distsvc.run.drafts.asked_job import asked_job, is_table, table_name, with_free_output
from distsvc.storage.publishing.publication import Output
from tests.small_runs import three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")


@pytest.mark.parametrize(
    ("path", "name"),
    [("data/events.parquet", "events"), ("events.CSV.gz", "events"), ("cells.zarr/", "cells"),
     ("data/*.parquet", "data"), ("data/day=*/part-[0-9].parquet", "data"),
     ("s3://bucket", "bucket"), ("delta://data/events?version=4", "events"),
     ("data/v1.2", "v1.2"), ("../*.csv", "parent"), ("*.csv", "child"),
     ("{run_date}.csv", "child"), ("in/a_{run_date}.csv", "a"), ("in/{run_date:%Y/%m}_b.csv", "b"),
     ("in/day={run_date}.csv", "in"), ("c-{run_date}/part-*.csv", "c")],
)  # fmt: skip
def test_names_of_tables(tmp_path, monkeypatch, path, name):
    (tmp_path / "parent/child").mkdir(parents=True)
    (tmp_path / "parent/child/data/v1.2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "parent/child")
    assert is_table(path)
    assert table_name(path) == name


def test_job_files_are_not_tables(tmp_path):
    (tmp_path / "job").write_text("[input]")
    for path in "s3://bucket/job.toml", "none", "job", "/dev/stdin":
        assert not is_table(path)
    path = write_table(tmp_path / "table", three_clusters(10))
    assert is_table(str(path))


def test_a_table_in_place_of_a_job_file(tmp_path):
    write_table(tmp_path / "t.parquet", three_clusters(300))
    settings = ["--set", "model.algorithm=imdh", "--set", "cluster.workers=0"]
    found = CliRunner().invoke(main, ["run", "t.parquet", *settings])
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[-1] == "out/t/report.html"
    manifest = json.loads((tmp_path / "out/t/manifest.json").read_text())
    assert manifest["job"]["input"]["path"] == "t.parquet"
    found = CliRunner().invoke(main, ["plan", "none.parquet"])
    assert (found.exit_code, found.stderr) == (66, "error: none.parquet does not exist\n")


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [("none.parquet", 66, "none.parquet does not exist"),
     ("none.toml", 66, "job file none.toml does not exist"),
     ("none", 66, "job file none does not exist"),
     (".", 78, "output.path out/{} lies in the folder of the input")],
)  # fmt: skip
def test_wrong_paths_are_named(tmp_path, given, code, message):
    found = CliRunner().invoke(main, ["run", given])
    assert found.exit_code == code
    assert message.format(tmp_path.name) in found.stderr


def test_given_sections_are_not_changed(tmp_path):
    sections = {"input": {"path": tmp_path / "a", "columns": ("x",)}, "output": {"path": "out"}}
    overrides = {"output.path": tmp_path / "{run_date}", "model.seed": np.int64(3)}
    job = asked_job(sections, "2026-11-20", overrides=overrides)
    assert job.model.seed == 3
    assert job.input.columns == ("x",)
    assert job.output.path == f"{tmp_path}/2026-11-20"
    assert sections["output"] == {"path": "out"}


def test_wrong_sections_are_refused():
    with pytest.raises(JobFileError, match=r"input\.path is required"):
        asked_job({"input": {}, "output": {"path": "out"}})
    with pytest.raises(InputNotFoundError, match="job file x does not exist"):
        asked_job("x")
    words = r"expected a job file or a table by its path, .* found StringIO"
    with pytest.raises(TypeError, match=words):
        asked_job(io.StringIO())
    with pytest.raises(JobFileError, match="--run-date expects"):
        asked_job({"input": {"path": "a"}, "output": {"path": "b"}}, "tomorrow")


def test_other_options_get_another_output(monkeypatch):
    published = {}

    class Fake(Output):
        def manifest(self):
            return published.get(self.shown)

        def holds(self, job_sha256, input_sha256=None):
            return published.get(self.shown) == job_sha256

    module = importlib.import_module("distsvc.run.drafts.asked_job")
    monkeypatch.setattr(module, "Output", Fake)
    monkeypatch.setattr(Fake, "siblings", lambda one: map(Fake, [one.shown, "out/t-2", "out/t-3"]))
    jobs = [asked_job("t.parquet", overrides={"model.seed": seed}) for seed in range(3)]
    outputs = [with_free_output(jobs[0]).output.path]
    for job, path in zip(jobs[:2], ["out/t", "out/t-2"], strict=True):
        published[path] = job.digest()
    outputs += [with_free_output(job).output.path for job in jobs]
    assert outputs == ["out/t", "out/t", "out/t-2", "out/t-3"]


def test_siblings_of_an_output_have_numbers():
    siblings = Output("out/t/").siblings()
    assert [next(siblings).shown for _ in range(3)] == ["out/t/", "out/t-2", "out/t-3"]


@pytest.mark.parametrize("content", [b"PK\x03\x04\xff\xfe", b"a;b\n1;2\n"])
def test_a_file_that_is_no_table_and_no_job_names_tables(content, tmp_path):
    path = tmp_path / "book.xlsx"
    path.write_bytes(content)
    words = r"book.xlsx is neither a table \(.*\*\.csv, .*\*\.parquet or .* nor a job file: "
    with pytest.raises(JobFileError, match=words):
        asked_job(path)
    with pytest.raises(TypeError, match=r"such as a pandas or polars DataFrame, .* found ndarray"):
        asked_job(np.zeros((3, 2)))
