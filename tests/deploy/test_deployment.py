"""A job on a scheduler and workers that are processes of their own, and what deploy/ says."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import tomli_w
import yaml
from distributed.cli.dask_scheduler import main as scheduler_command
from distributed.cli.dask_worker import main as worker_command
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from distsvc.cli.main import main
from distsvc.job.file import load_job
from distsvc.published.demo import make_table
from distsvc.run.job import run_job
from tests.processes import options, python, used
from tests.published_files import listed

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("DASK_")}
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and a worker, started as a user would; yields the scheduler file's content."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    loopback = ["--host", "127.0.0.1", "--scheduler-file", str(file)]
    command = [*dask, "scheduler", *loopback, "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    worker = [*dask, "worker", *loopback, "--nthreads", "1", "--no-dashboard"]
    worker += ["--death-timeout", "60", "--local-directory", str(folder)]
    processes = []
    with open(folder / "log", "w") as log:
        for arguments in (command, worker):
            processes.append(subprocess.Popen(arguments, stderr=log, env=ENVIRONMENT, cwd=folder))
            while not file.exists():
                assert processes[0].poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
        yield json.loads(file.read_text())
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(60)


@pytest.fixture
def job(tmp_path):
    pq.write_table(make_table("gaussians3"), tmp_path / "in.parquet", row_group_size=100)
    path = tmp_path / "job.toml"
    content = {
        "input": {"path": f"{tmp_path}/in.parquet", "columns": ["x", "y"]},
        "model": {"gamma": 8.0, "nu": 0.1, "max_iter": 20_000},
        "cluster": {"workers": 0, "partition_rows": 200},
        "output": {"path": f"{tmp_path}/out"},
    }
    path.write_text(tomli_w.dumps(content))
    return path


def run(job, out, *options):
    command = [sys.executable, "-m", "distsvc", "run", str(job), "--set", f"output.path={out}"]
    return subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=ENVIRONMENT,
    )


def label_files(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in listed(out, "labels/")}


@pytest.mark.usefixtures("quick_page")
def test_labels_equal_those_of_one_process(cluster, job, tmp_path):
    address = cluster["address"]
    assert address.startswith("tcp://127.0.0.1:")
    apart = run(job, tmp_path / "apart", "--scheduler", address)
    assert apart.returncode == 0, apart.stderr
    events = [json.loads(line) for line in apart.stderr.splitlines()]
    [found] = [event for event in events if event["event"] == "cluster"]
    assert (found["kind"], found["address"]) == ("scheduler", address)
    phases = {e["phase"]: e for e in events if e["event"] == "phase finished"}
    assert phases["label"]["worker_peak_mb"] > 0

    run_job(load_job(job, (f"output.path={tmp_path}/alone",)))
    assert len(label_files(tmp_path / "alone")) == 5
    assert label_files(tmp_path / "apart") == label_files(tmp_path / "alone")


def test_the_health_check_tells_a_scheduler_that_lives(cluster):
    _, *command = COMPOSE["services"]["scheduler"]["healthcheck"]["test"]
    assert command[0] == "python"
    for port, expected in ((cluster["services"]["dashboard"], 0), (1, 1)):
        code = command[2].replace(":8787/", f":{port}/")
        assert code != command[2]
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert found.returncode == expected


# What deploy/ says


def test_the_commands_of_compose_exist():
    services = COMPOSE["services"]
    known = {entry.name for entry in entry_points(group="dask_cli")}
    for name, command in (("scheduler", scheduler_command), ("worker", worker_command)):
        program, subcommand, *arguments = services[name]["command"]
        assert program == "dask"
        assert subcommand in known
        assert used(arguments)
        assert used(arguments) <= options(command)
    program, subcommand, *arguments = services["driver"]["entrypoint"]
    assert program == "distsvc"
    assert used(arguments) <= options(main.commands[subcommand])
    [job_file] = services["driver"]["command"]
    assert load_job(ROOT / job_file).output.path.startswith("out/")
    assert services["scheduler"]["command"][5] in services["worker"]["command"][2]


def unit(name) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    assert parser.read(DEPLOY / name)
    return parser


def test_the_service():
    service = unit("distsvc-nightly.service")["Service"]
    shell, flag, script = shlex.split(service["ExecStart"])
    assert Path(shell).exists()
    assert flag == "-c"
    _, program, subcommand, job_file, *arguments = shlex.split(script)
    assert arguments.pop() == "$$DISTSVC_OPTIONS"  # options come from the environment file
    assert Path(program).name in {entry.name for entry in entry_points(group="console_scripts")}
    assert subcommand in main.commands
    assert used(arguments) <= options(main.commands[subcommand])
    assert (ROOT / "jobs" / Path(job_file).name).exists()
    assert (service["Restart"], service["RestartForceExitStatus"]) == ("no", "75")
    assert set(service["SuccessExitStatus"].split()) == {"99", "143"}
    assert service["Type"] != "oneshot"
    assert service["User"] != "root"
    assert "MemoryDenyWriteExecute" not in service


def test_yesterday_is_a_date():
    script = shlex.split(unit("distsvc-nightly.service")["Service"]["ExecStart"])[2]
    date = script[script.index("$(") + 2 : script.index(")")].replace("%%", "%")
    found = subprocess.run(shlex.split(date), capture_output=True, text=True, check=True)
    assert load_job(ROOT / "jobs/nightly.toml", run_date=found.stdout.strip()).input.path


def copied(folder):
    """Copy to a folder what the Dockerfile copies: what its list of ignored files leaves."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert lines[0] == "*", "everything is ignored but the lines with an exclamation mark"
    for name in (line[1:] for line in lines if line.startswith("!")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def test_what_the_dockerfile_copies_builds_and_runs(tmp_path):
    """As its command does, without network and dependencies, into an empty folder."""
    text = (DEPLOY / "Dockerfile").read_text()
    command = "pip install --no-deps --no-build-isolation /src"
    assert command in text
    source, site = copied(tmp_path / "src"), tmp_path / "site"
    words = command.replace("/src", str(source)).split()
    pip = [sys.executable, "-m", *words, "--no-index", "--target", str(site), "--quiet"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in re.findall(r"/src/([\w./]+\.sh)", text):
        assert (source / name).exists()
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import distsvc, distsvc.__main__ as m;"
        "assert distsvc.__file__.startswith(sys.path[0]), distsvc.__file__; m.main()"
    )
    X = make_table("gaussians3")
    pq.write_table(X, tmp_path / "in.parquet")
    run = ["-P", "-c", code, site, "run", tmp_path / "in.parquet"]
    run += ["--columns", "x,y", "--algorithm", "bico", "--clusters", "3"]
    done = python(*run, "--out", tmp_path / "out", cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/report.html").exists()
    assert done.stdout.startswith("3 clusters in ")


EXTRAS = ("lineage", "report", "s3")


def test_the_locked_packages_are_those_that_the_project_asks_for():
    text = (DEPLOY / "requirements.txt").read_text()
    entries = re.split(r"\n(?=\w)", re.sub(r"(?m)^#.*\n", "", text).strip())
    assert all("--hash=sha256:" in entry for entry in entries)
    pins = [Requirement(entry.split()[0]) for entry in entries]
    locked = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins}
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = table["project"]["optional-dependencies"]
    wanted = table["build-system"]["requires"] + table["project"]["dependencies"]
    wanted += [line for extra in EXTRAS for line in extras.get(extra, ())]
    for requirement in map(Requirement, wanted):
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier
