"""The job's commands for runs that are published, held back or failed."""

import json
import sys
import time
from pathlib import Path

import pytest

from distsvc.monitoring import announce
from tests.monitoring.test_announce import run, write_job

TELL = """
import json, os, sys
told = {name: value for name, value in os.environ.items() if name.startswith("DISTSVC_")}
with open(sys.argv[1], "a") as stream:
    print(json.dumps(told), file=stream)
print("on standard output")
"""


@pytest.fixture
def shop(tmp_path):
    """A job whose commands write every event to a file, and that file."""
    (tmp_path / "tell.py").write_text(TELL)
    command = [sys.executable, f"{tmp_path}/tell.py", f"{tmp_path}/told"]
    hooked = {f"on_{event}": command for event in ("published", "held", "failed")}
    return write_job(tmp_path, job={"name": "shop"} | hooked), tmp_path / "told"


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_published_held_and_failed_runs_call_their_command(shop):
    job, told = shop
    found = run(job, "--run-date", "2026-11-21")
    assert found.exit_code == 0, found.output
    assert "on standard output" not in found.stdout
    assert run(job).exit_code == 0  # published already, so no event
    (first,) = events(told)
    assert (first["DISTSVC_EVENT"], first["DISTSVC_JOB"]) == ("published", "shop")
    assert (first["DISTSVC_ROWS"], first["DISTSVC_CLUSTERS"]) == ("90", "2")
    assert first["DISTSVC_RUN_DATE"] == "2026-11-21"
    assert first["DISTSVC_PAGE"] == f"{job.parent}/out/report.html"
    assert first["DISTSVC_ERROR"] == first["DISTSVC_PUBLISH_COMMAND"] == ""
    held = ["--overwrite", "--set", "model.seed=1", "--set", "checks.min_rows=91"]
    assert run(job, *held).exit_code == 76
    assert run(job, "--set", "input.path=nowhere.parquet", "--overwrite").exit_code == 66
    assert run(job, "--set", "input.path=nowhere.parquet", "--skip-missing").exit_code == 99
    _, second, third = events(told)
    assert (second["DISTSVC_EVENT"], second["DISTSVC_FAILED_CHECKS"]) == ("held", "min_rows")
    assert second["DISTSVC_PUBLISH_COMMAND"].startswith("distsvc publish ")
    assert "Held back by a check" in Path(second["DISTSVC_PAGE"]).read_text()
    assert second["DISTSVC_REASON"] == ""
    assert third["DISTSVC_REASON"] == "missing"
    assert (third["DISTSVC_EVENT"], third["DISTSVC_EXIT_CODE"]) == ("failed", "66")
    assert "nowhere.parquet" in third["DISTSVC_ERROR"]


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("no-such-command --now", "'no-such-command' can't be run: No such file or directory"),
        (f"{sys.executable} -c 'import sys; sys.exit(3)'", "ended with exit code 3"),
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "stopped after 1 s"),
    ],
)
def test_a_command_that_fails_is_a_warning(tmp_path, monkeypatch, command, wrong):
    monkeypatch.setattr(announce, "TIMEOUT_S", 1.0)
    found = run(write_job(tmp_path, job={"on_published": command}))
    assert found.exit_code == 0, found.output
    assert "warning: [job] on_published: " in found.stderr
    assert wrong in found.stderr


def test_commands_are_not_published(tmp_path):
    job = write_job(tmp_path, job={"on_published": f"{sys.executable} -c pass secret-token"})
    assert run(job).exit_code == 0
    for name in ("manifest.json", "report.json", "report.html"):
        assert "secret-token" not in (tmp_path / "out" / name).read_text()


def test_a_slow_command_is_stopped_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(announce, "TIMEOUT_S", 1.0)
    script = tmp_path / "hook.sh"
    script.write_text(f"sleep 60 & echo $! > {tmp_path}/child; wait")
    found = run(write_job(tmp_path, job={"on_published": f"sh {script}"}))
    assert "with the processes that it started" in found.stderr
    child = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{child}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX":
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the child of the command lives")


def test_the_reason_of_a_late_input_differs_from_that_of_a_failure(shop, tmp_path):
    job, told = shop
    (tmp_path / "table").mkdir()
    late = ["--set", f"input.path={tmp_path}/table", "--set", "input.ready=_SUCCESS"]
    assert run(job, *late).exit_code == 75
    assert run(job, "--set", "input.columns=['nothing']").exit_code == 65
    assert [one["DISTSVC_REASON"] for one in events(told)] == ["late", "failure"]
