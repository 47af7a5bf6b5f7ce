"""Jobs from a bucket to a bucket: the same answers as on a disk, and no secret anywhere."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from distsvc.errors import JobFileError
from distsvc.kernels import jit
from distsvc.published.status import status
from distsvc.run.job import run_job
from distsvc.run.work.start import ClusterAddress
from tests.published_files import listed
from tests.s3_server import BUCKET, SETTINGS, client, content, keys, s3_server
from tests.small_runs import MODELS, digests, forget, small_job, three_clusters, write_table

pytest.importorskip("obstore")
pytest.importorskip("s3fs")
pytest.importorskip("moto")

SECRETS = [value.encode() for name, value in SETTINGS.items() if "KEY" in name]


@pytest.fixture(scope="module")
def store():
    with s3_server() as url:
        yield url


@pytest.fixture(scope="module")
def tables(store, tmp_path_factory):
    """A table on the disk, and the same one in the bucket as Parquet and as CSV."""
    folder = tmp_path_factory.mktemp("data")
    path = write_table(folder / "t.parquet", three_clusters(1200))
    pyarrow.csv.write_csv(pq.read_table(path), folder / "t.csv")
    for name in ("t.parquet", "t.csv"):
        client().upload_file(str(folder / name), BUCKET, f"in/{name}")
    return folder


@pytest.fixture
def out(request):
    return request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")


def bucket_job(model, out, table="t.parquet", **sections):
    """Return a job as `small_job` makes it, but from the bucket to the bucket."""
    output = {"path": f"s3://{BUCKET}/{out}"}
    return small_job(f"s3://{BUCKET}/in/{table}", model, output=output, **sections)


def of_bucket(out):
    """Return the digests of labels and model in the bucket, by kind and name."""
    manifest = json.loads(content(f"{out}/manifest.json"))
    names = {file["file"]: file["sha256"] for file in manifest["files"]}
    return {place(name): digest for name, digest in names.items() if name[:6] != "report"}


def of_disk(out):
    paths = [path for path in listed(out) if "report" not in path.parts]
    return {place(str(p.relative_to(out))): digests(p.parent)[p.name] for p in paths}


def place(name):
    kind, _, inner = name.split("/", 2)
    return kind, inner


def check_tidy(out):
    """Check that there is what the manifest lists, the copies, and an empty record of a holder."""
    files = [
        file[key]
        for key in ("file", "stored")
        for file in json.loads(content(f"{out}/manifest.json"))["files"]
    ]
    beside = ["manifest.json", "_SUCCESS", "report.html", "report.json", ".runs/holder.json"]
    assert keys(f"{out}/") == sorted([*files, *beside])
    assert json.loads(content(f"{out}/.runs/holder.json")) == {}


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize("algorithm", ["level tree", "linear"])
def test_the_answer_is_that_of_a_disk(algorithm, tables, tmp_path, out):
    where = {"path": str(tmp_path / "out")}
    run_job(small_job(tables / "t.parquet", MODELS[algorithm], output=where))
    run_job(bucket_job(MODELS[algorithm], out))
    assert of_bucket(out) == of_disk(tmp_path / "out")
    check_tidy(out)
    forget()
    assert run_job(bucket_job(MODELS[algorithm], out)).input.n_rows == 1200  # is published already
    with pytest.raises(JobFileError, match="already published by a different configuration"):
        run_job(bucket_job(MODELS["sampled"], out))


@pytest.mark.usefixtures("quick_page")
@pytest.mark.parametrize("workdir", [None, "disk", "bucket"])
def test_a_run_goes_on(workdir, tables, tmp_path, out, tasks):
    """From whatever place its work is in."""
    known = {"disk": str(tmp_path / "w"), "bucket": f"s3://{BUCKET}/{out}-work", None: None}
    job = bucket_job(MODELS["sampled"], out, cluster={"workdir": known[workdir]})
    tasks.interrupt(job, 6, KeyboardInterrupt())
    [kept] = status(job.output.path)["interrupted"]
    assert kept["kept"] == {"label": 2, "survey": 4}
    run_job(job)
    assert tasks == ["label/00002", "label/00003"]
    check_tidy(out)
    assert keys(f"{out}-work/") == []
    assert not list((tmp_path / "w").rglob("*"))


MOUNTED = """
mount -t tmpfs none "$1" && shift && exec "$@"
"""


def can_unshare():
    """Return True if processes can have a file system of their own here."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


@contextmanager
def process(args, folder, log):
    """Run a module of Python in a folder of its own until the body ends."""
    environment = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["NUMBA_CACHE_DIR"] = str(jit.cache_folder())  # else all kernels are compiled again
    started = subprocess.Popen(
        args, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield started
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@contextmanager
def cluster_apart(folder, hidden):
    """Yield the file of a scheduler with two workers, to which the folder `hidden` looks empty."""
    file = folder / "scheduler.json"
    python = [sys.executable, "-m"]
    apart = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(hidden)] if can_unshare() else []
    with ExitStack() as stack:
        log = stack.enter_context(open(folder / "log", "wb"))
        plain = ["--host", "127.0.0.1", "--scheduler-file", str(file)]
        command = [*python, "distributed.cli.dask_scheduler", *plain, "--port", "0"]
        stack.enter_context(process([*command, "--no-dashboard"], folder, log))
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        for number in range(2):
            own = folder / f"worker-{number}"
            own.mkdir()
            command = [*apart, *python, "distributed.cli.dask_worker", *plain, "--no-nanny"]
            command += ["--nthreads", "1", "--no-dashboard", "--local-directory", str(own)]
            stack.enter_context(process(command, own, log))
        yield file


def test_workers_that_share_no_folder(tables, tmp_path, out, monkeypatch, caplog):
    from distributed import Client

    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
    (mine / "marker").write_text("only the driver sees it")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(jit.cache_folder()))
    monkeypatch.setenv("TMPDIR", str(mine))
    monkeypatch.setattr("tempfile.tempdir", None)
    caplog.set_level(logging.INFO)
    job = bucket_job(MODELS["level tree"], out)
    with cluster_apart(theirs, hidden=mine) as file:
        with Client(scheduler_file=str(file), timeout=60) as found:
            found.wait_for_workers(2, timeout=60)
            folders = set(found.run(os.getcwd).values())
            sees = set(found.run(os.path.exists, str(mine / "marker")).values())
        assert len(folders) == 2
        assert str(Path.cwd()) not in folders
        assert sees == {not can_unshare()}
        run_job(job, ClusterAddress(scheduler_file=str(file)))
    run_job(small_job(tables / "t.parquet", MODELS["level tree"], output={"path": str(mine / "o")}))
    assert of_bucket(out) == of_disk(mine / "o")
    check_tidy(out)
    said = caplog.text.encode() + (theirs / "log").read_bytes()
    for key in keys():
        said += content(key)
    assert not [secret for secret in SECRETS if secret in said]
