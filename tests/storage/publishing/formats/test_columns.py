"""Parts are whole, and their columns are those of the one list."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import TemporaryError
from distsvc.storage.publishing.formats.columns import (
    PUBLISHED_COLUMNS,
    PartWriter,
    meanings,
    part_file,
)
from tests.small_parts import write_part


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


def test_ids_keep_their_type(tmp_path):
    ids = pa.array(["a", "b", "c"])
    write_part(tmp_path / "p.parquet", 3, id_name="name", ids=ids)
    assert pq.read_table(tmp_path / "p.parquet")["name"].to_pylist() == ["a", "b", "c"]


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


def test_a_column_that_is_not_listed_is_refused():
    with pytest.raises(ValueError, match="not published: row, strength"):
        PartWriter("row", pa.int64(), ["label", "strength", "row"])
    part = PartWriter("row", pa.int64(), ["label"])
    with pytest.raises(ValueError, match=r"expected the columns \['label'\], found \['score'\]"):
        part.add(np.zeros(1, np.int64), {"score": np.zeros(1)})
    with pytest.raises(ValueError, match=r"columns of unequal length: \[2, 1\]"):
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
    with pytest.raises(TemporaryError, match="holds 9 rows of 10"):
        write_part(tmp_path / "p.parquet", 10)


def test_a_rule_says_what_its_columns_are():
    found = meanings("event", ["label", "score"], {"score": "a distance", "outlier": "none"})
    assert list(found) == ["event", "label", "score"]
    assert found["event"] == "the input's id, or the row's number"
    assert found["label"].startswith("int32, >= 0: the cluster")
    assert found["score"] == "a distance"


def test_parts_are_named_in_the_order_of_partitions():
    assert part_file(7) == "part-00007.parquet"
