"""Late or empty input: exit codes, the missing file in the message, and unchanged outputs."""

import json
import os
import shlex
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import JobFileError, SkippedError, TemporaryError
from distsvc.job.config import InputConfig
from distsvc.job.file import parse_job
from distsvc.run import job as job_module
from distsvc.run.reporting import files
from distsvc.storage.tables.sources import check_ready
from tests.small_runs import three_clusters, write_table

JOB = """
[input]
path = "in/date={run_date}"
[model]
algorithm = "bico"
n_clusters = 3
[cluster]
workers = 0
partition_rows = 300
[output]
path = "out"
"""
NIGHT = "2026-03-02"


@pytest.fixture
def night(tmp_path, monkeypatch):
    """Write a job and a night's input below the current folder; return the input's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "page_of", lambda _: "a page")  # it takes most of the time
    (tmp_path / "job.toml").write_text(JOB)
    folder = tmp_path / f"in/date={NIGHT}"
    folder.mkdir(parents=True)
    for part in range(3):
        write_table(folder / f"{part}.parquet", three_clusters(200, seed=part))
    return folder


def ran(options: str = "", *settings: str):
    words = ["run", "job.toml", "--run-date", NIGHT, *shlex.split(options)]
    found = CliRunner().invoke(main, [*words, *(w for s in settings for w in ("--set", s))])
    return found.exit_code, found.stderr.strip().splitlines()[-1]


def plan(setting, *options):
    words = ["plan", "job.toml", "--run-date", NIGHT, "--set", setting, *options]
    return CliRunner().invoke(main, words)


def manifest_of(output: str) -> dict:
    return json.loads(Path(output, "manifest.json").read_text())


READY = "input.ready=_SUCCESS"


def test_a_night_that_is_not_complete(night):
    late = f"input.path: not there yet: in/date={NIGHT}/_SUCCESS"
    assert ran("", READY) == (75, f"error: {late}")
    assert ran("--skip-missing", READY) == (99, f"error: {late}; skipped")
    assert not os.path.exists("out")
    said = plan(READY)
    assert said.stdout.startswith(f"{late}; the forecast uses the present files\n600 rows of 2 ")
    assert json.loads(plan(READY, "--json").stdout)["waits_for"] == late
    (night / "_SUCCESS").touch()
    assert json.loads(plan(READY, "--json").stdout)["waits_for"] == ""
    assert ran("--skip-missing", READY)[0] == 0
    assert manifest_of("out")["job"]["input"]["ready"] == "_SUCCESS"


def test_a_path_that_is_missing(night):
    night.rename("in/later")
    assert ran()[0] == 66
    where = f"in/date={NIGHT}"
    assert ran("--skip-missing") == (99, f"error: input.path: not there yet: {where}; skipped")
    assert ran("", READY)[0] == plan(READY).exit_code == 75
    assert not os.path.exists("out/.runs/holder.json")
    for path in "in/*/none-*.parquet", "none.zarr", "none.csv":
        assert ran("--skip-missing", f"input.path={path}")[0] == 99
    os.mkdir(where)
    assert ran("--skip-missing")[0] == 99
    assert ran()[0] == 66


def test_a_table_without_rows(night):
    (night / "_SUCCESS").touch()
    for empty in ["input.where=x0 > 1e9"], []:
        if not empty:
            for file in night.glob("*.parquet"):
                file.unlink()
        assert ran("", READY, *empty)[0] == 65
        code, message = ran("--skip-empty", READY, *empty)
        assert (code, message.endswith("; skipped")) == (99, True), message
        assert "no rows" in message
        assert not os.path.exists("out/manifest.json")


def test_a_path_of_a_list_that_is_missing_is_named(night):
    window = "input.path=in/date={run_date-1d..run_date}"
    late = "in/date=2026-03-01"
    assert ran("", window) == (66, f"error: {late} does not exist")
    assert ran("--skip-missing", window)[1].endswith(f"not there yet: {late}; skipped")
    code, message = ran("", window, READY)
    assert (code, message.count("_SUCCESS")) == (75, 2)


def test_a_resumed_run_needs_the_ready_file(night, monkeypatch):
    (night / "_SUCCESS").touch()

    def stop(*_):
        raise TemporaryError("the cluster was lost")

    with monkeypatch.context() as patch:
        patch.setattr(job_module, "fill_output", stop)
        assert ran("", READY) == (75, "error: the cluster was lost")
    kept = sorted(os.listdir("out/.runs"))
    (night / "_SUCCESS").unlink()
    assert "not there yet" in ran("", READY)[1]
    assert sorted(os.listdir("out/.runs")) == kept
    (night / "_SUCCESS").touch()
    assert ran("", READY)[0] == 0


def test_ready_decides_nothing(night):
    (night / "_SUCCESS").touch()
    assert ran()[0] == 0
    manifest = manifest_of("out")
    assert "ready" not in manifest["job"]["input"]
    assert ran("", READY)[0] == 0
    assert manifest_of("out") == manifest


# What is waited for


def test_the_ready_file_may_be_dated_and_in_a_folder(night):
    content = {
        "input": {"path": str(night.parent), "ready": "done/{run_date:%Y}/{run_date-1d:%m%d}"},
        "output": {"path": "out"},
    }
    config = parse_job(content, run_date=NIGHT).input
    with pytest.raises(TemporaryError, match=r"not there yet: .*/in/done/2026/0301$"):
        check_ready(config)
    (night.parent / "done/2026/0301").mkdir(parents=True)
    with pytest.raises(TemporaryError):  # a folder says nothing
        check_ready(config)
    (night.parent / "done/2026/0301").rmdir()
    (night.parent / "done/2026/0301").touch()
    check_ready(config)


def test_of_a_glob_it_is_in_the_folder_before_the_first_star(night):
    config = InputConfig(path=f"{night.parent}/*/*.parquet", ready="_SUCCESS")
    with pytest.raises(TemporaryError, match=r"/in/_SUCCESS$"):
        check_ready(config)
    (night.parent / "_SUCCESS").touch()
    check_ready(config)


def test_a_file_has_no_ready_file_below(night):
    config = InputConfig(path=str(night / "0.parquet"), ready="_SUCCESS")
    with pytest.raises(
        JobFileError, match=r"expected a folder that has '_SUCCESS', found the file"
    ):
        check_ready(config)


def test_of_a_file_system_elsewhere(tmp_path):
    config = InputConfig(path="memory://late/night", ready="_SUCCESS")
    with pytest.raises(SkippedError, match=r"not there yet: memory://late/night/_SUCCESS; skipped"):
        check_ready(config, skip_missing=True)
    with fsspec.open("memory://late/night/_SUCCESS", "wb") as stream:
        stream.write(b"")
    check_ready(config)
    check_ready(config.model_copy(update={"ready": None}), skip_missing=True)


# Nights without rows


def emptied(night):
    for path in night.iterdir():
        path.unlink()


def test_a_night_without_rows(night):
    assert ran("", "input.where=x0 > 1e9")[1].endswith(
        f"in/date={NIGHT} has no rows: input.where = 'x0 > 1e9' leaves none of its 600"
    )
    table = pq.read_table(night / "0.parquet").slice(0, 0)
    emptied(night)
    pq.write_table(table, night / "0.parquet")
    assert ran() == (65, f"error: in/date={NIGHT} has no rows")
    emptied(night)
    (night / "_SUCCESS").touch()
    empty = (65, f"error: in/date={NIGHT} has no rows: it is complete, but has no data file")
    for options, *settings in ("",), ("--skip-missing",), ("", READY), ("--skip-missing", READY):
        assert ran(options, *settings) == empty
    assert ran("", "input.path=in/date={run_date}/*.parquet", READY)[0] == 65


def test_a_night_of_missing_values(night):
    emptied(night)
    X = three_clusters(50)
    X[:, 0] = float("nan")
    write_table(night / "0.parquet", X)
    why = "no row can be used, since each has a missing value"
    advice = "; add --set preprocess.missing=median"
    assert ran("", "preprocess.missing=drop") == (65, f"error: {night}: {why}{advice}")
    X[:, 0] = 9.0
    write_table(night / "0.parquet", X)
    assert ran("", "preprocess.missing=drop", "output.path=before")[0] == 0
    assigned = "preprocess.missing=drop", "model.mode=assign", "continuity.previous=before"
    write_table(night / "0.parquet", X[:1])
    assert ran("", *assigned)[0] == 0, "one row"
    X[:, 0] = float("nan")
    write_table(night / "0.parquet", X)
    assert ran("--overwrite", *assigned) == (65, f"error: {night}: {why}")


# Lists and dates in a job


def test_the_output_lies_in_none_of_the_paths(night):
    inside = ran("", f"input.path=['{night}/0.parquet', '{night}']", f"output.path={night}/out")
    assert inside[0] == 78
    assert "lies in the folder of the input" in inside[1]
