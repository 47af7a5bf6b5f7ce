"""The status of an output during a run, after it, and after an interrupted run."""

import json

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.published.status import status, status_lines
from distsvc.run.job import run_job
from distsvc.run.starting import open_run
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import Start
from distsvc.storage.places import lease
from distsvc.storage.publishing.publication import Output
from tests.small_runs import MODELS, small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")


@pytest.fixture
def job(tmp_path):
    table = write_table(tmp_path / "t.parquet", three_clusters(1500))
    return small_job(table, MODELS["sampled"])


def test_a_published_run(job):
    run_job(job)
    found = status(job.output.path)
    assert found["running"] is None
    assert found["interrupted"] == []
    assert found["published"]["rows"] == 1500
    [line] = status_lines(found)
    assert line.startswith(f"published: run {found['published']['run_id']} of 20")
    said = CliRunner().invoke(main, ["status", job.output.path])
    assert (said.exit_code, said.output) == (0, f"{line}\n")
    as_json = CliRunner().invoke(main, ["status", job.output.path, "--json"])
    assert json.loads(as_json.output)["published"]["rows"] == 1500
    none = CliRunner().invoke(main, ["status", job.output.path + "-none"])
    assert (none.exit_code, "; for nights below it: distsvc" in none.stderr) == (66, True)


def test_a_running_run(job):
    with open_run(job, Start(), Progress(quiet=True)) as begun:
        begun.output._lease.renew({"run": begun.run.name, "phase": "survey", "done": 2, "total": 5})
        found = status(job.output.path)
        assert found["published"] is None
        assert found["running"]["alive"] is True
        assert found["running"]["doing"]["run"] == begun.run.name
        assert found["interrupted"] == []
        assert "phase survey, 2 of 5 done" in status_lines(found)[1]


def test_an_interrupted_run(job, tasks):
    tasks.interrupt(job, 7, KeyboardInterrupt())
    found = status(job.output.path)
    [run] = found["interrupted"]
    assert run["kept"] == {"label": 2, "survey": 5}
    assert run["stopped"]["why"] == "KeyboardInterrupt"
    assert "kept: label 2, survey 5" in status_lines(found)[1]
    assert (found["published"], found["running"]) == (None, None)


def test_a_run_whose_process_was_killed(job, tasks):
    tasks.interrupt(job, 7, KeyboardInterrupt())
    output = Output(job.output.path)
    [name] = output.kept_works()
    doing = {"run": name, "phase": "label", "done": 2, "total": 5, "seconds": 3.5}
    dead = lease.who() | {"started": "7", "since": "then", "now": "later", "doing": doing}
    output.runs.put("holder.json", json.dumps(dead).encode())
    found = status(job.output.path)
    assert found["running"] is None
    assert found["interrupted"][0]["stopped"]["now"] == "later"
    assert "(killed); phase label, 2 of 5 done" in status_lines(found)[1]
    elsewhere = dead | {"host": "elsewhere"}
    output.runs.put("holder.json", json.dumps(elsewhere).encode())
    assert status(job.output.path)["running"]["alive"] is None
