"""Iceberg tables with files of other writers, and with unsupported deletes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError
from tests.small_tables import everything, opened

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def catalog(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalog = SqlCatalog("own", **place)
    catalog.create_namespace("db")
    yield catalog
    catalog.close()


def rows(n: int, first: int = 0, **more) -> pa.Table:
    ids = np.arange(first, first + n)
    vectors = np.column_stack([ids, -ids]).astype(np.float32)
    columns = {"id": ids, "x": np.sin(ids), "day": ids % 2, "v": list(vectors)}
    return pa.table(columns | more)


def own_rows(found) -> dict[str, list]:
    """Return a table's ids and its features as they were read."""
    _, X, ids, _ = everything(found)
    order = np.argsort(ids)
    read = {name: X[order, k] for k, name in enumerate(found.columns)}
    return {"id": [ids[k] for k in order]} | read


def their_rows(table) -> dict[str, np.ndarray]:
    read = table.scan().to_arrow().sort_by("id")
    columns = {n: read[n] for n in read.schema.names if n not in ("id", "v")}
    found = {n: c.cast(pa.float64()).to_numpy() for n, c in columns.items()}
    if "v" in read.schema.names:
        vectors = [[np.nan, np.nan] if v is None else v for v in read["v"].to_pylist()]
        found |= {f"v[{k}]": np.array([v[k] for v in vectors]) for k in range(2)}
    return found


def agree(table, tmp_path) -> list[int]:
    """Check that pyiceberg reads the same rows; return the ids."""
    columns = [field.name for field in table.schema().fields if field.name != "id"]
    found = opened(f"iceberg://{table.metadata_location}", tmp_path, columns=columns, id="id")
    own, theirs = own_rows(found), their_rows(table)
    ids = own.pop("id")
    assert ids == sorted(table.scan().to_arrow()["id"].to_pylist())
    assert set(own) == set(theirs)
    for name, values in theirs.items():
        np.testing.assert_array_equal(own[name], values, err_msg=name)
    return ids


def added(table, folder: Path, data: pa.Table) -> None:
    """Add a file whose columns have no numbers."""
    path = folder / f"added-{data['id'][0]}.parquet"
    pq.write_table(data, path, row_group_size=7)
    table.add_files([f"file://{path}"])


def test_files_without_numbers_are_read_by_the_mapping_of_names(catalog, tmp_path):
    from pyiceberg.types import DoubleType

    table = catalog.create_table("db.t", schema=rows(1).schema)
    added(table, tmp_path, rows(20))
    table.append(rows(10, first=20))
    assert agree(table, tmp_path) == list(range(30))
    with table.update_schema() as update:
        update.rename_column("x", "wave")
    agree(table, tmp_path)
    added(table, tmp_path, rows(5, first=40).rename_columns({"x": "wave"}))
    with table.update_schema() as update:
        update.add_column("x", DoubleType())  # another one than before
    agree(table, tmp_path)
    more = rows(5, first=50)
    added(table, tmp_path, more.append_column("wave", more["x"]))
    with table.update_schema() as update:
        update.delete_column("wave")
    assert len(agree(table, tmp_path)) == 40


def with_deletes(table, folder: Path, files: list) -> str:
    """Write a snapshot with files of deletes, and return its metadata file."""
    from pyiceberg.manifest import (
        ManifestContent,
        ManifestEntry,
        ManifestWriterV2,
        write_manifest_list,
    )

    class Writer(ManifestWriterV2):
        def content(self):
            return ManifestContent.DELETES

    before = table.current_snapshot()
    number, sequence = before.snapshot_id + 1, before.sequence_number + 1
    place = table.io.new_output(f"file://{folder}/deletes-m0.avro")
    with Writer(table.spec(), table.schema(), place, number, "null") as writer:
        for file in files:
            writer.add(ManifestEntry.from_args(snapshot_id=number, data_file=file))
    manifests = [writer.to_manifest_file(), *before.manifests(table.io)]
    place = table.io.new_output(f"file://{folder}/snap.avro")
    with write_manifest_list(2, place, number, before.snapshot_id, sequence, "null") as listed:
        listed.add_manifests(manifests)
    content = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    latest = content["snapshots"][-1] | {
        "snapshot-id": number, "sequence-number": sequence, "manifest-list": place.location,
    }  # fmt: skip
    content["snapshots"].append(latest)
    content |= {"current-snapshot-id": number, "last-sequence-number": sequence}
    content["refs"] = {"main": {"snapshot-id": number, "type": "branch"}}
    path = folder / "v9.metadata.json"
    path.write_text(json.dumps(content))
    return str(path)


def of_deletes(path: Path, kind: str, form: str):
    """Return the entry of a file of deletes."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent[kind], file_path=f"file://{path}", file_format=FileFormat[form],
        partition=Record(), record_count=4, file_size_in_bytes=path.stat().st_size,
        equality_ids=[1] if kind == "EQUALITY_DELETES" else None,
    )  # fmt: skip


@pytest.fixture
def table(catalog):
    """A table of 90 rows in three files."""
    table = catalog.create_table("db.t", schema=rows(1).schema)
    for first in (0, 30, 60):
        table.append(rows(30, first=first))
    return table


@pytest.mark.parametrize(
    ("kind", "form", "message"),
    [
        ("EQUALITY_DELETES", "PARQUET", "files of equality deletes, which are not supported; rew"),
        ("POSITION_DELETES", "ORC", "deleted rows listed in ORC files, expected Parquet; rewrite"),
        ("POSITION_DELETES", "PUFFIN", "deleted rows listed in PUFFIN files, expected Parquet; "),
    ],
)
def test_deletes_that_are_not_read_are_refused(table, tmp_path, kind, form, message):
    (tmp_path / "deletes").touch()
    path = with_deletes(table, tmp_path, [of_deletes(tmp_path / "deletes", kind, form)])
    with pytest.raises(DataError, match=message):
        opened(f"iceberg://{path}", tmp_path, columns=["x"])
