"""Inputs with false metadata, truncated or no files: one line, before much is allocated."""

import bz2
import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, InputNotFoundError
from distsvc.job.config import InputConfig
from distsvc.job.file import parse_job
from distsvc.run.work import plan as plans
from distsvc.run.work.plan import Plan
from distsvc.storage.rows.blocks import Layout
from distsvc.storage.rows.columns import Scan, choose_features
from distsvc.storage.tables.opening import shown_columns
from tests.small_tables import opened

LINES = b"".join(b"1 1:%d 2:%d\n" % (k, k * 7 % 13) for k in range(5000))


@pytest.mark.parametrize("name", ["a", "a.parquet", "a.csv", "a.svm"])
def test_a_pipe_is_not_opened(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=rf"/{name} is not a regular file"):
        opened(tmp_path / name, tmp_path)


def link_to_nothing(path):
    path.symlink_to("nothing")


@pytest.mark.parametrize(
    ("make", "passed_over", "words"),
    [(os.mkfifo, "pipe", "is not a regular file"), (link_to_nothing, ".#a.parquet", "was removed")],
)
def test_a_pipe_or_a_link_to_nothing_among_others(tmp_path, make, passed_over, words):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    make(tmp_path / passed_over)
    assert opened(tmp_path, tmp_path).n_rows == 1
    make(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=f"b.parquet {words}"):
        opened(tmp_path, tmp_path)


def test_a_loop_of_links(tmp_path):
    folder = tmp_path / "data"
    (folder / "inner").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1.0]}), folder / "a.parquet")
    (folder / "inner" / "again").symlink_to(folder)
    (folder / "inner" / "more").symlink_to(folder)
    with pytest.raises(DataError, match=r"inner/again is a link to one of its parent folders"):
        opened(folder, tmp_path)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("cut", [8, 500])
def test_archives_that_end_early(tmp_path, pack, cut):
    path = tmp_path / f"t.svm{'.gz' if pack is gzip.compress else '.bz2'}"
    path.write_bytes(pack(LINES)[:-cut])
    with pytest.raises(DataError, match=rf"can't read {path}: Compressed file ended"):
        opened(path, tmp_path)


@pytest.mark.parametrize("index", [100_001, 10**7, 2**31, 10**9, 10**11, 10**25])
def test_svmlight_with_a_large_index(tmp_path, index):
    (tmp_path / "t.svm").write_text(f"1 1:2\n1 {index}:3\n")
    with pytest.raises(
        DataError, match=r"t.svm( has [\d,]+ feature columns,|, line 2:) expected .*at most 100,000"
    ):
        opened(tmp_path / "t.svm", tmp_path)


def test_wide_svmlight_is_planned_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "MAX_FIRST_VALUES", 10**6)
    (tmp_path / "t.svm").write_text("1 1:2\n" * 5000 + "1 20000:3\n")
    job = parse_job({"input": {"path": str(tmp_path / "t.svm")}, "output": {"path": "-"}})
    plan = Plan.of(job, opened(tmp_path / "t.svm", tmp_path))
    assert plan.shift.shape == (20_000,)
    assert plan.shift[0] == 2.0


@pytest.mark.parametrize("fixed", [True, False])
def test_vectors_that_are_too_long(tmp_path, fixed):
    def write(width, n=2):
        flat = pa.array(np.zeros(n * width, np.float32))
        if fixed:
            lists = pa.FixedSizeListArray.from_arrays(flat, width)
        else:
            lists = pa.ListArray.from_arrays(pa.array(range(0, (n + 1) * width, width)), flat)
        pq.write_table(pa.table({"v": lists, "w": lists}), tmp_path / "t.parquet")

    message = r"t.parquet has {} feature columns, expected at most 100,000; .*TruncatedSVD"
    write(200_000)
    with pytest.raises(DataError, match=message.format("200,000")):
        opened(tmp_path / "t.parquet", tmp_path)
    write(60_000)
    with pytest.raises(DataError, match=message.format("120,000")):
        opened(tmp_path / "t.parquet", tmp_path)
    assert len(opened(tmp_path / "t.parquet", tmp_path, columns=["v"]).columns) == 60_000


def write_claiming(path, **metadata):
    zarr.create_array(path, data=np.ones((10, 2)), chunks=(5, 2))
    content = json.loads((path / "zarr.json").read_text())
    chunks = metadata.pop("chunks", [5, 2])
    content["chunk_grid"]["configuration"]["chunk_shape"] = chunks
    (path / "zarr.json").write_text(json.dumps(content | metadata))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"shape": [10**13, 2]},
            r"has 10000000000000 rows in chunks of 5 by its metadata, expected",
        ),
        ({"shape": [10**12, 2], "chunks": [10**7, 2]}, "t.zarr"),
        ({"shape": [10**6, 2], "chunks": [10**13, 2]}, r"has chunks of 10000000000000 x 2"),
        ({"shape": [10, 10**13]}, r"has 10,000,000,000,000 feature columns, expected at most"),
        ({"chunks": [0, 2]}, "t.zarr"),
        ({"shape": [-10, 2]}, "t.zarr"),
    ],
)
def test_zarr_that_claims_too_much(tmp_path, metadata, message):
    write_claiming(tmp_path / "t.zarr", **metadata)
    with pytest.raises(DataError, match=message) as caught:
        opened(tmp_path / "t.zarr", tmp_path)
    assert "t.zarr" in str(caught.value)


def test_columns_left_out_are_named_with_why(tmp_path):
    lines = "".join(f"{k},n{k},{k % 2},{k},{k}\n" for k in range(9))
    (tmp_path / "t.csv").write_text("row,name,kind,split,x\n" + lines)
    table = opened(tmp_path / "t.csv", tmp_path, id="row", classes="kind", where="split > 2")
    assert shown_columns(table) == {
        "used": "x",
        "left_out": "row (input.id), name (text), kind (input.classes), split (of input.where)",
    }


class Name(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str(self) == str(other)

    __hash__ = str.__hash__


def test_many_columns_are_compared_in_proportion():
    n = 4000
    names = tuple(Name(f"f{k}") for k in range(n))
    scan = Scan(
        Layout("t", "parquet", (1,)),
        types=dict.fromkeys(names, pa.float64()),
        problems={},
        default=names,
    )
    asked = InputConfig(path="t").model_copy(update={"columns": names})
    Name.compared = 0
    chosen = choose_features(asked, scan, (), {})
    assert Name.compared < 100 * n, "n ** 2 / 2 where names are counted one by one"
    assert chosen == names


def test_a_name_that_looks_like_a_chain_of_protocols(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputNotFoundError, match=r"zip::x\.csv does not exist"):
        opened("zip::x.csv", tmp_path)
    (tmp_path / "zip::x.csv").write_text("x,y\n1,2\n3,5\n")
    assert opened("zip::x.csv", tmp_path).n_rows == 2
