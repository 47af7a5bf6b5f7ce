"""Parts are whole, Zarr equals Parquet, and the manifest is the commit."""

import hashlib
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, JobFileError, OutputPermissionError, TemporaryError
from distsvc.storage import parts
from distsvc.storage.arrays import write_json
from distsvc.storage.parts import NO_LABEL, Output, PartBuilder, create_zarr, write_zarr_chunk


def write_part(path: Path, n: int, seed: int = 0, blocks: int = 1, id_name: str = "row", ids=None):
    random = np.random.default_rng(seed)
    ids = np.arange(n, dtype=np.int64) if ids is None else ids
    label = random.integers(0, 4, n).astype(np.int32)
    score = random.normal(size=n).astype(np.float32)
    part = PartBuilder(id_name, ids.type if isinstance(ids, pa.Array) else None)
    for chosen in np.array_split(np.arange(n), blocks):
        s = slice(chosen[0], chosen[-1] + 1) if len(chosen) else slice(0, 0)
        part.add(ids[s], label[s], score[s], score[s] < 0)
    return part.write(path), {"label": label, "score": score, "outlier": score < 0}


# A part


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
    assert PartBuilder("row").write(tmp_path / "p.parquet")["rows"] == 0
    assert pq.read_table(tmp_path / "p.parquet").column_names == [
        "row",
        "label",
        "score",
        "outlier",
    ]


def test_a_part_that_can_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    def fail(table, stream, **_):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        write_part(tmp_path / "p.parquet", 10)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_lacks_rows_is_noticed(tmp_path, monkeypatch):
    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", lambda t, s, **k: write(t.slice(1), s, **k))
    with pytest.raises(TemporaryError, match="holds 9 rows of 10"):
        write_part(tmp_path / "p.parquet", 10)


# Zarr


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(parts, "CHUNK_ROWS", 7)


def written_zarr(tmp_path, sizes, **ids):
    folder = tmp_path / "labels"
    folder.mkdir()
    listed = []
    for number, n in enumerate(sizes):
        path = folder / f"part-{number:05d}.parquet"
        write_part(path, n, seed=number, **ids)
        listed.append((path, n))
    n_chunks = create_zarr(tmp_path / "zarr", folder, sum(sizes))
    for number in range(n_chunks):
        write_zarr_chunk(tmp_path / "zarr", listed, number)
    table = pa.concat_tables([pq.read_table(path) for path, _ in listed])
    return n_chunks, table, zarr.open_group(tmp_path / "zarr", mode="r")


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
    _, table, group = written_zarr(tmp_path, [10, 10])
    listed = [(p, 10) for p in sorted((tmp_path / "labels").iterdir())]
    for number in (2, 0, 1, 0):
        write_zarr_chunk(tmp_path / "zarr", listed, number)
    np.testing.assert_array_equal(group["score"][:], table["score"].to_numpy())


def test_values_equal_to_the_fill_value_survive(tmp_path, small_chunks):
    (tmp_path / "labels").mkdir()
    path = tmp_path / "labels" / "part-00000.parquet"
    part = PartBuilder("row")
    n = 14
    ids, labels = np.full(n, NO_LABEL, np.int64), np.full(n, NO_LABEL, np.int32)
    part.add(ids, labels, np.full(n, np.nan, np.float32), np.zeros(n, bool))
    part.write(path)
    for number in range(create_zarr(tmp_path / "zarr", path.parent, n)):
        write_zarr_chunk(tmp_path / "zarr", [(path, n)], number)
    group = zarr.open_group(tmp_path / "zarr", mode="r")
    for name in ("row", "label", "score", "outlier"):
        chunks = [p for p in (tmp_path / "zarr" / name / "c").iterdir() if p.is_file()]
        assert len(chunks) == 2, f"{name} has no chunk of fill values"
    assert (group["label"][:] == NO_LABEL).all()
    assert np.isnan(group["score"][:]).all()
    assert not group["outlier"][:].any()


def test_zarr_names_the_id(tmp_path, small_chunks):
    _, _, group = written_zarr(tmp_path, [9], id_name="event", ids=np.arange(100, 109))
    assert group.attrs["id"] == "event"
    np.testing.assert_array_equal(group["row"][:], np.arange(100, 109))


def test_zarr_refuses_ids_that_are_text(tmp_path):
    with pytest.raises(
        DataError, match="'zarr' needs whole numbers as ids; column 'name' is string"
    ):
        written_zarr(tmp_path, [2], id_name="name", ids=pa.array(["a", "b"]))


# The output folder


MANIFEST = {"job_sha256": "j", "input_sha256": "i", "files": []}


def run_folder_with_results(folder: Path, mark: str = "new") -> None:
    (folder / "labels").mkdir()
    (folder / "labels" / "part-00000.parquet").write_text(mark)
    (folder / "report.json").write_text(mark)
    (folder / "plan.json").write_text("not published")


def published(path: Path, mark: str = "new", manifest=MANIFEST) -> Output:
    output = Output(str(path))
    with output.locked(), output.run_folder("run") as folder:
        run_folder_with_results(folder, mark)
        output.publish(folder, manifest)
    return output


def names(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


WHOLE = ["_SUCCESS", "labels", "labels/part-00000.parquet", "manifest.json", "report.json"]


def test_publish(tmp_path):
    output = published(tmp_path / "out")
    assert names(tmp_path / "out") == WHOLE
    assert output.manifest() == MANIFEST
    assert output.check_free("j", "i", overwrite=False) is True


def test_the_manifest_comes_last(tmp_path, monkeypatch):
    seen = []

    def look(path, content):
        seen.extend(names(path.parent))
        write_json(path, content)

    monkeypatch.setattr(parts, "write_json", look)
    published(tmp_path / "out")
    assert "labels/part-00000.parquet" in seen
    assert "report.json" in seen
    assert "manifest.json" not in seen
    assert "_SUCCESS" not in seen


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moved_before", [0, 1])
def test_a_crash_while_results_are_moved_leaves_nothing(tmp_path, monkeypatch, moved_before):
    published(tmp_path / "out", "old")
    moved = []
    replace = os.replace

    def crash(source, target):
        if len(moved) == moved_before:
            raise Crash
        moved.append(target)
        replace(source, target)

    monkeypatch.setattr(parts.os, "replace", crash)
    with pytest.raises(Crash):
        published(tmp_path / "out")
    assert names(tmp_path / "out") == []


def test_a_crash_before_the_manifest_leaves_nothing(tmp_path, monkeypatch):
    def crash(path, content):
        raise Crash

    monkeypatch.setattr(parts, "write_json", crash)
    with pytest.raises(Crash):
        published(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_publish_leaves_no_manifest(tmp_path, monkeypatch):
    """As after SIGKILL: nothing is tidied up, and what was there before is withdrawn already."""
    published(tmp_path / "out", "old")

    def crash(path, content):
        raise Crash

    monkeypatch.setattr(parts, "write_json", crash)
    real = Output._withdraw
    monkeypatch.setattr(Output, "_withdraw", lambda self: None if names_moved(self) else real(self))
    with pytest.raises(Crash):
        published(tmp_path / "out")
    assert names(tmp_path / "out") == ["labels", "labels/part-00000.parquet", "report.json"]
    with pytest.raises(JobFileError, match=r"holds labels, report\.json without a manifest"):
        Output(str(tmp_path / "out")).check_free("j", "i", overwrite=False)
    assert Output(str(tmp_path / "out")).check_free("j", "i", overwrite=True) is False


def names_moved(output: Output) -> bool:
    found = output.path / "report.json"
    return found.exists() and found.read_text() == "new"


def test_publishing_again_replaces_everything(tmp_path):
    out = tmp_path / "out"
    published(out, "old")
    (out / "labels" / "part-00001.parquet").write_text("of a run with more partitions")
    (out / "report.html").write_text("old page")
    (out / "score").mkdir()
    published(out)
    assert names(out) == WHOLE
    assert (out / "labels" / "part-00000.parquet").read_text() == "new"


def test_what_others_put_there_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    published(tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("job", "inputs", "message"),
    [
        ("other", "i", "was already published by a different configuration; give --overwrite"),
        ("j", "other", "was already published from an input that has changed since"),
    ],
)
def test_a_published_run_is_not_replaced_unasked(tmp_path, job, inputs, message):
    output = published(tmp_path / "out")
    with pytest.raises(JobFileError, match=message):
        output.check_free(job, inputs, overwrite=False)
    assert output.check_free(job, inputs, overwrite=True) is False
    assert names(tmp_path / "out") == WHOLE


def test_an_empty_place_is_free(tmp_path):
    assert Output(str(tmp_path / "none")).check_free("j", "i", overwrite=False) is False
    assert Output(str(tmp_path)).check_free("j", "i", overwrite=False) is False


@pytest.mark.parametrize("content", ["[1]", '{"a": 1}', "{"])
def test_a_strange_manifest(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json (is not a manifest|can't be read)"):
        Output(str(tmp_path)).check_free("j", "i", overwrite=False)


def test_a_second_run_is_refused_while_the_first_goes_on(tmp_path):
    out = tmp_path / "out"
    errors = []

    def second():
        try:
            with Output(str(out)).locked():
                pass
        except TemporaryError as error:
            errors.append(str(error))

    with Output(str(out)).locked(), Output(str(out)).run_folder("first") as folder:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert errors == [f"another run is writing to {out}"]
        assert folder.exists(), "the second run removed the first one's folder"
    with Output(str(out)).locked():
        pass


def test_the_lock_is_released_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"), Output(str(tmp_path / "out")).locked():
            raise ValueError("inside")


def test_stale_run_folders_are_removed(tmp_path):
    stale = tmp_path / "out" / ".runs" / "0123"
    stale.mkdir(parents=True)
    (stale / "plan.json").write_text("{}")
    with Output(str(tmp_path / "out")).locked():
        assert not stale.exists()
    assert names(tmp_path) == ["out"]


def test_a_run_folder_is_removed_however_the_run_ends(tmp_path):
    def run(output):
        with output.locked(), output.run_folder("run") as folder:
            (folder / "file").write_text("half")
            raise Crash

    with pytest.raises(Crash):
        run(Output(str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_folders_made_for_a_failed_run_are_removed(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(Crash), Output(str(tmp_path / "there" / "a" / "b")).locked():
        raise Crash
    assert names(tmp_path) == ["there"]


def test_a_folder_that_was_there_is_kept(tmp_path):
    with pytest.raises(Crash), Output(str(tmp_path)).locked():
        raise Crash
    assert tmp_path.exists()
    assert names(tmp_path) == []


@pytest.mark.parametrize("below", ["file/out", "file"])
def test_an_output_that_can_not_be_a_folder(tmp_path, below):
    (tmp_path / "file").write_text("a file")
    with (
        pytest.raises(OutputPermissionError, match=r"output\.path .*file.* can't be written"),
        Output(str(tmp_path / below)).locked(),
    ):
        pass
    assert names(tmp_path) == ["file"]
