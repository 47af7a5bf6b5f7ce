"""Parts are whole, and have the columns of `PUBLISHED_COLUMNS`."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import JobFileError, TemporaryError
from distsvc.storage.places.folder import Folder
from distsvc.storage.publishing import formats as outputs
from distsvc.storage.publishing.formats import (
    PUBLISHED_COLUMNS,
    PartWriter,
    check_zarr,
    meanings,
    part_file,
    write_zarr,
)
from tests.small_parts import LABELS, write_part


def test_a_part_holds_its_rows(tmp_path):
    path = tmp_path / "part.parquet"
    facts, columns = write_part(path, 100)
    table = pq.read_table(path)
    assert table.schema == pa.schema(
        [
            ("row", pa.int64()),
            ("label", pa.int32()),
            ("score", pa.float32()),
            ("outlier", pa.bool_()),
        ]
    )
    for name, values in columns.items():
        np.testing.assert_array_equal(table[name].to_numpy(), values)
    assert facts == {
        "rows": 100,
        "bytes": path.stat().st_size,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    assert [p.name for p in tmp_path.iterdir()] == ["part.parquet"]


def test_bytes_do_not_depend_on_blocks(tmp_path):
    facts = [write_part(tmp_path / f"{k}.parquet", 100, blocks=k)[0] for k in (1, 3, 100)]
    assert facts[0] == facts[1] == facts[2]


def test_a_part_without_rows_has_the_same_columns(tmp_path):
    write_part(tmp_path / "full.parquet", 2, id_name="name", ids=pa.array(["a", "b"]))
    write_part(tmp_path / "void.parquet", 0, id_name="name", ids=pa.array([], pa.string()))
    schemas = [pq.read_schema(tmp_path / f"{name}.parquet") for name in ("full", "void")]
    assert schemas[0] == schemas[1]
    part = PartWriter("row", pa.int64(), [column.name for column in PUBLISHED_COLUMNS[1:]])
    assert part.write(tmp_path / "p.parquet")["rows"] == 0
    schema = pq.read_schema(tmp_path / "p.parquet")
    assert schema == pa.schema([(column.name, column.type) for column in PUBLISHED_COLUMNS])


def test_columns_are_in_the_order_of_the_list(tmp_path):
    part = PartWriter("row", pa.int64(), ["reasons", "outlier", "label"])
    label, outlier = np.array([0, 1]), np.array([False, True])
    part.add(np.array([5, 6]), {"reasons": [None, "a"], "label": label, "outlier": outlier})
    part.write(tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["row", "label", "outlier", "reasons"]
    assert [list(row.values()) for row in table.to_pylist()] == [
        [5, 0, False, None],
        [6, 1, True, "a"],
    ]
    assert table["label"].type == pa.int32()


def test_only_columns_whose_values_repeat_have_a_dictionary(tmp_path):
    for ids in (np.arange(3), pa.array(["a", "b", "c"])):
        kind = ids.type if isinstance(ids, pa.Array) else pa.int64()
        part = PartWriter("name", kind, ["label", "score", "outlier", "next", "next_share"])
        part.add(
            ids,
            {
                "label": np.zeros(3, np.int32),
                "score": np.zeros(3, np.float32),
                "outlier": np.zeros(3, bool),
                "next": [[1], [1], [2]],
                "next_share": [[0.5], [0.5], [0.25]],
            },
        )
        part.write(tmp_path / "p.parquet")
        group = pq.read_metadata(tmp_path / "p.parquet").row_group(0)
        columns = [group.column(k) for k in range(group.num_columns)]
        coded = {c.path_in_schema.partition(".")[0] for c in columns if c.has_dictionary_page}
        assert coded == {"label", "next"} | ({"name"} if kind == pa.string() else set())


def test_a_column_that_is_not_listed_is_refused():
    with pytest.raises(ValueError, match="not published: row, strength"):
        PartWriter("row", pa.int64(), ["label", "strength", "row"])
    part = PartWriter("row", pa.int64(), ["label"])
    with pytest.raises(ValueError, match=r"expected the columns \['label'\], found \['score'\]"):
        part.add(np.zeros(1, np.int64), {"score": np.zeros(1)})
    with pytest.raises(ValueError, match="same length"):
        part.add(np.zeros(2, np.int64), {"label": np.zeros(1, np.int32)})
    assert part.n_rows == 0


def test_a_part_that_can_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    def fail(table, stream, **_):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(TemporaryError, match=r"p.parquet can't be written: disk full"):
        write_part(tmp_path / "p.parquet", 10)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_lacks_rows_is_noticed(tmp_path, monkeypatch):
    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", lambda t, s, **k: write(t.slice(1), s, **k))
    with pytest.raises(TemporaryError, match="expected 10 rows, found 9"):
        write_part(tmp_path / "p.parquet", 10)


def test_the_meanings_of_a_rule_replace_defaults():
    found = meanings("event", ["label", "score"], {"score": "a distance", "outlier": "none"})
    assert list(found) == ["event", "label", "score"]
    assert found["event"] == "the input's id, or the row's number"
    assert found["label"].startswith("int32, >= 0: the cluster")
    assert found["score"] == "a distance"


NO_ROW, NO_LABEL = PUBLISHED_COLUMNS[0].fill, PUBLISHED_COLUMNS[1].fill


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(outputs, "CHUNK_ROWS", 7)


def written_parts(folder, sizes, **ids):
    (folder / "parts").mkdir()
    (folder / "zarr").mkdir()
    for number, n in enumerate(sizes):
        write_part(folder / "parts" / part_file(number), n, seed=number, **ids)
    return [(part_file(number), n) for number, n in enumerate(sizes)]


def written_zarr(folder, sizes, **ids):
    """Rows of the parts, and the finished group."""
    listed = written_parts(folder, sizes, **ids)
    table = pa.concat_tables([pq.read_table(folder / "parts" / name) for name, _ in listed])
    files = write_zarr(Folder(folder / "zarr"), Folder(folder / "parts"), listed)
    assert {name: facts["bytes"] for name, facts in files.items()} == Folder(
        folder / "zarr"
    ).sizes()
    return table, zarr.open_group(folder / "zarr", mode="r")


@pytest.mark.parametrize("sizes", [[20], [5, 9, 7], [1, 1, 1], [7, 7], [3, 0, 20], [14, 1]])
def test_zarr_equals_parquet_chunk_by_chunk(tmp_path, small_chunks, sizes):
    table, group = written_zarr(tmp_path, sizes)
    for name in ("row", "label", "score", "outlier"):
        for start in range(0, sum(sizes), 7):
            expected = table[name].to_numpy()[start : start + 7]
            np.testing.assert_array_equal(group[name][start : start + 7], expected)
        stored = [p for p in (tmp_path / "zarr" / name / "c").iterdir() if p.is_file()]
        assert len(stored) == -(-sum(sizes) // 7)
    types = {name: group[name].dtype.name for name in ("row", "label", "score", "outlier")}
    assert types == {"row": "int64", "label": "int32", "score": "float32", "outlier": "bool"}


def test_values_equal_to_the_fill_value_survive(tmp_path, small_chunks):
    source, target = tmp_path / "parts", tmp_path / "zarr"
    source.mkdir()
    target.mkdir()
    part, n = PartWriter("row", pa.int64(), LABELS), 14
    label, score = np.full(n, NO_LABEL, np.int32), np.full(n, np.nan, np.float32)
    part.add(np.full(n, NO_ROW), {"label": label, "score": score, "outlier": np.zeros(n, bool)})
    part.write(source / part_file(0))
    listed = [(part_file(0), n)]
    write_zarr(Folder(target), Folder(source), listed)
    group = zarr.open_group(target, mode="r")
    for name in ("row", "label", "score", "outlier"):
        chunks = [p for p in (tmp_path / "zarr" / name / "c").iterdir() if p.is_file()]
        assert len(chunks) == 2, f"{name} has no chunk of fill values"
    assert (group["label"][:] == NO_LABEL).all()
    assert np.isnan(group["score"][:]).all()
    assert not group["outlier"][:].any()


def test_the_arrays_alone_are_published(tmp_path, small_chunks):
    written_zarr(tmp_path, [9, 2])
    names = {"zarr.json", "row", "label", "score", "outlier"}
    assert {path.name for path in (tmp_path / "zarr").iterdir()} == names
    assert {path.suffix for path in (tmp_path / "parts").iterdir()} == {".parquet"}


def test_zarr_names_the_id(tmp_path, small_chunks):
    _, group = written_zarr(tmp_path, [9], id_name="event", ids=np.arange(100, 109))
    assert group.attrs["id"] == "event"
    np.testing.assert_array_equal(group["row"][:], np.arange(100, 109))


def test_zarr_refuses_a_column_without_a_fill_value():
    message = r"output\.reasons needs output\.format = 'parquet', found 'zarr'"
    with pytest.raises(JobFileError, match=message):
        check_zarr("row", pa.int64(), [*LABELS, "reasons"])
