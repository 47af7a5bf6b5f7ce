"""Tables of Iceberg with files of other writers, and with deletion vectors."""

import json
import struct
import zlib
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
    """Compare what is read with what pyiceberg reads; return the ids."""
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
    """Add a file that numbers none of its columns."""
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


def puffin(path: Path, vectors: dict[str, list[int]], snapshot: int = 1) -> None:
    """Write deletion vectors as the format of Puffin describes them."""
    content, blobs = b"PFA1", []
    for data_file, places in vectors.items():
        bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(places) - 1, 16)
        bitmap += struct.pack(f"<{len(places)}H", *places)
        vector = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        known = {"referenced-data-file": data_file, "cardinality": str(len(places))}
        blobs.append(
            {
                "type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": snapshot,
                "sequence-number": 1, "offset": len(content), "length": len(blob),
                "properties": known,
            }
        )  # fmt: skip
        content += blob
    footer = json.dumps({"blobs": blobs}).encode()
    content += b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1"
    path.write_bytes(content)


def with_deletes(table, folder: Path, version: int, files: list) -> str:
    """Write a snapshot that has files of deletes besides, and return its metadata file."""
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
    content |= {"format-version": version} | ({"next-row-id": 0} if version == 3 else {})
    path = folder / "v9.metadata.json"
    path.write_text(json.dumps(content))
    return str(path)


def of_deletes(path: Path, kind: str = "POSITION_DELETES", form: str = "PUFFIN"):
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


def paths_of(table) -> list[str]:
    return sorted(task.file.file_path for task in table.scan().plan_files())


@pytest.mark.parametrize("version", [2, 3])
def test_deletion_vectors(table, tmp_path, version):
    from pyiceberg.table import StaticTable

    one, other, third = paths_of(table)
    puffin(tmp_path / "dv", {one: [0, 3, 29], other: [7]})
    puffin(tmp_path / "more", {one: [0, 3, 17, 29], third: [2]})  # takes the place of the first
    files = [of_deletes(tmp_path / name) for name in ("dv", "more")]
    path = with_deletes(table, tmp_path, version, files)
    assert len(agree(StaticTable.from_metadata(path), tmp_path)) == 84
    assert len(opened(f"iceberg://{path}", tmp_path, columns=["x"]).layout.files) == 3


def test_a_damaged_deletion_vector_is_refused(table, tmp_path):
    path = tmp_path / "dv"
    puffin(path, {paths_of(table)[0]: [0, 3, 29]})
    metadata = with_deletes(table, tmp_path, 3, [of_deletes(path)])
    content = path.read_bytes()
    for damaged in (
        content.replace(struct.pack("<3H", 0, 3, 29), struct.pack("<3H", 0, 4, 29)),
        content.replace(b"deletion-vector-v1", b"deletion-vector-v2"),
        content[:-30],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"can't read the deletion vectors .*/dv"):
            opened(f"iceberg://{metadata}", tmp_path, columns=["x"])


@pytest.mark.parametrize(
    ("kind", "form", "message"),
    [
        ("EQUALITY_DELETES", "PARQUET", "files of equality deletes, which are not read here; rew"),
        ("POSITION_DELETES", "ORC", "deleted rows listed in ORC files, expected Parquet; rewrite"),
    ],
)
def test_deletes_that_are_not_read_are_refused(table, tmp_path, kind, form, message):
    (tmp_path / "deletes").touch()
    path = with_deletes(table, tmp_path, 2, [of_deletes(tmp_path / "deletes", kind, form)])
    with pytest.raises(DataError, match=message):
        opened(f"iceberg://{path}", tmp_path, columns=["x"])
