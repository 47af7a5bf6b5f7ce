"""Metrics of published, held, failed and stopped runs, which no metric can make fail."""

import os
import time
from importlib import import_module
from types import SimpleNamespace as Stand

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import distsvc
from distsvc.cli.main import main
from distsvc.errors import DistsvcError, TemporaryError
from distsvc.job.config import ChecksConfig
from distsvc.monitoring import announce
from distsvc.monitoring.outcome import RunOutcome
from distsvc.report.content.parts import ColumnDrift, DriftPart, LineagePart
from distsvc.run.nights.checks import RunMetrics, run_checks
from distsvc.run.reporting.files import read_report
from distsvc.storage.publishing.publication import Output
from tests.processes import python
from tests.run.nights.test_checks import STORIES

pytestmark = pytest.mark.usefixtures("quick_page")

ALWAYS = {"last_run_timestamp_seconds", "duration_seconds", "exit_code", "build_info"}
SUCCESS, CHECK = "last_success_timestamp_seconds", "last_check_timestamp_seconds"
OF_JOB = {"run_date_timestamp_seconds", "candidates"}
COUNTS = {"warnings", "failed_checks", "warned_checks"}
OF_RESULT = {"rows", "clusters", SUCCESS, CHECK, *COUNTS, *OF_JOB}  # of a model without outliers
LABELLED = {"check_found": "check", "check_least": "check", "check_most": "check"}
LABELLED |= {"build_info": "version"}


def write_job(folder, **sections):
    """Write a small table and a job that clusters it in this process; return the job's path."""
    X = np.random.default_rng(0).normal(size=(90, 2))
    X[::2] += 6.0
    pq.write_table(pa.table({"x": X[:, 0], "y": X[:, 1]}), folder / "in.parquet")
    job = {
        "job": {"name": "shop"},
        "input": {"path": f"{folder}/in.parquet"},
        "model": {"algorithm": "bico", "n_clusters": 2},
        "cluster": {"workers": 0},
        "output": {"path": f"{folder}/out"},
    }
    (folder / "job.toml").write_text(tomli_w.dumps(job | sections))
    return folder / "job.toml"


def parsed(path, job="shop"):
    """Return the values of a metrics file by name without prefix; all are gauges of one job.

    Values of a metric with a second label are by that label.
    """
    values = {}
    for family in text_string_to_metric_families(path.read_text()):
        assert family.type == "gauge"
        assert family.documentation
        name = family.name.removeprefix("distsvc_")
        assert all(sample.labels["job"] == job for sample in family.samples)
        if name in LABELLED:
            values[name] = {one.labels[LABELLED[name]]: one.value for one in family.samples}
            continue
        [sample] = family.samples
        assert sample.labels == {"job": job}
        values[name] = sample.value
    return values


def run(job, *options):
    return CliRunner().invoke(main, ["run", str(job), *map(str, options)])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with a job that was run once and its metrics, the job, and the time before."""
    folder = tmp_path_factory.mktemp("published")
    job, before = write_job(folder), time.time()
    found = run(job, "--metrics-file", folder / "shop.prom")
    assert found.exit_code == 0, found.output
    return folder, job, before


@pytest.fixture
def raising(monkeypatch):
    """Return a function that makes every run raise an error."""

    def raises(error):
        def run_job(*_, **__):
            raise error

        monkeypatch.setattr(import_module("distsvc.run.job"), "run_job", run_job)

    return raises


def test_a_published_run(published):
    folder, _, before = published
    values = parsed(folder / "shop.prom")
    assert set(values) == ALWAYS | OF_RESULT
    assert (values["exit_code"], values["rows"], values["clusters"]) == (0, 90, 2)
    assert values["failed_checks"] == 0
    assert before <= values[SUCCESS] == values["last_run_timestamp_seconds"] <= time.time()
    assert {path.name for path in folder.iterdir()} == {
        "in.parquet", "job.toml", "out", "shop.prom",
    }  # fmt: skip


def test_a_result_published_before_is_a_success(published, tmp_path):
    _, job, _ = published
    assert run(job, "--metrics-file", tmp_path / "m.prom").exit_code == 0
    values = parsed(tmp_path / "m.prom")
    assert set(values) == ALWAYS | OF_RESULT
    assert (values["exit_code"], values["rows"]) == (0, 90)


def test_a_run_that_a_check_holds_back(published):
    folder, job, _ = published
    before = parsed(folder / "shop.prom")
    changes = ["checks.min_rows=91", "model.seed=1"]
    options = [part for change in changes for part in ("--set", change)]
    found = run(job, "--overwrite", *options, "--metrics-file", folder / "shop.prom")
    assert found.exit_code == 76, found.output
    values = parsed(folder / "shop.prom")
    assert (values["exit_code"], values["failed_checks"], values["rows"]) == (76, 1, 90)
    assert (values["candidates"], values["warned_checks"]) == (1, 0)
    assert values["check_found"] == {"min_rows": 90}
    assert values["check_least"] == {"min_rows": 91}
    assert "check_most" not in values
    assert values[SUCCESS] == before[SUCCESS] < values["last_run_timestamp_seconds"]


class NotReadyError(DistsvcError):
    exit_code = 99


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TemporaryError("no workers"), 75),
        (NotReadyError("not yet"), 99),
        (ValueError("a defect"), 1),
        (KeyError("a defect"), 1),
        (MemoryError(), 70),
    ],
)
def test_a_failed_run_keeps_the_last_success(tmp_path, raising, error, code):
    job, path = write_job(tmp_path), tmp_path / "m.prom"
    raising(error)
    path.write_text(f'distsvc_{SUCCESS}{{job="shop"}} 1.5e9\ndistsvc_rows{{job="shop"}} 7\n')
    assert run(job, "--metrics-file", path).exit_code == code
    values = parsed(path)
    looked = {CHECK} if code == 99 else set()  # a skipped run also sets the time of the check
    assert set(values) == ALWAYS | OF_JOB | {SUCCESS} | looked
    assert (values["exit_code"], values[SUCCESS]) == (code, 1.5e9)


def test_a_bad_or_missing_job_file(tmp_path):
    path = tmp_path / "m.prom"
    (tmp_path / "weekly.toml").write_text("[input\n")
    assert run(tmp_path / "weekly.toml", "--metrics-file", path).exit_code == 78
    assert parsed(path, "weekly")["exit_code"] == 78
    path.write_text(f'distsvc_{SUCCESS}{{job="shop"}} 1.5e9\n')
    assert run(tmp_path / "none.toml", "--metrics-file", path).exit_code == 66
    assert parsed(path, "shop") | {SUCCESS: 1.5e9, "exit_code": 66} == parsed(path, "shop")


STOPPED = """
import os, signal, sys, time, types

def run_job(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

sys.modules["distsvc.run.job"] = types.ModuleType("distsvc.run.job")
sys.modules["distsvc.run.job"].run_job = run_job
from distsvc.__main__ import main
main()
"""


def test_a_run_that_is_stopped(tmp_path):
    job, path = write_job(tmp_path), tmp_path / "m.prom"
    path.write_text(f'distsvc_{SUCCESS}{{job="shop"}} 1.5e9\n')
    found = python("-c", STOPPED, "run", job, "--metrics-file", path)
    assert found.returncode == 143, found.stderr
    assert "Interrupted cleanly by SIGTERM" in found.stderr
    values = parsed(path)
    assert set(values) == ALWAYS | OF_JOB | {SUCCESS}
    assert (values["exit_code"], values[SUCCESS]) == (143, 1.5e9)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\0",
        b"distsvc_last_success_timestamp_seconds{job=\n",
        b'distsvc_last_success_timestamp_seconds{job="shop"} NaN\n',
        b'distsvc_last_success_timestamp_seconds{job="another"} 1.5e9\n',
        b"distsvc_last_success_timestamp_seconds 1.5e9\n",
        b'distsvc_last_success_timestamp_seconds{job="shop"} late\n',
    ],
)
def test_a_damaged_file_is_replaced(tmp_path, raising, content):
    job, path = write_job(tmp_path), tmp_path / "m.prom"
    raising(TemporaryError("no workers"))
    path.write_bytes(content)
    found = run(job, "--metrics-file", path)
    assert found.exit_code == 75
    assert "warning" not in found.stderr
    assert set(parsed(path)) == ALWAYS | OF_JOB


@pytest.mark.parametrize("kind", ["folder", "pipe", "no folder", "device"])
@pytest.mark.parametrize("succeeds", [True, False])
def test_a_file_that_can_not_be_written_is_a_warning(
    published, tmp_path, monkeypatch, kind, succeeds
):
    folder, job, _ = published
    path = {"no folder": tmp_path / "none/m.prom", "device": "/dev/null"}.get(kind, tmp_path / "m")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)

    def run_job(*_, **__):
        if succeeds:
            return read_report(Output(f"{folder}/out"))
        raise TemporaryError("no workers")

    monkeypatch.setattr(import_module("distsvc.run.job"), "run_job", run_job)
    found = run(job, "--metrics-file", path)
    assert found.exit_code == (0 if succeeds else 75)
    [warning] = [line for line in found.stderr.splitlines() if line.startswith("warning: ")]
    assert warning.startswith("warning: --metrics-file: ")
    assert str(path) in warning


def test_unused_packages_are_not_imported(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    code = "import sys\nfrom distsvc.monitoring.announce import Announcer\n"
    code += "from distsvc.job.file import load_job\n"
    code += "with Announcer('job.toml') as watch: watch.start(load_job(sys.argv[1]))\n"
    code += "print({n.split('.')[0] for n in sys.modules} & {'prometheus_client', 'openlineage'})"
    found = python("-c", code, write_job(tmp_path))
    assert (found.returncode, found.stdout) == (0, "set()\n"), found.stderr


def test_every_metric_of_a_report(published, tmp_path):
    folder, _, _ = published
    report = read_report(Output(f"{folder}/out"))
    drift = DriftPart(
        columns=[
            ColumnDrift(column="y", index=0.5, missing_before=0.0, missing_after=0.0),
            ColumnDrift(column="x", index=0.1, missing_before=0.0, missing_after=0.0),
        ],
        score=None,
        score_rows=0,
        outlier_share_before=None,
        outlier_share_after=None,
    )
    lineage = LineagePart(
        path="before", run_id="a", mode="refit", rows=90, moved=0.25, next_id=2, clusters=STORIES
    )
    checks = run_checks(
        ChecksConfig.model_validate(
            {"clusters": [1, 3], "min_rows": {"limit": 91, "level": "warn"}}
        ),
        RunMetrics(Stand(counts=Stand(n_rows=90, n_clusters=2))),
    )
    model = report.model.model_copy(update={"fitted": {"agreement": 0.5}})
    outliers = report.outliers.model_copy(update={"defined": True, "share": 0.125})
    report = report.model_copy(update={"drift": drift, "lineage": lineage, "outliers": outliers})
    report = report.model_copy(update={"checks": checks, "model": model})
    outcome = RunOutcome(0, "", report, True, 1.7e9, 12.5)
    name = 'a "quoted"\\ name\nof two lines'
    job = Stand(job=Stand(name=name, run_date="2026-11-21"), output=Stand(path=f"{tmp_path}/out"))
    announce.write_metrics(tmp_path / "m.prom", job, "stem", outcome)
    values = parsed(tmp_path / "m.prom", name)
    assert set(values) == set(announce.METRICS)
    assert values["drift_max"] == 0.5
    assert values["rows_moved_ratio"] == 0.25
    assert values["outlier_ratio"] == 0.125
    assert (values["duration_seconds"], values[SUCCESS]) == (12.5, 1.7e9)
    assert values["run_date_timestamp_seconds"] == 1_795_219_200  # 2026-11-21T00:00Z
    assert (values["clusters_appeared"], values["clusters_disappeared"]) == (2, 1)
    assert (values["agreement"], values["candidates"], values["warned_checks"]) == (0.5, 0, 1)
    assert values["check_found"] == {"min_rows": 90, "clusters": 2}
    assert values["check_least"] == {"min_rows": 91, "clusters": 1}
    assert values["check_most"] == {"clusters": 3}
    assert list(values["build_info"]) == [distsvc.__version__]
