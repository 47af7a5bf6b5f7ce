"""Forecasts of a job: memory and its limits, and time from a trial."""

import json
import subprocess
import sys
import tempfile

import pyarrow as pa
import pytest
import tomli_w
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import JobFileError
from distsvc.job.config import with_key
from distsvc.job.file import parse_job
from distsvc.report.content.report import ForecastPart, Report
from distsvc.run import forecast as forecasts
from distsvc.run.algorithms import begin
from distsvc.run.forecast import check_memory, forecast_job, memory_part, pieces
from distsvc.run.job import run_job
from distsvc.run.work.plan import Plan, choose_block_rows, cut, pilot_rows
from distsvc.run.work.workers.cluster import Workers
from distsvc.storage.rows.blocks import Layout, Table, TableFile
from distsvc.storage.rows.features import Numeric
from tests.small_runs import MODELS, small_job, table_of, three_clusters

X = three_clusters(1500)
GB = 10**9

table = table_of(X)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return the folder for temporary files, which is empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def big_table(n_rows: int, n_columns: int, unit: int) -> Table:
    """Return a table that is never read, with units of `unit` rows."""
    extents = (unit,) * (n_rows // unit) + ((n_rows % unit,) if n_rows % unit else ())
    features, types = tuple(Numeric(f"x{k}") for k in range(n_columns)), ("double",) * n_columns
    return Table(
        Layout("/t.parquet", "parquet", extents, "/", (TableFile("t.parquet", len(extents)),)),
        features=features, types=types, id=None, label=None, where=None, others=pa.schema([]),
        sources=("/t.parquet",), left_out={}, versions={},
    )  # fmt: skip


def big_job(model: dict, **cluster: int):
    scale = "none" if model.get("algorithm") == "linear-one-class" else "standard"
    return parse_job(
        {
            "input": {"path": "/t.parquet"}, "output": {"path": "/out"}, "model": model,
            "preprocess": {"scale": scale}, "cluster": cluster,
        }
    )  # fmt: skip


def forecast(job, table, workers):
    d = len(table.columns)
    plan = Plan(
        table, cut(job, table), job.cluster.block_rows or choose_block_rows(d), job.missing,
        unit=False, seed=0, pilot_rows=pilot_rows(d), shift=[0.0] * d, output=job.output, notes=[],
    )  # fmt: skip
    return check_memory(plan, workers, begin(job, table))


def without_mapped(part: ForecastPart) -> list[dict[str, float]]:
    """Return the terms of driver and worker by name, without mapped libraries."""
    several = part.driver, part.worker
    return [{t.name: t.mb for t in terms if t.name != forecasts.MAPPED} for terms in several]


def test_mapped_libraries_are_measured_in_this_process(monkeypatch):
    given = {None: forecasts.MAPPED_BYTES, 235.0: 235e6, 10**6: forecasts.MAX_MAPPED_BYTES}
    for found, expected in given.items():
        monkeypatch.setattr(forecasts, "mapped_memory_mb", lambda found=found: found)
        assert forecasts.process_terms()[forecasts.MAPPED] == expected


# Memory


@pytest.mark.parametrize("algorithm", MODELS)
@pytest.mark.parametrize("each", [(), ((1, 0),), ((3, 0), (1, 0))])
def test_memory_does_not_fall_as_tables_grow(algorithm, each, monkeypatch):
    monkeypatch.setattr(forecasts, "machine_bytes", lambda: 10**12)
    job, workers = big_job(MODELS[algorithm]), Workers(each)

    def sums(*sizes: int) -> tuple[float, float]:
        found = forecast(job, big_table(*sizes), workers)
        return sum(found.driver.values()), sum(found.worker.values())

    small, long, wide = sums(10_000, 5, 1000), sums(900_000, 5, 1000), sums(10_000, 50, 1000)
    assert small[0] <= min(long[0], wide[0])
    assert small[1] <= min(long[1], wide[1])
    assert (small[1] > 0) == bool(each)


def test_requested_columns_of_shares_take_memory(monkeypatch):
    monkeypatch.setattr(forecasts, "machine_bytes", lambda: 10**12)
    plain, given = big_job({}, partition_rows=10**7, block_rows=1000), big_table(10**7, 2, 10**5)

    def labels(**output: int) -> dict[str, float]:
        job = with_key(plain, "output", "reasons", 0)
        for key, value in output.items():
            job = with_key(job, "output", key, value)
        return forecast(job, given, Workers(((1, 0),))).worker

    before, alone, more = labels(), labels(membership=True), labels(top=20)
    name, rows = "labels of a partition", 10**7
    assert "shares of clusters" not in before
    assert (alone[name] - before[name], more[name] - alone[name]) == (8.0 * rows, 320.0 * rows)
    assert alone["shares of clusters"] == more["shares of clusters"] > 0


def test_the_threads_of_a_worker_add_up():
    job, given = big_job({}), big_table(10**6, 20, 10**5)
    one, three = (forecast(job, given, Workers(((n, 0),))).worker for n in (1, 3))
    fixed = {**forecasts.PROCESS, "freed memory that is kept": forecasts.ARROW_BYTES}
    assert 0.0 < one.pop(forecasts.MAPPED) == pytest.approx(three.pop(forecasts.MAPPED), rel=0.1)
    for name, size in fixed.items():
        assert one.pop(name) == three.pop(name) == size
    assert three == {f"3 times {name}": 3 * size for name, size in one.items()}


def test_a_job_that_does_not_fit_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr(forecasts, "mapped_memory_mb", lambda: None)
    job, given = big_job({"algorithm": "imdh"}, workers=2), big_table(10**6, 40, 10**5)
    with pytest.raises(JobFileError, match=r"sample.*; to use less memory, lower cluster.part"):
        forecast(job, given, Workers(((1, GB),) * 2))
    assert forecast(job, given, Workers(((1, 4 * GB),) * 2)).worker


def test_a_run_that_does_not_fit_ends_before_it_reads(table, tmp_path, monkeypatch):
    monkeypatch.setattr(forecasts, "machine_bytes", lambda: 10**8)
    path = tmp_path / "job.toml"
    job = {"input": {"path": str(table)}, "output": {"path": str(tmp_path / "out")}}
    path.write_text(tomli_w.dumps(job))
    for command in "run", "plan":
        found = CliRunner().invoke(main, [command, str(path)])
        assert found.exit_code == 78
        assert "error: the driver needs" in found.stderr
        assert "; this machine has only 100 MB" in found.stderr
        assert "survey" not in found.stderr


# Time


@pytest.mark.parametrize("algorithm", ["level tree", "linear"])
@pytest.mark.usefixtures("quick_page")
def test_a_forecast_has_the_phases_of_the_run_and_leaves_nothing(algorithm, table, temporary):
    job = small_job(table, MODELS[algorithm])
    forecast = forecast_job(job)
    assert list(temporary.iterdir()) == []
    assert not (table.parent / "out").exists()
    report = run_job(job.model_copy(update={"output": job.output.model_copy(
        update={"path": str(temporary / "out")})}))  # fmt: skip
    done = dict.fromkeys(phase.name.partition("-")[0] for phase in report.phases)
    assert [*forecast.seconds, "publish"] == [*done]
    assert min(forecast.seconds.values()) >= 0.0
    assert (forecast.rows, forecast.columns, forecast.partitions) == (1500, 2, 5)
    assert without_mapped(report.forecast) == without_mapped(memory_part(forecast.memory))


@pytest.mark.parametrize(
    ("rows", "threads", "expected"),
    [
        (40, 2, [(0, 20), (20, 30)]),
        (10, 2, [(0, 5), (20, 25)]),
        (10, 9, [(0, 5), (20, 25)]),
        (7, 1, [(0, 7)]),
    ],
)
def test_pieces_come_from_the_whole_table(rows, threads, expected):
    assert pieces([(0, 20), (20, 30)], rows, threads) == expected


# Both, in a process of its own


@pytest.mark.usefixtures("quick_page")
def test_measured_memory_agrees_with_the_forecast(table, tmp_path):
    job = small_job(table, MODELS["boundary"], output={"path": str(tmp_path / "out")})
    forecast = forecast_job(job)
    path = tmp_path / "job.toml"
    path.write_text(tomli_w.dumps(job.model_dump(mode="json", exclude_none=True)))
    command = [sys.executable, "-m", "distsvc", "run", str(path), "--json"]
    for name in ("first", "second"):  # the first one after an installation needs more
        where = ["--set", f"output.path={tmp_path / name}"]
        done = subprocess.run([*command, *where], check=True, capture_output=True)
    report = Report.parsed(json.loads(done.stdout), "report")
    assert without_mapped(report.forecast) == without_mapped(memory_part(forecast.memory))
    expected = sum(term.mb for term in report.forecast.driver)
    assert 0.75 * expected < max(phase.driver_peak_mb for phase in report.phases) < expected


@pytest.mark.usefixtures("quick_page")
def test_the_command_prints_sums_with_their_terms(table, tmp_path):
    path = tmp_path / "job.toml"
    job = small_job(table, MODELS["sampled"], output={"path": str(tmp_path / "out")})
    path.write_text(tomli_w.dumps(job.model_dump(mode="json", exclude_none=True)))
    found = CliRunner().invoke(main, ["plan", str(path), "--json", "--set", "model.n_clusters=2"])
    content = json.loads(found.stdout)
    driver = content["memory"]["driver"]
    assert sum(driver.values()) == content["memory_bytes"]["driver"]
    assert sum(content["seconds"].values()) == pytest.approx(content["seconds_in_all"], abs=0.02)
    assert content["tasks"] == 2 * content["partitions"]
    text = CliRunner().invoke(main, ["plan", str(path), "--set", "cluster.partition_rows=1000000"])
    assert " in 1 partition; " in text.stdout
    path.write_text("")
    assert CliRunner().invoke(main, ["plan", str(path)]).exit_code == 78
    assert CliRunner().invoke(main, ["plan", str(tmp_path / "none.toml")]).exit_code == 66
