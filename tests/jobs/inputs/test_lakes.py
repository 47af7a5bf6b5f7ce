"""Jobs on Delta tables, and on tables with columns that are no features by default."""

from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import JobFileError
from distsvc.published.predict import predict_table
from distsvc.report.content.report import Report
from distsvc.run.job import run_job
from distsvc.run.work.start import Start
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.manifest import read_manifest
from tests.published_files import read_labels
from tests.small_runs import small_job, three_clusters

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("quick_page")

N = 200


def rows(first: int = 0) -> pa.Table:
    X = three_clusters(N, seed=first)
    return pa.table({"x": X[:, 0], "y": X[:, 1], "event": np.arange(first, first + N)})


CENTRES = {"algorithm": "bico", "n_clusters": 3}


def job_of(path, out, model=CENTRES, **sections):
    return small_job(path, model, output={"path": str(out)}, **sections)


def run_of(out) -> str:
    return read_manifest(store_of(str(out))).run_id


@pytest.fixture
def table(tmp_path) -> str:
    path = str(tmp_path / "t")
    for day in ("2026-11-20", "2026-11-21"):
        data = rows((int(day[-2:]) - 20) * N).append_column("day", pa.array([day] * N))
        deltalake.write_deltalake(path, data, partition_by=["day"], mode="append")
    return path


def test_a_days_rows_are_clustered_again_only_when_they_change(table, tmp_path):
    out = tmp_path / "out"
    given = {"where": "day == '2026-11-20'", "id": "event"}
    job = job_of(f"delta://{table}", out, input=given)
    report = run_job(job)
    assert (report.input.n_rows_read, report.input.state) == (N, "version 1")
    assert set(report.input.left_out) == {"event", "day"}
    assert Report.model_validate_json(report.model_dump_json()) == report
    first = run_of(out)
    assert read_labels(out)["event"].to_pylist() == list(range(N))
    deltalake.DeltaTable(table).delete("day = '2026-11-21' AND event % 2 = 0")
    run_job(job)
    assert run_of(out) == first
    deltalake.DeltaTable(table).delete("day = '2026-11-20' AND event % 2 = 0")
    with pytest.raises(JobFileError, match="published from an input that has changed since"):
        run_job(job)
    run_job(job, start=Start(overwrite=True))
    assert run_of(out) != first
    assert all(one % 2 for one in read_labels(out)["event"].to_pylist())


def test_an_interrupted_run_goes_on_with_its_snapshot(table, tmp_path, monkeypatch):
    out, job = tmp_path / "out", job_of(f"delta://{table}", tmp_path / "out")

    def lost(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(import_module("distsvc.run.job"), "fill_output", lost)
        with pytest.raises(KeyboardInterrupt):
            run_job(job)
    deltalake.DeltaTable(table).delete("event % 2 = 0")
    assert run_job(job).input.n_rows == 2 * N
    assert run_job(job, start=Start(overwrite=True)).input.n_rows == N
    assert read_labels(out).num_rows == N


def hive(folder, day: int, first: int = 0) -> None:
    place = folder / f"day={day}"
    place.mkdir(parents=True)
    pq.write_table(rows(first), place / "0.parquet")


def test_a_model_of_a_key_and_a_row_number_is_applied_to_them(tmp_path):
    for day in (20261120, 20261121):
        hive(tmp_path / "in", day, first=day)
    named = {"columns": ["day", "event", "x"]}
    run_job(job_of(tmp_path / "in", tmp_path / "out", input=named))
    predict_table(tmp_path / "out", str(tmp_path / "in"), str(tmp_path / "labels"))
    assert read_labels(tmp_path / "labels").equals(read_labels(tmp_path / "out"))
    goes_on = {"previous": str(tmp_path / "out")}
    report = run_job(
        job_of(tmp_path / "in", tmp_path / "next", CENTRES | {"mode": "assign"}, continuity=goes_on)
    )
    assert report.input.columns == ["day", "event", "x"]
    report = run_job(job_of(tmp_path / "in", tmp_path / "refit", continuity=goes_on))
    assert set(report.input.columns) == {"day", "event", "x"}  # as the run before
