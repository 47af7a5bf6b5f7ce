"""Every command: output, exit codes, and the doubts in the last lines."""

import json
import tomllib
from types import SimpleNamespace

import click
import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w
from click.testing import CliRunner

from distsvc import __version__
from distsvc.cli.main import main
from distsvc.published.demo import make_table
from distsvc.storage.publishing.publication import Output
from tests.processes import python
from tests.report.reports import make_levels_report, typed

pytestmark = pytest.mark.usefixtures("no_signals")

HEAVY = {
    "numpy", "sklearn", "scipy", "numba", "dask", "distributed", "pyarrow", "zarr", "matplotlib",
}  # fmt: skip


@pytest.fixture
def job(tmp_path):
    pq.write_table(make_table("gaussians3"), tmp_path / "in.parquet")
    path = tmp_path / "job.toml"
    content = {
        "input": {"path": f"{tmp_path}/in.parquet", "label": "label"},
        "model": {"gamma": 8.0, "nu": 0.1, "max_iter": 20_000},
        "output": {"path": f"{tmp_path}/out"},
    }
    path.write_text(tomli_w.dumps(content))
    return path


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["backfill", "--help"], ["--version"]]
)
def test_help_imports_nothing_heavy(arguments):
    code = "import sys, atexit; sys.argv[0] = 'distsvc'\n"
    code += "atexit.register(lambda: print('\\n', *{name.split('.')[0] for name in sys.modules}))\n"
    code += "from distsvc.cli.main import main; main()"
    found = python("-c", code, *arguments)
    assert found.returncode == 0, found.stderr
    *shown, modules = found.stdout.splitlines()
    assert any("Usage: distsvc" in line or __version__ in line for line in shown)
    assert {"distsvc", "click"} <= set(modules.split())
    assert set(modules.split()) & HEAVY == set()


def test_without_a_command_the_help_is_shown():
    found = CliRunner().invoke(main, [])
    assert found.exit_code == 2
    assert all(name in found.output for name in ("demo", "run", "predict", "report"))


@pytest.mark.parametrize("name", main.commands)
def test_every_command_and_option_has_a_help_text(name):
    command = main.commands[name]
    assert command.help
    assert all(p.help for p in command.params if isinstance(p, click.Option))


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["run"],
        ["run", "a.toml", "b.toml"],
        ["run", "a.toml", "--sheduler", "x"],
        ["run", "a.toml", "--set"],
        ["predict", "run"],
        ["report"],
        ["demo", "--json"],
    ],
)
def test_wrong_usage(arguments):
    found = CliRunner().invoke(main, arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Error: " in found.stderr


def test_json_is_one_object_and_progress_is_lines_of_json(job):
    found = python("-m", "distsvc", "run", str(job), "--json")
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("\n") == 1
    report = json.loads(found.stdout)
    assert report["input"]["n_rows"] == 900
    assert len(report["clusters"]) == 3
    assert report["command"].endswith(f"run {job} --json")
    events = [json.loads(line) for line in found.stderr.splitlines()]
    assert {"phase finished", "cluster"} <= {event["event"] for event in events}
    assert [e["phase"] for e in events if e["event"] == "phase finished"][-1] == "publish"
    assert all("time" in event for event in events)


def test_standard_error_has_sentences_by_default(job, tmp_path, monkeypatch):
    monkeypatch.delenv("DISTSVC_LOG_FORMAT")
    run = ["run", str(job), "--out"]
    found = CliRunner().invoke(main, [*run, f"{tmp_path}/a"])
    assert found.exit_code == 0, found.output
    assert "Using one core: " in found.stderr
    assert "{" not in found.stderr
    found = CliRunner().invoke(main, [*run, f"{tmp_path}/b", "-q"])
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout.startswith("3 clusters in 900 rows, ")
    found = CliRunner().invoke(main, [*run, f"{tmp_path}/c", "--verbose"])
    assert "Publish: " in found.stderr
    assert "[phase publish, seconds " in found.stderr
    found = CliRunner().invoke(main, [*run, f"{tmp_path}/d", "--log-format", "json"])
    assert all(json.loads(line)["event"] for line in found.stderr.splitlines())
    found = CliRunner().invoke(main, [*run, f"{tmp_path}/e", "--quiet", "--verbose"])
    assert (found.exit_code, "--quiet and --verbose are both" in found.stderr) == (2, True)


def test_run_predict_report(job, tmp_path):
    runner = CliRunner()
    found = runner.invoke(main, ["run", str(job), "--set", "output.path=" + str(tmp_path / "run")])
    assert (found.exit_code, found.stdout[:24]) == (0, "3 clusters in 900 rows, "), found.output
    assert found.stdout.endswith(f"\n{tmp_path}/run/report.html\n")

    places = [str(tmp_path / "run"), str(tmp_path / "in.parquet"), str(tmp_path / "new")]
    found = runner.invoke(main, ["predict", *places])
    words = f"900 rows labelled in {tmp_path}/new/labels\n"
    assert (found.exit_code, found.stdout) == (0, words), found.stderr
    found = runner.invoke(main, ["predict", *places, "--json"])
    assert json.loads(found.stdout)["rows"] == 900
    assert (tmp_path / "new/manifest.json").exists()

    (tmp_path / "run/report.html").unlink()
    found = runner.invoke(main, ["report", str(tmp_path / "run")])
    assert (found.exit_code, found.stdout) == (0, f"{tmp_path}/run/report.html\n")
    assert "3 clusters" in (tmp_path / "run/report.html").read_text()


def test_an_identical_run_prints_already_published(job):
    runner = CliRunner()
    first = runner.invoke(main, ["run", str(job)])
    again = runner.invoke(main, ["run", str(job)])
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]
    line, _, _ = first.stdout.partition("\n")
    assert again.stdout.splitlines()[0] == f"already published: {line.rpartition(', ')[0]}"
    events = [json.loads(line)["event"] for line in again.stderr.splitlines()]
    assert "already published" in events
    assert "already published" not in first.stderr
    assert "already published" in runner.invoke(main, ["run", str(job), "--overwrite"]).stderr
    anew = runner.invoke(main, ["run", str(job), "--overwrite", "--fresh"])
    assert (anew.exit_code, anew.stdout.splitlines()[-1]) == (0, first.stdout.splitlines()[-1])
    assert "already published" not in anew.stderr


def told(found):
    """Return the line of an error, and the events of the log."""
    lines = found.stderr.splitlines()
    [line] = [line for line in lines if line.startswith("error: ")]
    return line, [json.loads(text) for text in lines if text != line]


def test_a_defect_of_ours_is_not_blamed_on_the_job(job, tmp_path, monkeypatch):
    def mismatch(*_):
        return np.zeros(3) + np.zeros(2)

    monkeypatch.setattr("distsvc.models.baselines.fuzzy.alternate", mismatch)
    job.write_text(
        tomli_w.dumps(tomllib.loads(job.read_text()) | {"model": {"algorithm": "fuzzy-c-means"}})
    )
    found = CliRunner().invoke(main, ["run", str(job)])
    assert (found.exit_code, found.stdout) == (1, "")
    line, events = told(found)
    assert line.startswith("error: this is a defect of distsvc: ValueError: operands could not be")
    assert line.endswith("(3,) (2,) ; the traceback is in the log")
    assert events[-1]["event"] == "defect"
    assert "return np.zeros(3) + np.zeros(2)" in events[-1]["traceback"]
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert Output(tmp_path / "out").kept_works(), "a version without the defect may go on"


def test_a_defect_without_a_progress_is_logged_too(monkeypatch):
    monkeypatch.setattr("distsvc.published.status.status", lambda _: 1 / 0)
    found = CliRunner().invoke(main, ["status", "out"])
    assert found.exit_code == 1
    *lines, line = found.stderr.splitlines()
    assert "a defect of distsvc: ZeroDivisionError: division by zero; the traceback" in line
    assert lines[0] == "A defect of distsvc: ZeroDivisionError: division by zero"
    assert any("1 / 0" in told for told in lines)


def test_complaints_about_usage_show_no_secret_and_no_escape():
    found = CliRunner().invoke(main, ["status", "a", "https://me:Pl4nted@h/x\x1b[31m"])
    assert found.exit_code == 2
    assert "unexpected extra argument (https://h/x\\x1b[31m)" in found.stderr


def test_lines_for_people_are_safe_for_a_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o\x1b[31m" / ".runs").mkdir(parents=True)
    for command in (["status"], ["gc"], ["publish", "--held", "x"], ["report"]):
        found = CliRunner().invoke(main, [*command, "o\x1b[31m"])
        assert "\x1b" not in found.output


def test_a_name_that_no_file_can_have():
    for command in (["status"], ["gc"], ["gc", "--keep=2"], ["report"], ["run"], ["init"]):
        found = CliRunner().invoke(main, [*command, "a" * 5000])
        assert found.exit_code in (65, 78), found.output
        assert found.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("support", "doubts", "words"),
    [
        (
            0.1,
            [],
            "no reliable clusters in 1,500 rows (the labels are a best guess with 3 groups; only "
            "10.0% of the models agree), 2.1% outside every",
        ),
        (0.9, [], "3 clusters in 1,500 rows, 2.1% outside every"),
        (
            0.9,
            ["clusters 0 and 1 differ only in premium"],
            "3 clusters in 1,500 rows, but clusters 0 and 1 differ only in premium, 2.1% outside",
        ),
    ],
)
def test_the_last_lines_have_the_doubt(support, doubts, words, monkeypatch):
    made = make_levels_report("spiral") | {"doubts": doubts}
    made["model"]["fitted"] |= {"agreement": 0.9, "support": support}
    job = SimpleNamespace(output=SimpleNamespace(path="out"))
    monkeypatch.setattr("distsvc.cli.main.run_and_announce", lambda *_, **__: (job, typed(made)))
    found = CliRunner().invoke(main, ["run", "moons.csv"])
    assert found.exit_code == 0
    assert found.stdout.startswith(words)
