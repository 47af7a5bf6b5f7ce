"""Tables of Delta Lake and Iceberg as inputs, and their folders given as plain paths."""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.job.config import InputConfig
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.blocks import Table
from distsvc.storage.tables.opening import check_unchanged, fingerprint
from distsvc.storage.tables.sources import check_ready
from tests.small_tables import STORED, everything, opened

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def rows(n: int, first: int = 0) -> pa.Table:
    ids = np.arange(first, first + n)
    keys = pa.array([["a b", "c/d%", None][k % 3] for k in ids], pa.string())
    return pa.table({"id": ids, "x": np.sin(ids), "day": ids % 2 + 20261120, "key": keys})


@pytest.fixture
def table(tmp_path) -> str:
    """A Delta table with partitions of odd names and deleted rows."""
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, rows(30), partition_by=["key", "day"])
    deltalake.DeltaTable(path).delete("id >= 20 AND id < 25")
    return path


def ids_of(table: Table) -> list[int]:
    return sorted(everything(table)[2])


def test_the_live_rows_of_the_latest_version(table, tmp_path):
    found = opened(f"delta://{table}", tmp_path, id="id", classes="key")
    assert found.columns == ("x",)
    assert found.left_out["day"] == "a partition key"
    assert found.shown == f"delta://{table}?version=1"
    _, X, ids, keys = everything(found)
    np.testing.assert_array_equal(X.ravel(), np.sin(ids))
    live = [*range(20), *range(25, 30)]
    assert (sorted(ids), dict(zip(ids, keys, strict=True))[4]) == (live, "c/d%")
    assert everything(STORED.validate_json(STORED.dump_json(found)))[2] == ids
    assert ids_of(opened(f"delta://{table}?version=0", tmp_path, id="id")) == list(range(30))


def test_keys_are_columns_that_a_job_may_name(table, tmp_path):
    found = opened(f"delta://{table}", tmp_path, columns=["day", "x"], id="id")
    _, X, ids, _ = everything(found)
    np.testing.assert_array_equal(X[:, 0], np.array(ids) % 2 + 20261120)


def test_only_files_that_may_match_are_read(table, tmp_path):
    fields = {"columns": ["x"], "id": "id"}
    found = opened(f"delta://{table}", tmp_path, where="day == 20261121 and x > 0", **fields)
    assert all("day=20261121" in file.name for file in found.layout.files)
    live = [k for k in (*range(20), *range(25, 30)) if k % 2 and np.sin(k) > 0]
    assert ids_of(found) == live
    known = fingerprint(found)
    deltalake.write_deltalake(table, rows(1, first=100), mode="append")  # of another day
    found = opened(f"delta://{table}", tmp_path, where="day == 20261121 and x > 0", **fields)
    assert fingerprint(found) == known
    with pytest.raises(DataError, match=r"input.where leaves none of its \d+ files"):
        opened(f"delta://{table}", tmp_path, where="day == 1", **fields)


def test_the_fingerprint_is_that_of_the_snapshot(table, tmp_path):
    before = fingerprint(opened(f"delta://{table}", tmp_path))
    assert fingerprint(opened(f"delta://{table}?version=1", tmp_path)) == before
    assert fingerprint(opened(f"delta://{table}?version=0", tmp_path)) != before
    deltalake.write_deltalake(table, rows(3, first=50), mode="append")
    assert fingerprint(opened(f"delta://{table}", tmp_path)) != before


def test_a_table_may_change_while_it_is_read_until_its_files_go(table, tmp_path):
    found = opened(f"delta://{table}", tmp_path, id="id")
    deltalake.DeltaTable(table).delete("id < 10")
    check_unchanged(found)
    assert len(ids_of(found)) == 25
    deltalake.DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(DataError, match=r"part-.*parquet was removed while the table was in use"):
        check_unchanged(found)
    with pytest.raises(DataError, match="was removed"):
        everything(found)
    with pytest.raises(DataError, match=r"version=1 can't be read as a whole: .*VACUUM"):
        opened(f"delta://{table}?version=1", tmp_path)


def test_columns_that_old_files_lack_are_null(table, tmp_path):
    more = rows(3, first=50).append_column("late", pa.array([1.0, 2.0, 3.0]))
    deltalake.write_deltalake(table, more, mode="append", schema_mode="merge")
    found = opened(f"delta://{table}", tmp_path, columns=["late"], id="id")
    _, X, ids, _ = everything(found)
    values = dict(zip(ids, X.ravel(), strict=True))
    assert (values[50], values[52], np.isnan(values[0])) == (1.0, 3.0, True)


def rewritten(path: str, change) -> None:
    """Change the first commit of a table by hand, as other writers would have made it."""
    log = Path(path, "_delta_log", "0" * 20 + ".json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("\n".join(json.dumps(action) for action in actions))


def ask(action, *features: str) -> None:
    if "protocol" in action:
        action["protocol"] = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }


def packed(content: bytes) -> bytes:
    """Return the bytes of a deletion vector's file, with a valid checksum."""
    return (
        b"\1" + struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))
    )


def deletion_vector(folder: Path, places: list[int]) -> dict:
    """Write a deletion vector as the protocol of Delta describes it, and return its description."""
    head = struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, len(places) - 1, 16)
    bitmap = head + struct.pack(f"<{len(places)}H", *places)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    file = folder / "deletion_vector_1.bin"
    file.write_bytes(packed(data))
    return {
        "storageType": "p",
        "pathOrInlineDv": f"file://{file}",
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(places),
    }


def test_deletion_vectors_and_renamed_columns(tmp_path):
    path, places = str(tmp_path / "t"), [0, 3, 99, 100, 998]
    data = pa.table({"a": np.arange(1000.0), "b": np.arange(1000) % 7})
    deltalake.write_deltalake(path, data, writer_properties=None)

    def change(action):
        ask(action, "columnMapping", "deletionVectors")
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for field, name, own in zip(schema["fields"], ("b", "n"), ("a", "b"), strict=True):
                mapping = {"id": ord(own), "physicalName": own}
                field["name"] = name
                field["metadata"] = {f"delta.columnMapping.{k}": v for k, v in mapping.items()}
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
        if "add" in action:
            action["add"]["deletionVector"] = deletion_vector(Path(path), places)

    rewritten(path, change)
    found = opened(f"delta://{path}", tmp_path, columns=["b", "n"])
    kept = np.delete(np.arange(1000), places)
    assert found.n_rows == 995
    for start, stop, block_rows in ((0, 995, 1000), (0, 995, 7), (95, 99, 2), (994, 995, 1)):
        X = everything(found, start, stop, block_rows)[1]
        np.testing.assert_array_equal(X, np.c_[kept, kept % 7][start:stop])
    own = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    theirs = pa.table(own.execute("select b, n from t").read_all())
    assert sorted(theirs["b"].to_pylist()) == kept.tolist()


DAMAGE = {
    "gone": None,
    "empty": lambda file: b"",
    "cut short": lambda file: file[:12],
    "zeroed": lambda file: bytes(len(file)),
    "another byte": lambda file: file[:20] + b"x" + file[21:],
    "more rows than there can be": lambda file: packed(file[5:17] + b"\xff" * 4 + file[21:-4]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_deletion_vector_of_delta_is_one_line(tmp_path, name):
    path, change = tmp_path / "t", DAMAGE[name]
    deltalake.write_deltalake(str(path), pa.table({"a": np.arange(1000.0)}))
    described = {}

    def add_vector(action):
        ask(action, "deletionVectors")
        if "add" in action:
            described.update(deletion_vector(path, [0, 3, 99]))
            action["add"]["deletionVector"] = described

    rewritten(str(path), add_vector)
    file = path / "deletion_vector_1.bin"
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    with pytest.raises(
        DataError, match=r"^can't read the deletion vectors of delta://.*"
    ) as caught:
        opened(f"delta://{path}", tmp_path)
    assert "panic" in str(caught.value) or file.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unsupported_reader_features_are_refused(table, tmp_path):
    rewritten(table, lambda action: ask(action, "futureFeature"))
    with pytest.raises((DataError, JobFileError), match="futureFeature"):
        opened(f"delta://{table}", tmp_path)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("delta://{0}/none", InputNotFoundError, "none does not exist"),
        ("delta://{0}", InputNotFoundError, "is not a Delta table: it has no log"),
        ("delta://{0}/t?version=9", InputNotFoundError, "lacks this version"),
        ("delta://{0}/t?version=x", JobFileError, r"expected delta://PATH\?version=NUMBER"),
        ("iceberg://{0}/v1.metadata.json", InputNotFoundError, "does not exist"),
        ("iceberg://foo", JobFileError, "iceberg://CATALOG/NAMESPACE.TABLE"),
        ("iceberg://nowhere/db.t", JobFileError, "no catalog 'nowhere'"),
    ],
)
def test_tables_that_are_not_there(table, tmp_path, path, error, message):
    with pytest.raises(error, match=message):
        opened(path.format(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_library_that_is_not_installed(monkeypatch, tmp_path, name):
    library = {"delta": "deltalake", "iceberg": "pyiceberg"}[name]
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "v1.metadata.json").touch()
    path = {"delta": f"delta://{tmp_path}", "iceberg": f"iceberg://{tmp_path}/v1.metadata.json"}
    with pytest.raises(JobFileError, match=rf"pip install 'distsvc\[{name}\]'"):
        opened(path[name], tmp_path)


def test_lists_and_ready(table, tmp_path):
    with pytest.raises(JobFileError, match=r"a list must name paths of .* found Delta Lake"):
        opened_list(tmp_path, f"delta://{table}", f"delta://{table}")
    with pytest.raises(JobFileError, match=r"input\.ready: .* leave the key out"):
        check_ready(InputConfig(path=f"delta://{table}", ready="_SUCCESS"))
    check_ready(InputConfig(path=f"delta://{table}"), skip_missing=True)


def opened_list(tmp_path, *paths) -> Table:
    from distsvc.storage.tables.opening import open_table

    return open_table(InputConfig(path=list(paths)), tmp_path / "staging")


@pytest.mark.parametrize("path", ["t", "t/*/*/*", "t/key=c%2Fd%25", ".", "*", "?/*/*/*.parquet"])
def test_folders_of_a_delta_table_are_refused(table, tmp_path, path):
    with pytest.raises(JobFileError, match=rf"Delta table.*give delta://{table}"):
        opened(tmp_path / path, tmp_path)


def test_a_member_of_a_list_is_refused(table, tmp_path):
    pq.write_table(rows(3), tmp_path / "a.parquet")
    with pytest.raises(JobFileError, match=rf"give delta://{table}"):
        opened_list(tmp_path, f"{tmp_path}/a.parquet", table)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("iceberg")


@pytest.fixture(scope="module")
def catalog(warehouse):
    """A catalog with a table that was partitioned, changed and given other columns."""
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.types import DoubleType

    place = {"uri": f"sqlite:///{warehouse}/catalog.db", "warehouse": f"file://{warehouse}/lake"}
    (warehouse / "lake").mkdir()
    catalog = SqlCatalog("own", **place)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=rows(1).schema)
    with table.update_spec() as spec:
        spec.add_identity("day")
    table.append(rows(30))
    table.delete("id >= 20 and id < 25")
    with table.update_schema() as update:
        update.rename_column("x", "wave")
    with table.update_schema() as update:
        update.add_column("x", DoubleType())  # another one than before
    more = rows(3, first=50).rename_columns(["id", "wave", "day", "key"])
    more = more.append_column("x", pa.array([1.0, 2.0, 3.0])).select(table.schema().column_names)
    table.append(more)
    yield catalog
    catalog.close()


def test_an_iceberg_table(catalog, tmp_path):
    table = catalog.load_table("db.t")
    found = opened(f"iceberg://{table.metadata_location}", tmp_path, id="id", classes="key")
    assert (found.columns, found.left_out["day"]) == (("wave", "x"), "a partition key")
    _, X, ids, keys = everything(found)
    assert sorted(ids) == [*range(20), *range(25, 30), 50, 51, 52]
    np.testing.assert_array_equal(X[:, 0], np.sin(ids))
    assert pc.sum(pa.array(X[:, 1], from_pandas=True)).as_py() == 6.0
    assert dict(zip(ids, keys, strict=True))[0] == "a b"
    first = table.metadata.snapshots[0].snapshot_id
    url = f"iceberg://{table.metadata_location.removeprefix('file://')}?snapshot={first}"
    found = opened(url, tmp_path, id="id")
    assert (found.columns, ids_of(found)) == (("x",), list(range(30)))
    assert found.shown == url
    with pytest.raises(InputNotFoundError, match="has no snapshot"):
        opened(f"iceberg://{table.metadata_location}?snapshot=1", tmp_path)


def test_a_name_in_a_catalog(catalog, tmp_path, monkeypatch):
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda name: catalog)
    found = opened("iceberg://own/db.t", tmp_path, where="day == 20261121", id="id")
    assert all("day=20261121" in file.name for file in found.layout.files)
    assert all(k % 2 for k in ids_of(found))
    assert found.shown.startswith("iceberg://own/db.t?snapshot=")
    with pytest.raises(InputNotFoundError, match=r"db\.none"):
        opened("iceberg://own/db.none", tmp_path)


def test_position_deletes_of_iceberg(catalog, tmp_path, monkeypatch):
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.table import DataScan

    planned = list(catalog.load_table("db.t").scan().plan_files())
    deletes = tmp_path / "deletes.parquet"
    planned.sort(key=lambda task: -task.file.record_count)
    paths = [task.file.file_path for task in planned]
    listed = [(path, 0) for path in paths] + [(paths[0], 3), (paths[0], 1)]
    pq.write_table(pa.table(list(zip(*listed, strict=True)), ["file_path", "pos"]), deletes)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=str(deletes),
        file_format=FileFormat.PARQUET,
    )
    for task in planned:
        task.delete_files = {file}
    monkeypatch.setattr(DataScan, "plan_files", lambda scan: planned)
    table = catalog.load_table("db.t")
    found = opened(f"iceberg://{table.metadata_location}", tmp_path, id="id")
    assert found.n_rows == 28 - len(planned) - 2
    assert ids_of(found) == sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("path", ["lake", "lake/db/t/data", "lake/*", "lake/db/t/*/*/*.parquet"])
def test_folders_of_an_iceberg_table_are_refused(catalog, warehouse, tmp_path, path):
    latest = catalog.load_table("db.t").metadata_location.removeprefix("file://")
    with pytest.raises(JobFileError, match=f"iceberg://{latest}"):
        opened(warehouse / path, tmp_path)


@pytest.mark.parametrize("path", ["h", "h/day=1", "h/*/*.parquet"])
def test_folders_of_a_hudi_table_are_refused(tmp_path, path):
    for name in ("h/.hoodie/hoodie.properties", "h/day=1/.hoodie_partition_metadata"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    pq.write_table(rows(3), tmp_path / "h/day=1/a.parquet")
    with pytest.raises(JobFileError, match="Hudi is not supported"):
        opened(tmp_path / path, tmp_path)


def test_an_output_in_the_folder_of_a_table_is_refused(table, tmp_path):
    output = Output(f"{table}/out")
    with pytest.raises(JobFileError, match="lies in the folder of the input"):
        output.check_apart(f"delta://{table}")
