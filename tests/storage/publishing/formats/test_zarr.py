"""Zarr holds what the parts hold, chunk by chunk."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, JobFileError
from distsvc.storage.places.folder import Folder
from distsvc.storage.publishing import formats as outputs
from distsvc.storage.publishing.formats import output_format
from distsvc.storage.publishing.formats.columns import PUBLISHED_COLUMNS, PartWriter, part_file
from tests.small_parts import LABELS, write_part

FORM = output_format("zarr")
NO_ROW, NO_LABEL = PUBLISHED_COLUMNS[0].fill, PUBLISHED_COLUMNS[1].fill


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(outputs.zarr, "CHUNK_ROWS", 7)


def written_parts(folder, sizes, **ids):
    (folder / "parts").mkdir()
    (folder / "zarr").mkdir()
    for number, n in enumerate(sizes):
        write_part(folder / "parts" / part_file(number), n, seed=number, **ids)
    return [(part_file(number), n) for number, n in enumerate(sizes)]


def written_zarr(folder, sizes, **ids):
    """The number of chunks, what the parts hold, and the finished group."""
    listed = written_parts(folder, sizes, **ids)
    table = pa.concat_tables([pq.read_table(folder / "parts" / name) for name, _ in listed])
    n_chunks = FORM.begin(Folder(folder / "zarr"), Folder(folder / "parts"), listed)
    for number in range(n_chunks):
        FORM.fill(Folder(folder / "zarr"), Folder(folder / "parts"), listed, number)
    return n_chunks, table, zarr.open_group(folder / "zarr", mode="r")


@pytest.mark.parametrize("sizes", [[20], [5, 9, 7], [1, 1, 1], [7, 7], [3, 0, 20], [14, 1]])
def test_zarr_equals_parquet_chunk_by_chunk(tmp_path, small_chunks, sizes):
    n_chunks, table, group = written_zarr(tmp_path, sizes)
    assert n_chunks == -(-sum(sizes) // 7)
    for name in ("row", "label", "score", "outlier"):
        for start in range(0, sum(sizes), 7):
            expected = table[name].to_numpy()[start : start + 7]
            np.testing.assert_array_equal(group[name][start : start + 7], expected)
        stored = [p for p in (tmp_path / "zarr" / name / "c").iterdir() if p.is_file()]
        assert len(stored) == n_chunks
    types = {name: group[name].dtype.name for name in ("row", "label", "score", "outlier")}
    assert types == {"row": "int64", "label": "int32", "score": "float32", "outlier": "bool"}


def test_a_chunk_can_be_written_twice_and_in_any_order(tmp_path, small_chunks):
    listed = written_parts(tmp_path, [10, 10])
    source, target = tmp_path / "parts", tmp_path / "zarr"
    table = pq.read_table(source)
    assert FORM.begin(Folder(target), Folder(source), listed) == 3
    for number in (2, 0, 1, 0):
        FORM.fill(Folder(target), Folder(source), listed, number)
    group = zarr.open_group(target, mode="r")
    np.testing.assert_array_equal(group["score"][:], table["score"].to_numpy())


def test_values_equal_to_the_fill_value_survive(tmp_path, small_chunks):
    source, target = tmp_path / "parts", tmp_path / "zarr"
    source.mkdir()
    target.mkdir()
    part, n = PartWriter("row", pa.int64(), LABELS), 14
    label, score = np.full(n, NO_LABEL, np.int32), np.full(n, np.nan, np.float32)
    part.add(np.full(n, NO_ROW), {"label": label, "score": score, "outlier": np.zeros(n, bool)})
    part.write(source / part_file(0))
    listed = [(part_file(0), n)]
    for number in range(FORM.begin(Folder(target), Folder(source), listed)):
        FORM.fill(Folder(target), Folder(source), listed, number)
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
    assert not FORM.publishes_parts
    assert {path.name for path in (tmp_path / "zarr").iterdir()} == names
    assert {path.suffix for path in (tmp_path / "parts").iterdir()} == {".parquet"}


def test_zarr_names_the_id(tmp_path, small_chunks):
    _, _, group = written_zarr(tmp_path, [9], id_name="event", ids=np.arange(100, 109))
    assert group.attrs["id"] == "event"
    np.testing.assert_array_equal(group["row"][:], np.arange(100, 109))


def test_zarr_refuses_ids_that_are_text():
    FORM.check("row", pa.int64(), LABELS)
    with pytest.raises(
        DataError, match="'zarr' needs whole numbers as ids; column 'name' is string"
    ):
        FORM.check("name", pa.string(), LABELS)


def test_zarr_refuses_a_column_without_a_fill_value():
    message = r"output\.reasons needs output\.format = 'parquet', found 'zarr'"
    with pytest.raises(JobFileError, match=message):
        FORM.check("row", pa.int64(), [*LABELS, "reasons"])
