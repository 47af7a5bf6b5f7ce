"""The recipes of deploy/ for other schedulers: every exit code is retried, skipped or a failure."""

import ast
import importlib.resources
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from distributed.cli.dask_scheduler import main as scheduler_command
from distributed.cli.dask_worker import main as worker_command

from distsvc import errors
from distsvc.cli.ending import DEFECT, TERMINATED
from distsvc.cli.main import main
from distsvc.job.file import load_job
from tests.processes import options, used

DEPLOY = Path(__file__).parents[2] / "deploy"
USAGE, SKIP = 2, 99
TEMPORARY = errors.TemporaryError.exit_code
FINAL = {
    DEFECT,
    USAGE,
    *(
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DistsvcError)
    ),
} - {TEMPORARY, SKIP}
RETRIED = {TEMPORARY, TERMINATED}
CODES = sorted({0, SKIP, *FINAL, *RETRIED})


def documents(name) -> list[dict]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


[CRON] = documents("cronjob.yaml")
JOB = CRON["spec"]["jobTemplate"]["spec"]
POD = JOB["template"]["spec"]
_, CLUSTER, _ = documents("dask-cluster.yaml")
PARTS = {part: CLUSTER["spec"][part]["spec"] for part in ("scheduler", "worker")}


def test_a_cron_job_retries_what_a_new_start_mends():
    codes = {"FailJob": set(), "Count": set(), "Ignore": set()}
    for rule in JOB["podFailurePolicy"]["rules"]:
        found = rule.get("onExitCodes", {"containerName": "distsvc", "values": []})
        assert found["containerName"] == POD["containers"][0]["name"]
        assert found["values"] == sorted(found["values"])
        codes[rule["action"]] |= set(found["values"])
    assert codes["FailJob"] == FINAL
    assert codes["Count"] >= RETRIED
    assert not codes["FailJob"] & codes["Count"]
    assert JOB["backoffLimit"] > 0
    assert POD["restartPolicy"] == "Never", "the policy works with no other"
    assert CRON["spec"]["concurrencyPolicy"] == "Forbid"
    assert CRON["spec"]["timeZone"] == "Etc/UTC"


def test_the_commands_of_the_pods_exist():
    program, job, *arguments = POD["containers"][0]["args"]
    assert f"/usr/local/bin/{program}" in (DEPLOY / "Dockerfile").read_text()
    assert (DEPLOY.parent / job).exists()
    assert used(arguments) <= options(main.commands["run"])
    for part, command in (("scheduler", scheduler_command), ("worker", worker_command)):
        program, subcommand, *arguments = PARTS[part]["containers"][0]["args"]
        assert (program, subcommand) == ("dask", part)
        assert used(arguments) <= options(command)


def test_a_backfill_is_a_job_like_a_night():
    [job] = documents("backfill.yaml")
    theirs, ours = json.loads(json.dumps([JOB, job["spec"]]))
    container = ours["template"]["spec"]["containers"][0]
    program, subcommand, path, *arguments = container.pop("args")
    theirs["template"]["spec"]["containers"][0].pop("args")
    assert ours == theirs
    assert (program, subcommand, path) == ("distsvc", "backfill", POD["containers"][0]["args"][1])
    assert used(arguments) <= options(main.commands["backfill"])
    dates = [arguments[arguments.index(name) + 1] for name in ("--from", "--to")]
    assert sorted(map(datetime.fromisoformat, dates)) == [*map(datetime.fromisoformat, dates)]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Programs that stand in for others come first on the path; yields what writes one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    return write


@pytest.mark.parametrize("code", CODES)
def test_nightly_passes_exit_codes_on_but_for_skipped(programs, tmp_path, code):
    programs("distsvc", f'echo "$@" > {tmp_path}/asked; exit {code}')
    days = [(datetime.now(UTC) - timedelta(days=1)).date()]
    found = subprocess.run([DEPLOY / "nightly.sh", "a job.toml", "--overwrite"], check=False)
    days.append((datetime.now(UTC) - timedelta(days=1)).date())  # midnight may have come
    assert found.returncode == (0 if code == SKIP else code)
    asked = (tmp_path / "asked").read_text().strip()
    assert asked in [f"run --run-date {day} a job.toml --overwrite" for day in days]


def test_nightly_passes_sigterm_on(programs, tmp_path):
    programs("distsvc", 'trap "exit 143" TERM; touch started; while :; do sleep 0.05; done')
    with subprocess.Popen([DEPLOY / "nightly.sh", "job.toml"]) as process:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == TERMINATED


SLURM = (DEPLOY / "slurm.sh").read_text()


@pytest.mark.parametrize(("code", "restarts"), [*((code, "0") for code in CODES), (TEMPORARY, "5")])
def test_slurm_queues_a_temporary_failure_again(programs, tmp_path, code, restarts):
    programs("openssl", 'while [ "$1" != -out ]; do shift; done; touch "$2"')
    programs("srun", 'printf x > "$FILE"; exec /bin/sleep 60')
    programs("scontrol", f'echo "$1" >> {tmp_path}/scontrol; exit 0')
    programs("sleep", "exec /bin/sleep 0.02")
    programs("distsvc", f'echo "$@" > {tmp_path}/asked; exit {code}')
    environment = os.environ | {
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "3",
        "SLURM_MEM_PER_CPU": "100",
        "SLURM_RESTART_COUNT": restarts,
        "FILE": f"{tmp_path}/.distsvc-7/scheduler.json",
    }
    found = subprocess.run(
        ["bash", DEPLOY / "slurm.sh", "job.toml", "--overwrite"],
        env=environment,
        check=False,
        timeout=60,
    )
    assert found.returncode == (0 if code == SKIP else code)
    again = code == TEMPORARY and restarts == "0"
    assert (tmp_path / "scontrol").exists() == again
    _, *asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["job.toml", "--overwrite"]
    assert used(asked) <= options(main.commands["run"])
    assert not (tmp_path / ".distsvc-7").exists(), "the key is left behind"


def test_the_options_of_the_slurm_script_exist():
    joined = SLURM.replace("\\\n", " ")
    for name, command in (("scheduler", scheduler_command), ("worker", worker_command)):
        [line] = re.findall(rf"dask {name} (.*)", joined)
        assert used(line.split())
        assert used(line.split()) <= options(command)
    assert "#SBATCH --requeue" in SLURM
    subprocess.run(["bash", "-n", DEPLOY / "slurm.sh"], check=True)


def constants(name) -> dict[str, object]:
    """Return the constants of a recipe, without importing what it imports."""
    tree = ast.parse((DEPLOY / name).read_text())
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id.isupper():
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


@pytest.mark.parametrize("name", ["airflow_dag.py", "dagster_asset.py"])
def test_a_pipeline_tells_the_exit_codes_apart(name):
    found = constants(name)
    assert set(found["RETRY"]) == RETRIED
    assert found["SKIP"] == SKIP
    program, subcommand, *arguments = found["COMMAND"]
    assert program == "distsvc"
    assert "--overwrite" in arguments, "a night that is run again replaces its result"
    assert "--run-date" in options(main.commands[subcommand])


def test_the_nights_of_airflow_run_in_order():
    """The job continues the night before, so no night may start before that has ended."""
    assert load_job(DEPLOY.parent / "jobs/nightly.toml", run_date="2026-11-20").continuity.previous
    tree = ast.parse((DEPLOY / "airflow_dag.py").read_text())
    calls = {
        node.func.id: {word.arg: ast.unparse(word.value) for word in node.keywords}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls["dag"]["max_active_runs"] == "1"
    assert calls["dag"]["catchup"] == "False"
    assert calls["task"]["depends_on_past"] == "True"
    assert int(calls["task"]["retries"]) > 0


IN_DAGSTER = """
import os, sys, dagster as dg
sys.path.insert(0, sys.argv[1])
import dagster_asset
at_last = dg.RetryRequested
dg.RetryRequested = lambda max_retries, seconds_to_wait: at_last(max_retries, 0)
dg.Definitions.validate_loadable(dagster_asset.defs)
for os.environ["CODE"] in sys.argv[2:]:
    found = dg.materialize(
        [dagster_asset.nightly_clusters], partition_key="2026-11-20", raise_on_error=False
    )
    types = {event.event_type_value for event in found.all_events}
    if "STEP_UP_FOR_RETRY" in types: print("retry")
    elif not found.success: print("fail")
    else: print("success" if "ASSET_MATERIALIZATION" in types else "skip")
"""
IN_AIRFLOW = """
import os, sys
sys.path.insert(0, sys.argv[1])
import airflow_dag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
[task] = airflow_dag.distsvc_nightly().tasks
assert task.retries > 0
for os.environ["CODE"] in sys.argv[2:]:
    try:
        task.python_callable(ds="2026-11-20")
        print("success")
    except AirflowSkipException: print("skip")
    except AirflowFailException: print("fail")
    except Exception: print("retry")
"""


@pytest.mark.parametrize(("package", "script"), [("dagster", IN_DAGSTER), ("airflow", IN_AIRFLOW)])
def test_a_pipeline_skips_retries_and_fails(programs, monkeypatch, tmp_path, package, script):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    programs("distsvc", "exit $CODE")
    found = subprocess.run(
        [sys.executable, "-c", script, DEPLOY, *map(str, CODES)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    known = {0: "success", SKIP: "skip"} | dict.fromkeys(RETRIED, "retry")
    words = [line for line in found.stdout.splitlines() if line in {*known.values(), "fail"}]
    assert dict(zip(CODES, words, strict=True)) == {code: known.get(code, "fail") for code in CODES}
