"""A secret in the URL of an input is in nothing that a run writes, prints or sends."""

import http.server
import json
import os
import pickle
import shutil
import threading
from importlib import import_module
from pathlib import Path

import pytest
import tomli_w
from click.testing import CliRunner
from distributed import Client

from distsvc.cli.main import main
from distsvc.job.file import parse_job
from distsvc.run.work.phases import Phase
from tests.clusters import loopback_cluster
from tests.small_runs import forget, three_clusters, write_table

pytest.importorskip("aiohttp")

SECRET = "s3cr3tpl4nted"


class Store(http.server.BaseHTTPRequestHandler):
    """Serves one file to those who give the password or the signature."""

    def log_message(self, *_args):
        pass

    def do_GET(self):
        known = self.headers.get("Authorization") or SECRET in self.path
        content = self.server.content
        if not known or "missing" in self.path:
            content, status = b"", 404 if known else 401
        elif "Range" in self.headers:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            content, status = content[int(first) : int(last) + 1], 206
        else:
            status = 200
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    path = write_table(tmp_path_factory.mktemp("data") / "t.parquet", three_clusters(600))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        server.content = path.read_bytes()
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


WAYS = {
    "password": "http://me:{}@{}/t.parquet",
    "signature": "http://{1}/t.parquet?X-Amz-Signature={0}&X-Amz-Credential=a/b",
    "chain": "simplecache::http://me:{}@{}/t.parquet",
    "white space": "http://{1}/my files/t.parquet?X-Amz-Signature={0}",
    "matrix": "http://{1}/a;token={0}/t.parquet",
    "fragment": "http://{1}/t.parquet#access_token={0}",
}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Copies of the run's folder after every task, and what a cluster is sent."""
    copies, sent, done, submitted = tmp_path / "copies", [], Phase.do, Client.submit

    def copy(run_dir):
        shutil.copytree(run_dir, copies / f"{len(os.listdir(copies))}")

    def do(self, run_dir, number):
        rows = done(self, run_dir, number)
        copy(run_dir)
        return rows

    def submit(self, function, *arguments, **options):
        sent.append(pickle.dumps((function, arguments, options)))
        copy(arguments[1])
        return submitted(self, function, *arguments, **options)

    copies.mkdir()
    monkeypatch.setattr(Client, "submit", submit)
    monkeypatch.setattr(Phase, "do", do)
    return copies, sent


def run(tmp_path, url, workers, *more, in_file=True):
    """Run a job whose input is a URL, given in its file or by ``--set``."""
    forget()
    content = {
        "input": {"path": url if in_file else "none"},
        "model": {"algorithm": "depddp"},
        "cluster": {"workers": workers, "partition_rows": 300},
        "output": {"path": str(tmp_path / "out")},
    }
    job = tmp_path / "job.toml"
    job.write_text(tomli_w.dumps(content))
    arguments = ["run", str(job), "--json", *more]
    arguments += [] if in_file else ["--set", f"input.path={url}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["distsvc", *arguments])
        return CliRunner().invoke(main, arguments)


def everything_below(*folders: Path) -> dict[str, bytes]:
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path): str(path).encode() + path.read_bytes() for path in paths}


def secret_free(contents: dict[str, bytes]) -> bool:
    found = [name for name, content in contents.items() if SECRET.encode() in content]
    assert not found
    return len(contents) > 0


@pytest.mark.parametrize(
    ("way", "workers", "in_file"),
    [
        ("password", 0, True),
        ("signature", 1, True),
        ("chain", 0, True),
        ("white space", 0, False),
    ],
)
def test_a_run_that_ends_well(tmp_path, host, written, way, workers, in_file):
    copies, sent = written
    found = run(tmp_path, WAYS[way].format(SECRET, host), workers, in_file=in_file)
    assert found.exit_code == 0, found.stderr
    assert SECRET not in found.stdout
    assert SECRET not in found.stderr
    report = json.loads(found.stdout)
    assert "***" in report["input"]["path"]
    if not in_file:
        assert "***" in report["command"]
    assert secret_free(everything_below(tmp_path / "out", copies))
    assert not [payload for payload in sent if SECRET.encode() in payload]
    assert bool(sent) == bool(workers)
    assert list(copies.rglob("plan.json"))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "***" in manifest["job"]["input"]["path"]
    again = run(tmp_path, WAYS[way].format(SECRET, host), 0, in_file=in_file)
    assert "already published" in again.stderr


@pytest.mark.parametrize("way", ["password", "signature", "chain"])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("/t.parquet", "/missing.parquet"), 66),
        (("127.0.0.1:", "127.0.0.1:1"), 75),
        (("http:", "nothing:"), 78),
        (("http:", "s3:"), 78),
    ],
)
def test_a_run_that_fails(tmp_path, host, way, change, code):
    url = WAYS[way].format(SECRET, host).replace(*change)
    if change[1] == "127.0.0.1:1":
        url = url.replace(host.replace(*change), "127.0.0.1:9")
    found = run(tmp_path, url, 0)
    if way == "signature" and change[1] == "s3:":
        return  # a query of S3's is no secret
    assert (found.exit_code, found.stdout) == (code, ""), found.stderr
    assert SECRET not in found.stderr
    [line] = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert "***" in line


@pytest.mark.parametrize("way", ["matrix", "fragment"])
def test_a_token_in_a_path_is_refused(tmp_path, host, way):
    found = run(tmp_path, WAYS[way].format(SECRET, host), 0)
    assert (found.exit_code, found.stdout) == (78, ""), found.stderr
    assert "give the token as a query" in found.stderr
    assert SECRET not in found.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "more",
    [
        ["--set", "input.columns=['nowhere']"],
        ["--set", "input.where=x0 > 1e9"],
        ["--set", "output.path=s3://K:{}@b/x"],
        ["--set", "input.path:http://me:{}@h/x"],
        ["--set", "input='http://me:{}@h/x'"],
        ["--set", "input.nothing='http://me:{}@h/x'"],
        ["--scheduler", "tcp://127.0.0.1:9", "--set", "model.depth=3"],
        ["--scheduler", "tcp://user:{}@127.0.0.1:9", "--require-tls"],
        ["--scheduler", "user:{}@127.0.0.1:9", "--require-tls"],
        ["--scheduler", "nonsense://{}@127.0.0.1:9"],
    ],
)
def test_a_job_that_is_refused(tmp_path, host, more):
    url = WAYS["password"].format(SECRET, host)
    found = run(tmp_path, url, 0, *(text.replace("{}", SECRET) for text in more))
    assert found.exit_code in (65, 75, 78), found.stderr
    assert SECRET not in found.stderr + found.stdout


@pytest.mark.parametrize("way", ["password", "signature"])
def test_a_run_goes_on_in_another_process(tmp_path, host, monkeypatch, way):
    url = WAYS[way].format(SECRET, host)
    with monkeypatch.context() as patch:
        patch.setattr(import_module("distsvc.run.labelling.phase"), "prepared_block", fails)
        assert run(tmp_path, url, 0).exit_code != 0
    for name in [name for name in os.environ if name.startswith("DISTSVC_PRIVATE_URL_")]:
        monkeypatch.delenv(name)
    found = run(tmp_path, url, 0)
    assert found.exit_code == 0
    assert "kept" in found.output
    assert secret_free(everything_below(tmp_path / "out"))


def fails(*_arguments):
    raise OSError("no power")


def test_a_defect_shows_no_secret(tmp_path, host, monkeypatch):
    url = WAYS["signature"].format(SECRET, host)

    def fails(*_):
        raise KeyError(f"what {url} is")

    monkeypatch.setattr(import_module("distsvc.run.fitting.clustering"), "survey_table", fails)
    found = run(tmp_path, url, 0)
    assert found.exit_code == 1
    assert "defect" in found.stderr
    assert SECRET not in found.stderr


def test_workers_of_a_scheduler_are_sent_no_secret(tmp_path, host):
    url = WAYS["password"].format(SECRET, host)
    with loopback_cluster(1) as cluster:
        found = run(tmp_path, url, 0, "--scheduler", cluster.scheduler_address)
    assert found.exit_code == 78, found.stderr
    assert "are not sent to the workers" in found.stderr
    assert SECRET not in found.stderr


def test_the_digest_of_a_job_does_not_tell_its_password():
    def digest(url):
        return parse_job({"input": {"path": url}, "output": {"path": "o"}}).digest()

    assert digest("http://me:a@h/x?v=1") == digest("http://h/x?v=1") != digest("http://h/x?v=2")


def test_a_job_shows_no_secret():
    job = parse_job({"input": {"path": f"http://a:{SECRET}@h/x"}, "output": {"path": "o"}})
    assert SECRET not in repr(job) + str(job) + job.model_dump_json()
    assert job.input.path.endswith(f"{SECRET}@h/x")
