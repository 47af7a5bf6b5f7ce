"""Several paths in a bucket, and the marker file for complete inputs."""

import io
import os
import sys
from contextlib import closing
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, InputNotFoundError, JobFileError, SkippedError, TemporaryError
from distsvc.job.config import InputConfig
from distsvc.storage.places import remote
from distsvc.storage.tables.lakes.iceberg import _options
from distsvc.storage.tables.opening import check_unchanged, open_table
from distsvc.storage.tables.sources import check_ready
from tests.s3_server import BUCKET, SETTINGS, client, forget_stores, reached, s3_server
from tests.small_tables import STORED, everything, sample

s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto")


@pytest.fixture(scope="module", autouse=True)
def store():
    with s3_server() as url:
        client().create_bucket(Bucket="other")
        for day in range(3):
            put(f"in/day={day}/0.parquet", pq.write_table, sample(5, seed=day))
        put("0.parquet", pq.write_table, sample(5), bucket="other")
        yield url


def put(key, write=None, *what, bucket=BUCKET):
    stream = io.BytesIO()
    if write is not None:
        write(*what, stream)
    client().put_object(Bucket=bucket, Key=key, Body=stream.getvalue())


def config_of(*days, **fields):
    return InputConfig(path=[f"s3://{BUCKET}/in/day={day}" for day in days], **fields)


def test_rows_of_several_prefixes(tmp_path):
    table = open_table(config_of(2, 0, id="row_id"), tmp_path)
    assert table.columns == ("a", "b", "c", "flag", "split")
    assert everything(table)[2] == [f"id-{day}-{k}" for day in (2, 0) for k in range(5)]
    check_unchanged(table)
    with pytest.raises(InputNotFoundError, match=rf"s3://{BUCKET}/in/day=7 does not exist"):
        open_table(config_of(0, 7), tmp_path)


def test_two_buckets_are_refused(tmp_path):
    config = InputConfig(path=[f"s3://{BUCKET}/in/day=0", "s3://other/0.parquet"])
    with pytest.raises(JobFileError, match=r"or one bucket, .* and s3://other/0"):
        open_table(config, tmp_path)


def test_check_ready_passes_once_the_files_exist(tmp_path):
    waiting = config_of(0, 8, ready="_SUCCESS")
    late = f"s3://{BUCKET}/in/day=8/_SUCCESS"
    with pytest.raises(TemporaryError, match=rf"not there yet: .*day=0/_SUCCESS, {late}$"):
        check_ready(waiting)
    put("in/day=0/_SUCCESS")
    with pytest.raises(TemporaryError, match=rf"not there yet: {late}$"):
        check_ready(waiting)
    with pytest.raises(SkippedError, match=rf"not there yet: {late.removesuffix('/_SUCCESS')};"):
        check_ready(config_of(0, 8), skip_missing=True)
    put("in/day=8/_SUCCESS")
    check_ready(waiting)
    check_ready(config_of(0, 8), skip_missing=True)
    assert open_table(waiting, tmp_path).n_rows == 5
    with pytest.raises(DataError, match=r"day=8 has no rows"):
        open_table(config_of(8), tmp_path)


def test_a_store_that_does_not_answer_is_not_a_late_input():
    config = InputConfig(path="s3://elsewhere/in", ready="_SUCCESS")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with reached("http://127.0.0.1:9"), pytest.raises(TemporaryError, match="can't reach"):
            check_ready(config, skip_missing=True)
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_a_delta_table_in_a_bucket(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    url = f"s3://{BUCKET}/lake/t"
    own = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "aws_allow_http": "true"}
    deltalake.write_deltalake(url, sample(20), partition_by=["split"], storage_options=own)
    deltalake.DeltaTable(url, storage_options=own).delete("row_id = 'id-0-3'")
    table = open_table(InputConfig(path=f"delta://{url}", id="row_id"), tmp_path)
    assert table.columns == ("a", "b", "c", "flag")
    assert sorted(everything(table)[2]) == sorted(f"id-0-{k}" for k in range(20) if k != 3)
    check_unchanged(table)
    for path in (f"{url}/*/*.parquet", f"{url}/split=1"):
        with pytest.raises(JobFileError, match=f"Delta table.* give delta://{url}"):
            open_table(InputConfig(path=path), tmp_path)
    with pytest.raises(InputNotFoundError, match="does not exist"):
        open_table(InputConfig(path=f"delta://s3://{BUCKET}/none"), tmp_path)


def catalog_of(tmp_path, monkeypatch, url) -> str:
    """Let only a catalog have the store's address and keys; return the name of a table there."""
    pytest.importorskip("sqlalchemy")
    catalogs = pytest.importorskip("pyiceberg.catalog")
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    said = {
        "TYPE": "sql", "URI": f"sqlite:///{tmp_path}/catalog.db",
        "WAREHOUSE": f"s3://{BUCKET}/lake", "S3__ENDPOINT": url, "S3__REGION": "us-east-1",
        "S3__ACCESS_KEY_ID": "planted-key", "S3__SECRET_ACCESS_KEY": "planted-secret",
    }  # fmt: skip
    for name, value in said.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__OWN__{name}", value)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", type(catalogs._ENV_CONFIG)())
    forget_stores()
    with closing(catalogs.load_catalog("own")) as catalog:
        catalog.create_namespace("db")
        data = sample(20)
        catalog.create_table("db.t", data.schema).append(data)
    return "iceberg://own/db.t"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_are_opened_with_the_settings_of_the_catalog(tmp_path, monkeypatch, store):
    monkeypatch.setattr(remote, "ASKED_AGAIN", timedelta(days=10_000))
    path = catalog_of(tmp_path, monkeypatch, store)
    table = open_table(InputConfig(path=path, id="row_id"), tmp_path)
    written = STORED.dump_json(table)
    assert b"planted" not in written
    forget_stores()
    _options.cache_clear()  # as in another process
    again = STORED.validate_json(written)
    assert sorted(everything(again)[2]) == sorted(f"id-0-{k}" for k in range(20))
    check_unchanged(again)
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", None)
    assert everything(again)[0].tolist() == list(range(20)), "it is not asked for every block"
    _options.cache_clear()
    forget_stores()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    assert len(everything(again)[2]) == 20, "a worker may have an environment of its own"
