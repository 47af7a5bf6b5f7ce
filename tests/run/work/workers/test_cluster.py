"""The order in which a cluster is found, and the errors if there is none."""

import gc
import json
import logging
import os
import socket
import sys
import time
from contextlib import closing
from unittest.mock import Mock

import dask
import psutil
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

from distsvc.cli.main import main
from distsvc.errors import InputNotFoundError, JobFileError, TemporaryError
from distsvc.job.config import ClusterConfig
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import ClusterAddress
from distsvc.run.work.workers import cluster as module
from distsvc.run.work.workers.cluster import SMALL_BYTES, connect
from distsvc.run.work.workers.forking import REUSED_BYTES, TASKS
from tests.clusters import loopback_cluster
from tests.published_files import nothing_left


@pytest.fixture(scope="module")
def running():
    """Two schedulers with one worker each, in this process."""
    options = {
        "n_workers": 1,
        "processes": False,
        "protocol": "tcp",
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        LocalCluster(host="127.0.0.1", **options) as one,
        LocalCluster(host="127.0.0.1", **options) as two,
    ):
        yield one, two


@pytest.fixture
def one(running):
    return running[0].scheduler_address


@pytest.fixture
def two(running):
    return running[1].scheduler_address


@pytest.fixture
def two_file(running, tmp_path):
    path = tmp_path / "scheduler.json"
    path.write_text(json.dumps(running[1].scheduler.identity()))
    return str(path)


@pytest.fixture
def dead():
    """An address on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(autouse=True)
def no_address(monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)


def address(scheduler=None, scheduler_file=None, n_bytes=0, **config):
    at = ClusterAddress(scheduler, scheduler_file)
    with connect(ClusterConfig(**config), n_bytes, Progress(quiet=True), at) as client:
        return client and client.scheduler.address


def test_the_option_precedes_the_environment_and_the_file(monkeypatch, one, two, two_file):
    assert address(scheduler_file=two_file, workers=0) == two
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", "unused")
    with dask.config.set({"scheduler-address": one}):
        assert address(scheduler_file=two_file) == one
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", one)
    assert address(scheduler_file=two_file, workers=2) == one
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", two)
    assert address(scheduler=one, scheduler_file=two_file, workers=2) == one


@pytest.mark.parametrize(
    ("config", "n_bytes"), [({"workers": 0}, 10**12), ({}, 0), ({}, SMALL_BYTES - 1)]
)
def test_small_tables_and_no_workers_stay_in_this_process(config, n_bytes):
    assert address(n_bytes=n_bytes, **config) is None


@pytest.mark.parametrize(
    ("config", "n_bytes", "expected"),
    [({"workers": 3}, 0, 3), ({}, SMALL_BYTES, 5), ({"workers": 1}, 10**12, 1)],
)
def test_workers_here(monkeypatch, config, n_bytes, expected):
    asked = {}

    def cluster(**kwargs):
        asked.update(kwargs)
        raise OSError("far enough")

    monkeypatch.setattr("dask.system.CPU_COUNT", 5)  # of the cores that may be used
    monkeypatch.setattr("distributed.LocalCluster", cluster)
    with pytest.raises(TemporaryError, match="workers on this machine can't start: OSError: far"):
        address(n_bytes=n_bytes, threads=2, **config)
    assert (asked["n_workers"], asked["threads_per_worker"]) == (expected, 2)


@pytest.mark.parametrize("error", [RuntimeError("Nanny failed"), TimeoutError("late"), OSError(1)])
def test_workers_that_cant_start_are_temporary(monkeypatch, error):
    monkeypatch.setattr("distributed.LocalCluster", Mock(side_effect=error))
    with pytest.raises(TemporaryError, match=r"^workers on this machine can't start: ") as caught:
        address(workers=1)
    assert caught.value.exit_code == 75


def test_a_silent_scheduler_is_temporary(monkeypatch, one):
    monkeypatch.setattr(module, "CLUSTER_PATIENCE", module.Patience(work=0.2))

    def silent(*_, callback_timeout, **__):
        raise TimeoutError(f"timed out after {callback_timeout} s.")

    monkeypatch.setattr("distributed.Client.sync", silent)
    with pytest.raises(TemporaryError, match=rf"^no answer from scheduler {one}: TimeoutError: "):
        address(scheduler=one)


def listening(process: psutil.Process) -> set[str]:
    return {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}


def test_workers_here_keep_freed_memory_and_have_imported_their_tasks(monkeypatch):
    monkeypatch.delenv(
        "MALLOC_TRIM_THRESHOLD_", raising=False
    )  # another cluster's, of this process
    with connect(ClusterConfig(workers=1), 0, Progress(quiet=True)) as client:
        [found] = client.run(lambda: (dict(os.environ), set(sys.modules))).values()
    environ, modules = found
    for name in "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_":
        assert int(environ[name]) >= REUSED_BYTES
    assert TASKS in modules


def test_workers_here_listen_on_loopback_only(capsys):
    me = psutil.Process()
    before = set(me.children(recursive=True))
    with (
        closing(Progress(log_format="json")) as progress,
        connect(ClusterConfig(workers=1), 0, progress) as client,
    ):
        assert client.submit(int, "7").result() == 7
        found = {process: listening(process) for process in (me, *me.children(recursive=True))}
        workers = {
            p for p in found if p not in before | {me} and "spawn_main" in " ".join(p.cmdline())
        }
    assert {"127.0.0.1"} == set().union(*found.values())
    assert found[me]
    assert any(found[process] for process in workers)
    assert not any(process.is_running() for process in psutil.wait_procs(workers, timeout=10)[1])
    event, phase = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (event["event"], phase["phase"]) == ("cluster", "cluster")
    assert event["kind"] == "1 workers here"
    assert event["address"].startswith("tls://127.0.0.1:")
    assert "dashboard" not in event


def tell(event):
    logging.getLogger("distsvc").info(event, extra={"fields": {"kernel": "k"}})


def test_events_of_workers_are_shown_and_compiling_once(capsys):
    with (
        closing(Progress(log_format="json")) as progress,
        connect(ClusterConfig(workers=1), 0, progress) as client,
    ):
        for event in "compiling", "compiling", "went on", "last":
            client.submit(tell, event, pure=False).result()
        shown = ""
        for _ in range(500):
            shown += capsys.readouterr().err
            if "last" in shown:
                break
            time.sleep(0.02)
    events = [json.loads(line) for line in shown.splitlines()]
    told = [event for event in events if event["event"] not in ("cluster", "phase finished")]
    assert [event["event"] for event in told] == ["compiling", "went on", "last"]
    assert [event["kernel"] for event in told] == 3 * ["k"]


def test_the_log_names_the_cluster(capsys, one):
    with (
        closing(Progress(log_format="json")) as progress,
        connect(ClusterConfig(), 0, progress, ClusterAddress(one)),
        connect(ClusterConfig(workers=0), 0, progress),
    ):
        pass
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == 2 * ["cluster", "phase finished"]
    assert [event["kind"] for event in lines[::2]] == ["scheduler", "this process"]
    assert lines[0]["address"] == one


def test_a_dead_scheduler_is_temporary(monkeypatch, dead):
    monkeypatch.setattr(module, "CLUSTER_PATIENCE", module.Patience(contact=0.3))
    with pytest.raises(TemporaryError, match=f"no answer from scheduler {dead}"):
        address(scheduler=dead)


def test_a_scheduler_without_workers_is_temporary(monkeypatch):
    monkeypatch.setattr(module, "CLUSTER_PATIENCE", module.Patience(work=0.2))
    with (
        loopback_cluster(0) as empty,
        pytest.raises(TemporaryError, match=r"tcp://127.* has no worker after 0\.2 s: start"),
    ):
        address(scheduler=empty.scheduler_address)


def test_a_missing_scheduler_file(tmp_path):
    with pytest.raises(InputNotFoundError, match=r"scheduler file .*none\.json does not exist"):
        address(scheduler_file=str(tmp_path / "none.json"))


@pytest.mark.parametrize("content", ["not JSON", "[]", "{}", "3"])
def test_a_wrong_scheduler_file(tmp_path, content):
    (tmp_path / "file").write_text(content)
    with pytest.raises(JobFileError, match=r"file is not a scheduler file: \w+Error: "):
        address(scheduler_file=str(tmp_path / "file"))


@pytest.mark.parametrize("wrong", ["what://ever", "tls://127.0.0.1:9"])
def test_a_wrong_address(wrong):
    with pytest.raises(JobFileError, match=f"{wrong}(:| is not a scheduler's address)") as kept:
        address(scheduler=wrong)
    # Garbage collection would close an open client, in any thread, and could deadlock.
    clients = [found for found in gc.get_objects() if issubclass(type(found), Client)]
    assert "connecting" not in {client.status for client in clients}, kept


@pytest.fixture
def job_file(tmp_path):
    (tmp_path / "in.csv").write_text("x,y\n1,2\n3,4\n5,6\n")
    path = tmp_path / "job.toml"
    path.write_text(f'[input]\npath = "{tmp_path}/in.csv"\n[output]\npath = "{tmp_path}/out"\n')
    return path


def test_exit_codes(monkeypatch, no_signals, job_file, dead):
    monkeypatch.setattr(module, "CLUSTER_PATIENCE", module.Patience(contact=0.3))
    found = CliRunner().invoke(main, ["run", str(job_file), "--scheduler", dead])
    assert found.exit_code == 75
    assert f"error: no answer from scheduler {dead}" in found.stderr
    found = CliRunner().invoke(main, ["run", str(job_file), "--scheduler-file", "none.json"])
    assert found.exit_code == 66
    assert "error: scheduler file none.json does not exist" in found.stderr
    assert nothing_left(job_file.parent / "out")


def test_more_workers_than_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 2**30)
    monkeypatch.setattr(module, "_local_client", Mock(side_effect=AssertionError))
    message = "expected at most 8 on this machine, found 9: each worker takes 128 MiB"
    with (
        pytest.raises(JobFileError, match=message),
        connect(ClusterConfig(workers=9), 0, Progress(quiet=True)),
    ):
        pass
