"""Every command, given a URL with a secret wherever it takes a text, shows and writes none."""

import socket

import pytest
import tomli_w
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import urls
from distsvc.run.work.workers import cluster
from tests.errors.test_secret_forms import URLS, S
from tests.small_runs import forget, three_clusters, write_table

DAYS = "--from", "2026-01-01", "--to", "2026-01-01"
ASKED = "s3://bucket/x"
"""A store that is asked, for seconds, before anything is refused: two commands do."""


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A table, and the output of a run."""
    folder = tmp_path_factory.mktemp("published")
    table = write_table(folder / "t.parquet", three_clusters(400))
    out = folder / "out"
    found = invoke("run", job_file(folder, {"input.path": table, "output.path": out}))
    assert found.exit_code == 0, found.stderr
    return table, out


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No name has an address, and what is written lies in one folder."""

    def unknown(*_arguments, **_options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)


def invoke(*arguments):
    """Call a command as a new process would, which knows no secret yet."""
    forget()
    urls._known.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["distsvc", *map(str, arguments)])
        return CliRunner().invoke(main, list(map(str, arguments)))


def job_file(folder, keys):
    content = {"model": {"algorithm": "depddp"}, "output": {"path": "out"}}
    for key, value in keys.items():
        section, name = key.split(".")
        content.setdefault(section, {})[name] = str(value)
    (folder / "job.toml").write_text(tomli_w.dumps(content))
    return folder / "job.toml"


COMMANDS = {
    "run TABLE": lambda url, job, table, out: ["run", url],
    "run input.path": lambda url, job, table, out: ["run", job({"input.path": url})],
    "run output.path": lambda url, job, table, out: ["run", job({"output.path": url})],
    "run previous": lambda url, job, table, out: ["run", job({"continuity.previous": url})],
    "run reference": lambda url, job, table, out: ["run", job({"continuity.reference": url})],
    "run, its metrics": lambda url, job, table, out: ["run", url, "--metrics-file", "m.prom"],
    "run --metrics-file": lambda url, job, table, out: ["run", job({}), "--metrics-file", url],
    "run --scheduler-file": lambda url, job, table, out: ["run", job({}), "--scheduler-file", url],
    "run --require-tls": lambda url, job, table, out: [
        *("run", job({}), "--require-tls", "--scheduler", url)
    ],
    "init": lambda url, job, table, out: ["init", url, "--out", "new.toml"],
    "init --out": lambda url, job, table, out: ["init", table, "--out", url],
    "plan TABLE": lambda url, job, table, out: ["plan", url],
    "plan input.path": lambda url, job, table, out: ["plan", job({"input.path": url}), "--json"],
    "plan output.path": lambda url, job, table, out: ["plan", job({"output.path": url})],
    "plan --set": lambda url, job, table, out: ["plan", job({}), "--set", url],
    "predict RUN_DIR": lambda url, job, table, out: ["predict", url, table, "labels"],
    "predict INPUT": lambda url, job, table, out: ["predict", out, url, "labels", "--json"],
    "predict OUTPUT": lambda url, job, table, out: ["predict", out, table, url],
    "status": lambda url, job, table, out: ["status", url],
    "status --json": lambda url, job, table, out: ["status", url, "--json"],
    "gc": lambda url, job, table, out: ["gc", url, "--keep", "2"],
    "gc --dry-run": lambda url, job, table, out: ["gc", url, "--dry-run", "--json"],
    "publish": lambda url, job, table, out: ["publish", url, "--held", "20260101-abcdef"],
    "publish --held": lambda url, job, table, out: ["publish", out, "--held", url],
    "rollback": lambda url, job, table, out: ["rollback", url],
    "history": lambda url, job, table, out: ["history", url],
    "history --page": lambda url, job, table, out: ["history", out, "--page", url],
    "history --json": lambda url, job, table, out: ["history", url, "--json"],
    "run --continue-from": lambda url, job, table, out: ["run", job({}), "--continue-from", url],
    "report": lambda url, job, table, out: ["report", url],
    "backfill input.path": lambda url, job, table, out: [
        *("backfill", job({"input.path": url + "{run_date}", "output.path": "o-{run_date}"})),
        *DAYS,
    ],
    "backfill output.path": lambda url, job, table, out: [
        *("backfill", job({"output.path": url + "/{run_date}"}), *DAYS, "--json")
    ],
    "backfill --from": lambda url, job, table, out: [
        *("backfill", job({}), "--from", url, "--to", url)
    ],
    "an option": lambda url, job, table, out: ["status", f"--{url}"],
    "a command": lambda url, job, table, out: [url],
}


def looked_at(folder):
    """Return names and contents of all files but the job file, which the test has written."""
    paths = [path for path in folder.rglob("*") if path.name != "job.toml"]
    return b"".join(str(p).encode() + (p.read_bytes() if p.is_file() else b"") for p in paths)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_form_of_a_secret(name, published, tmp_path):
    table, out = published
    before = looked_at(out.parent)
    asks = name in ("run output.path", "status")
    for url in (url for url in URLS if asks or not url.startswith(ASKED)):
        job = lambda keys: job_file(tmp_path, {"input.path": table} | keys)  # noqa: E731
        found = invoke(*COMMANDS[name](url, job, table, out))
        assert found.exit_code in (2, 65, 66, 75, 78), (url, found.output)
        assert S not in found.stdout + found.stderr, url
        assert S.encode() not in looked_at(tmp_path), url
    assert looked_at(out.parent) == before


@pytest.mark.parametrize("command", ["run", "predict", "backfill"])
@pytest.mark.parametrize("way", ["--scheduler", "DASK_SCHEDULER_ADDRESS"])
def test_no_secret_of_a_scheduler(command, way, published, tmp_path, monkeypatch):
    table, out = published
    keys = {"input.path": table, "output.path": "o-{run_date}" if command == "backfill" else "o"}
    job = job_file(tmp_path, keys)
    arguments = {"run": [job], "predict": [out, table, "p"], "backfill": [job, *DAYS]}[command]
    for url in [
        f"tcp://me:{S}@127.0.0.1:9",
        f"tls://{S}@127.0.0.1:9",
        f"me:{S}@127.0.0.1:9",
        f"ws://me:{S}@127.0.0.1:9/x",
        f"https://127.0.0.1:9/x?token={S}",
    ]:
        if way == "--scheduler":
            found = invoke(command, *arguments, way, url)
        else:
            monkeypatch.setenv(way, url)
            found = invoke(command, *arguments)
        assert found.exit_code in (75, 78), (url, found.output)
        assert S not in found.stdout + found.stderr, url
        assert S.encode() not in looked_at(tmp_path), url
