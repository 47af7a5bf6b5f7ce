"""Workers run only their user's code, and have the driver's versions."""

import json
import os
import tempfile
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import dask
import psutil
import pytest
from distributed import Client, Security

from distsvc.errors import JobFileError, TemporaryError
from distsvc.job.config import ClusterConfig
from distsvc.kernels.jit import cache_folder
from distsvc.run.job import run_job
from distsvc.run.work.progress import Meter, Progress
from distsvc.run.work.start import ClusterAddress
from distsvc.run.work.workers import cluster as module
from distsvc.run.work.workers import fanout
from distsvc.run.work.workers.cluster import compare_versions, connect, versions
from distsvc.run.work.workers.fanout import fan_out
from distsvc.storage.publishing.publication import Output
from tests.clusters import loopback_cluster
from tests.jobs.blob_jobs import config
from tests.processes import python
from tests.storage.written_runs import name_of, work_of, write_run

NOBODY = 65534

ATTACK = """
import asyncio, os, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
from distributed import Security
from distributed.core import rpc

PAGES = "", "status", "info/main/workers.html", "json/counts.json", "metrics", "health"

async def reached(address, security):
    ours = security.get_connection_args("client")
    async with rpc(address, timeout=1, connection_args=ours) as it:
        return await asyncio.wait_for(it.identity(), 2)

def page(url):
    return urllib.request.urlopen(url, timeout=1)

def attack(what, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return
    print(what)

mine = Security.temporary()
if os.getuid() == 0:  # only now, for Python itself may lie in a private folder
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
with ThreadPoolExecutor(40) as pool:
    for port in sys.argv[1].split(","):
        for scheme, security in ("tcp", Security()), ("tls", mine):
            address = f"{scheme}://127.0.0.1:{port}"
            pool.submit(attack, address, lambda *it: asyncio.run(reached(*it)), address, security)
        for name in PAGES:
            pool.submit(attack, f"{port}/{name}", page, f"http://127.0.0.1:{port}/{name}")
if os.getuid() == int(sys.argv[2]):
    for folder in sys.argv[3:]:
        attack(folder, lambda: open(f"{folder}/evil.py", "w"))
print("done")
"""


def ports() -> set[int]:
    me = psutil.Process()
    connections = (c for p in (me, *me.children(recursive=True)) for c in p.net_connections("inet"))
    return {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}


def test_another_user_gets_no_answer_and_can_write_nowhere(tmp_path):
    before = ports()
    with connect(ClusterConfig(workers=1), 0, Progress(quiet=True)) as client:
        [worker] = client.scheduler_info(n_workers=-1)["workers"].values()
        own = Path(worker["local_directory"])
        folders = [own, *own.parents[:2], *filter(None, [cache_folder()])]
        arguments = [",".join(map(str, ports() - before)), NOBODY, *folders]
        homeless = os.environ | {"HOME": "/nonexistent"}
        found = python("-c", ATTACK, *arguments, cwd="/", timeout=120, env=homeless)
    assert found.stdout.split() == ["done"], found.stderr
    assert len(ports() - before) == 0
    assert not own.parents[1].exists()


MEDDLE = """
import fcntl, os, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
for folder in sys.argv[3:]:
    try:
        open(f"{folder}/evil.py", "w")
        print(folder)
    except PermissionError:
        pass
try:
    fcntl.flock(os.open(sys.argv[2], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held")
except PermissionError:
    pass
print("done")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_can_not_write_to_a_run_or_hold_its_output():
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        output = Output(Path(open_to_all) / "out")
        with output.locked("0" * 64), work_of(output, "0" * 64) as work:
            write_run(output, name_of(work), "a")
            work.put("plan.json", b"{}")
            out, run = Path(output.store.address), Path(work.address)
            places = [out, *(path for path in out.rglob("*") if path.is_dir())]
            assert run in places
            assert run.parent.stat().st_mode & 0o777 == 0o700
            found = python("-c", MEDDLE, NOBODY, run.parent / "lock", *places, cwd="/")
    assert found.stdout.split() == ["done"], found.stderr


@pytest.fixture(scope="module")
def tls_settings(tmp_path_factory):
    """Dask's settings for TLS, with a certificate in files."""
    folder, made = tmp_path_factory.mktemp("tls"), Security.temporary()
    (folder / "certificate.pem").write_text(made.tls_client_cert)
    (folder / "key.pem").write_text(made.tls_client_key)
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    settings = {"ca-file": certificate}
    for role in "client", "scheduler", "worker":
        settings |= {f"{role}.cert": certificate, f"{role}.key": key}
    return {f"distributed.comm.tls.{name}": value for name, value in settings.items()}


def test_a_job_on_a_tls_cluster(tls_settings, blob_table, tmp_path, quick_page):
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(tls_settings))
        cluster = stack.enter_context(loopback_cluster(1, "tls"))
        address = cluster.scheduler_address
        assert address.startswith("tls://127.0.0.1:")
        job = config(blob_table, tmp_path / "out")
        report = run_job(job, ClusterAddress(address, require_tls=True))
    assert report.input.n_rows == 900
    assert (tmp_path / "out" / "manifest.json").exists()


def client_of(address, settings):
    """Connect to a scheduler with some settings of Dask."""
    with (
        dask.config.set(settings),
        connect(ClusterConfig(), 0, Progress(quiet=True), ClusterAddress(address)),
    ):
        pass


def test_a_wrong_tls_configuration_says_what_to_change(tls_settings, tmp_path):
    other, name = Security.temporary(), "distributed.comm.tls."
    for kind in ("cert", "key"):
        (tmp_path / kind).write_text(getattr(other, f"tls_client_{kind}"))
    files = {f"{name}client.{kind}": str(tmp_path / kind) for kind in ("cert", "key")}
    none = dict.fromkeys(tls_settings)
    with ExitStack() as stack:
        with dask.config.set(tls_settings):
            secure = stack.enter_context(loopback_cluster(1, "tls")).scheduler_address
        plain = stack.enter_context(loopback_cluster(1)).scheduler_address
        wrong = [
            (secure, none, r"no TLS certificates are set; set .*tls\.ca-file, .* in Dask's conf"),
            (secure, {f"{name}ca-file": "no.pem"}, r"not exist: .*ca-file = no\.pem \(not there\)"),
            (secure, {f"{name}ca-file": __file__}, r"the TLS files can't be used \(.*ca-file = "),
            (secure, {f"{name}client.key": files[f"{name}client.key"]}, "files can't be used"),
            (
                secure,
                files | {f"{name}ca-file": files[f"{name}client.cert"]},
                "the scheduler's certificate is not from the authority in .*ca-file",
            ),
            (plain.replace("tcp", "tls"), {}, "the scheduler does not use TLS: give its tcp://"),
            (plain, {"distributed.comm.require-encryption": True}, "give a tls:// address"),
            (plain.replace("tcp", "http"), {}, "'http'.*; expected tcp://HOST:PORT or tls://HOST"),
        ]
        for address, settings, words in wrong:
            with pytest.raises(JobFileError, match=words):
                client_of(address, tls_settings | settings)


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:8786", "tcp://127.0.0.1:8786", "host:8786"])
def test_tls_can_be_required(address):
    with (
        pytest.raises(JobFileError, match=rf"^--require-tls: scheduler {address} is not a tls"),
        connect(
            ClusterConfig(), 0, Progress(quiet=True), ClusterAddress(address, require_tls=True)
        ),
    ):
        pass


def test_local_work_satisfies_required_tls():
    nobody = ClusterConfig(workers=0)
    with connect(nobody, 0, Progress(quiet=True), ClusterAddress(require_tls=True)) as client:
        assert client is None


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("tcp://192.0.2.1:8786", True),
        ("192.0.2.1:8786", True),
        ("tcp://[2001:db8::1]:8786", True),
        ("tls://192.0.2.1:8786", False),
        ("tcp://127.0.0.1:1", False),
        ("localhost:1", False),
        ("tcp://[::1]:1", False),
    ],
)
def test_a_remote_scheduler_without_tls_gives_a_warning(address, warned, monkeypatch, capsys):
    def start(*_, **__):
        raise OSError("far enough")

    monkeypatch.setattr("distributed.Client.__init__", start)
    with (
        closing(Progress(log_format="json")) as progress,
        pytest.raises(TemporaryError, match="far enough"),
        connect(ClusterConfig(), 0, progress, ClusterAddress(address)),
    ):
        pass
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["scheduler without TLS"] * warned
    assert all(f"scheduler {address} is on another host" in event["about"] for event in events)


def other(name):
    return tuple((key, "0.1" if key == name else value) for key, value in versions())


@pytest.mark.parametrize(
    "name", ["python", "distsvc", "distsvc sources", "numba", "numpy", "pyarrow"]
)
def test_other_and_unknown_versions_are_named(name):
    ours = dict(versions())
    message = f"^worker a has {name} 0.1, this process has {ours.pop(name)}; driver and workers"
    with pytest.raises(JobFileError, match=message):
        compare_versions("a", versions(), other(name))
    with pytest.raises(JobFileError, match=f"{name} unknown"):
        compare_versions("a", versions(), tuple(ours.items()))


def test_a_worker_without_distsvc_is_named():
    with pytest.raises(
        JobFileError, match="worker tcp://a:1 has another version of distsvc than this process: No"
    ):
        compare_versions("tcp://a:1", versions(), ModuleNotFoundError("No module named 'distsvc'"))
    compare_versions("tcp://a:1", versions(), OSError("it is gone"))


@pytest.fixture
def other_there(monkeypatch):
    """Let the workers, which are threads of this process, have another NumPy."""
    ours, theirs, driver = versions(), other("numpy"), threading.get_ident()

    def installed():
        return ours if threading.get_ident() == driver else theirs

    monkeypatch.setattr(module, "versions", installed)
    monkeypatch.setattr(fanout, "versions", installed)


def test_processors_are_compared_before_the_start(monkeypatch, caplog):
    driver = threading.get_ident()
    kinds = {True: "X86_V3, Haswell", False: "X86_V4, SkylakeX"}
    monkeypatch.setattr(module, "processor", lambda: kinds[threading.get_ident() == driver])
    with (
        loopback_cluster(1) as cluster,
        caplog.at_level("WARNING", "distsvc"),
        connect(
            ClusterConfig(), 0, Progress(quiet=True), ClusterAddress(cluster.scheduler_address)
        ),
    ):
        pass
    [record] = [one for one in caplog.records if one.getMessage() == "other processor"]
    assert record.fields["who"].startswith("worker tcp://127")
    assert (record.fields["ours"], record.fields["theirs"]) == (kinds[True], kinds[False])


def test_versions_are_compared_before_the_start(other_there):
    with (
        loopback_cluster(1) as cluster,
        pytest.raises(JobFileError, match=r"worker tcp://127.* has numpy 0\.1, this process has "),
        connect(
            ClusterConfig(), 0, Progress(quiet=True), ClusterAddress(cluster.scheduler_address)
        ),
    ):
        pass


def never(run_dir: str, number: int) -> int:
    raise AssertionError


def test_versions_of_a_worker_that_joins_later_are_compared(other_there, tmp_path):
    with (
        loopback_cluster(1) as cluster,
        Client(cluster.scheduler_address, set_as_default=False) as client,
        pytest.raises(JobFileError, match=r"worker tcp://127.* has numpy 0\.1, this process has "),
    ):
        list(fan_out(client, never, str(tmp_path), [0], Meter(Progress(quiet=True), "label")))
