"""Exported tables have published nights only: no held, replaced or withdrawn runs."""

import datetime
import json
import shutil

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from distsvc.cli.main import main
from distsvc.errors import CheckFailedError, DataError, InputNotFoundError, JobFileError
from distsvc.job.file import load_job
from distsvc.published.backfill import backfill
from distsvc.published.export import export
from distsvc.published.republish import roll_back, withdraw
from distsvc.run.work.start import Display
from tests.jobs.shop import FIRST, SECOND, THIRD, Shop, rows
from tests.published_files import read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

COLUMNS = ["id", "night", "cluster", "name", "outlier", "score", "run"]


WITHDRAWN, LATE, LAST = "2026-03-03", "2026-03-04", "2026-03-05"
PUBLISHED = [FIRST, SECOND, THIRD, LATE, LAST]
OFF = dict.fromkeys(("max_drift", "max_rows_moved", "max_ids_moved"), False)
ASKED = {"input": {"id": "customer"}}


def night_table(shop, date, seed):
    ids = np.arange(10 * seed, 600 + 10 * seed)
    shop.table(date, rows(300, 200, 100, seed=seed)[0], customer=ids)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Six nights: replaced, rolled back, held back, withdrawn, backfilled and repeated."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    for seed, date in enumerate([FIRST, SECOND, THIRD, WITHDRAWN]):
        night_table(shop, date, seed)
        shop.run(date, checks=OFF, **ASKED)
    other = {"preprocess": {"scale": "none"}, "model": {"n_clusters": 2}}
    shop.run(FIRST, overwrite=True, checks=OFF, **ASKED, **other)
    shop.run(SECOND, overwrite=True, checks=OFF, **ASKED, **other)
    roll_back(str(shop.out(SECOND)))
    with pytest.raises(CheckFailedError):
        shop.run(THIRD, overwrite=True, checks={"min_rows": 1000}, **ASKED, **other)
    withdraw(str(shop.out(WITHDRAWN)))
    for seed, date in enumerate([LATE, LAST], 4):
        night_table(shop, date, seed)
    assert backfilled(shop, LATE, LAST, "none") == ["published", "published"]
    night_table(shop, LATE, 6)
    assert backfilled(shop, LATE, LATE, "completed") == ["published"]
    return shop


def backfilled(shop, first, last, reprocess):
    """Run a backfill; return the outcome of each day."""
    path = shop.job_file(checks=OFF, **ASKED)
    days = [datetime.date.fromisoformat(day) for day in (first, last)]
    done = backfill(
        lambda day: load_job(path, (), day), *days, reprocess, display=Display(quiet=True)
    )
    return [night.state for night in done]


def published(shop):
    """Return the rows in the labels files of the published nights."""
    found = []
    for date in PUBLISHED:
        labels, run = read_labels(shop.out(date)), shop.manifest(date)["run_id"]
        for i, label, outlier, score in zip(
            *(labels[c].to_pylist() for c in ("customer", "label", "outlier", "score")), strict=True
        ):
            found.append((date, i, label, outlier, score, run))
    return sorted(found)


def rows_of(table):
    columns = ("night", "id", "cluster", "outlier", "score", "run")
    lists = [table[column].to_pylist() for column in columns]
    lists[0] = [night.isoformat() for night in lists[0]]
    return sorted(zip(*lists, strict=True))


def test_parquet_has_exactly_the_published_rows(shop, tmp_path):
    done = export(str(shop.folder / "out"), str(tmp_path / "all.parquet"))
    table = pq.read_table(tmp_path / "all.parquet")
    assert (done.nights, done.rows) == (5, 3000)
    assert table.column_names == COLUMNS
    assert table.schema.types == [
        pa.int64(), pa.date32(), pa.int32(), pa.string(), pa.bool_(), pa.float32(), pa.string(),
    ]  # fmt: skip
    assert rows_of(table) == published(shop)
    assert set(pl.read_parquet(tmp_path / "all.parquet")["name"].drop_nulls())


def test_the_duckdb_table_is_replaced_and_other_tables_stay(shop, tmp_path):
    with duckdb.connect(tmp_path / "shop.duckdb") as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1 AS one")
    command = ["export", str(shop.folder / "out"), "--to", str(tmp_path / "shop.duckdb")]
    for _ in range(2):
        said = CliRunner().invoke(main, command)
        assert said.exit_code == 0, said.output
    assert said.stdout.startswith("5 nights, 3,000 rows: table nights of ")
    with duckdb.connect(tmp_path / "shop.duckdb", read_only=True) as connection:
        assert connection.sql("SELECT * FROM mine").fetchall() == [(1,)]
        table = connection.sql("SELECT * FROM nights").to_arrow_table()
    assert rows_of(table) == published(shop)


def test_delta_gets_a_new_version(shop, tmp_path):
    out, table = str(shop.folder / "out"), tmp_path / "table"
    export(out, f"delta://{table}")
    said = CliRunner().invoke(main, ["export", out, "--to", f"delta://{table}", "--json"])
    assert json.loads(said.stdout)["rows"] == 3000
    found = DeltaTable(table)
    assert found.version() == 1
    assert rows_of(pa.table(found.to_pyarrow_table())) == published(shop)


def test_wrong_targets_and_empty_folders_are_refused(shop, tmp_path):
    out = str(shop.folder / "out")
    for target in ("all.csv", "s3://bucket/all.parquet", "no/all.parquet", "iceberg://a/b"):
        with pytest.raises(JobFileError, match=r"--to: expected a (local )?file"):
            export(out, target)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputNotFoundError, match="no run was published in"):
        export(str(tmp_path / "empty"), str(tmp_path / "all.parquet"))
    (tmp_path / "text.duckdb").write_text("no database, but a text" * 100)
    with pytest.raises(DataError, match=r"text\.duckdb"):
        export(out, str(tmp_path / "text.duckdb"))
    assert (tmp_path / "text.duckdb").read_text().startswith("no database")


def test_nights_of_two_jobs_or_with_other_ids_are_refused(shop, tmp_path):
    target = str(tmp_path / "all.parquet")
    shutil.copytree(shop.out(FIRST), tmp_path / "out/a")
    other = Shop(tmp_path)
    other.table(SECOND, rows(300, 200, 100)[0], customer=[f"c{i}" for i in range(600)])
    other.run(SECOND, input={"id": "customer"})
    with pytest.raises(DataError, match="ids of one type in all nights, found a whole number at"):
        export(str(tmp_path / "out"), target)
    other.run(SECOND, overwrite=True, job={"name": "market"})
    with pytest.raises(
        JobFileError, match="of 2 jobs: a job without a name, market; give the folder"
    ):
        export(str(tmp_path / "out"), target)


def test_nights_below_a_published_output_are_included(shop, tmp_path):
    """A first run of a table may publish at the folder that later contains its nights."""
    shutil.copytree(shop.out(FIRST), tmp_path / "out")
    shutil.copytree(shop.out(LAST), tmp_path / "out" / LAST)
    assert export(str(tmp_path / "out"), str(tmp_path / "all.parquet")).nights == 2


@pytest.mark.parametrize("target", ["{}/all.parquet", "{}/all.duckdb", "delta://{}/all"])
def test_every_writer_names_a_damaged_night(shop, tmp_path, target):
    out, target = tmp_path / "out", target.format(tmp_path)
    shutil.copytree(shop.folder / "out", out)
    export(str(out), target)
    file = next((out / LAST / "labels").glob("*/*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DataError, match=rf"{file.name}"):
        export(str(out), target)
    file.write_bytes(whole)
    assert export(str(out), target).rows == 3000
