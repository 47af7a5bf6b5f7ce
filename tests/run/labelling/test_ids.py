"""Ids that rows share or do not have: counted, told, and held back where a job asks for that."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import CheckFailedError
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from distsvc.run.labelling import counts as ids_module
from distsvc.run.labelling.counts import IdCounts, counts_ids, id_keys
from distsvc.run.work.directory import Result
from distsvc.run.work.progress import Progress
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.formats import part_file
from tests.small_runs import small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

N = 700
X = three_clusters(N)
CENTRES = {"algorithm": "bico", "n_clusters": 3}
DAY = datetime.datetime(2026, 2, 28)

KINDS = [
    pa.array([3, -1, 3]),
    pa.array([3, 2**64 - 1, 3], pa.uint64()),
    pa.array([True, False, True]),
    pa.array([1.5, -0.5, 1.5]),
    pa.array([1.5, -0.5, 1.5], pa.float32()),
    pa.array(["a", "", "a"]),
    pa.array(["a", "", "a"], pa.large_string()),
    pa.array([b"\xff", b"", b"\xff"]),
    pa.array([DAY, DAY + datetime.timedelta(1), DAY]),
    pa.array([DAY.date(), None, DAY.date()], pa.date32()).fill_null(datetime.date(2026, 1, 1)),
    pa.array([decimal.Decimal("1.50"), decimal.Decimal("1.05"), decimal.Decimal("1.50")]),
]


@pytest.mark.parametrize("ids", KINDS, ids=lambda ids: str(ids.type))
def test_equal_ids_have_equal_keys_and_no_others(ids):
    assert counts_ids(ids.type)
    keys = id_keys(ids).tolist()
    assert keys[0] == keys[2] != keys[1]
    assert id_keys(ids[1:]).tolist() == keys[1:]
    assert id_keys(ids[:0]).tolist() == []


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct({"a": pa.int64()})], ids=str)
def test_nested_ids_are_not_compared(kind):
    assert not counts_ids(kind)


def counted(folder, *parts):
    """Return what is told of the ids of several partitions."""
    n = sum(len(part) for part in parts)
    together = IdCounts.of_table(n)
    for number, part in enumerate(parts):
        one = IdCounts.of_table(n)
        for first in range(0, len(part), 70):
            one.add(part[first : first + 70])
        together.merge(Result(arrays=one.arrays()))
        pq.write_table(pa.table({"id": part}), folder / f"part-{number:05d}.parquet")
    return together.report(store_of(folder), lambda k: [part_file(k)], "id")


def cut(array, *places):
    return [array[a:b] for a, b in zip([0, *places], [*places, len(array)], strict=True)]


@pytest.mark.parametrize("places", [(), (100,), (1, 350, 350, 699)])
def test_counts_do_not_depend_on_partitions(tmp_path, places):
    names = [f"id-{k}" for k in range(N)]
    names[650] = names[20] = names[21] = "id-5"
    names[40] = names[699]
    names[7] = names[8] = None
    found = counted(tmp_path, *cut(pa.array(names), *places))
    assert (found.shared, found.missing, found.bits) == (6, 2, 0)
    assert found.example == "id-5"
    assert counted(tmp_path, pa.array(range(N))).shared == 0
    assert counted(tmp_path, pa.array([], pa.string())).notes("id") == []


def test_of_many_ids_a_part_is_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(ids_module, "MAX_IDS", 100)
    ids = np.arange(N)
    ids[N // 2 :] = ids[: N // 2]
    found = counted(tmp_path, *cut(pa.array(ids), 300))
    assert found.bits == 3
    assert found == counted(tmp_path, *cut(pa.array(ids), 10, 500))
    assert 0 < found.shared < 200
    assert found.shared % 2 == 0
    assert (
        "share their id with another row (among one in 8 ids, which were compared)"
        in (found.notes("id")[0])
    )


def table_with(path, ids):
    return write_table(path, X, account=ids)


def job(path, out, **checks):
    return small_job(
        path, CENTRES, input={"id": "account"}, output={"path": str(out)}, checks=checks
    )


IDS = [f"a{k % 690}" for k in range(N - 3)] + [None] * 3
WORDS = [
    "14 rows share their id with another row: 'account' is 'a0' in several, for example; [checks] "
    "unique_id = true holds such a run back",
    "3 rows have no id: 'account' is missing there; [checks] unique_id = true holds such a run "
    "back",
]


@pytest.mark.parametrize("output", [{}, {"format": "zarr"}])
def test_a_job_tells_of_them(tmp_path, output):
    ids = [k % 690 for k in range(N)] if output else IDS
    path = table_with(tmp_path / "t.parquet", ids)
    content = job(path, tmp_path / "out")
    content = content.model_copy(update={"output": content.output.model_copy(update=output)})
    report = run_job(content)
    told = [text for text in report.warnings if "unique_id" in text]
    assert told == (
        [WORDS[0].replace("14 rows", "20 rows").replace("'a0'", "0")] if output else WORDS
    )


def test_a_check_holds_the_run_back(tmp_path):
    path = table_with(tmp_path / "t.parquet", IDS)
    words = "unique_id: 17 rows share their id with another or have none, 0 expected"
    with pytest.raises(CheckFailedError, match=words):
        run_job(job(path, tmp_path / "out", unique_id=True))
    report = run_job(job(path, tmp_path / "out", unique_id={"limit": True, "level": "warn"}))
    assert words in report.warnings
    fine = table_with(tmp_path / "fine.parquet", [f"a{k}" for k in range(N)])
    report = run_job(job(fine, tmp_path / "fine", unique_id=True))
    assert [check.state for check in report.checks] == ["passed"]
    assert not [text for text in report.warnings if "id" in text.split()]


def test_predict_tells_of_them(tmp_path, monkeypatch):
    run_job(job(table_with(tmp_path / "t.parquet", list(range(N))), tmp_path / "out"))
    told = []
    progress = Progress(quiet=True)
    monkeypatch.setattr(progress, "event", lambda name, *_, **fields: told.append((name, fields)))
    path = table_with(tmp_path / "new.parquet", [1, *range(1, N)])
    predict_table(tmp_path / "out", str(path), str(tmp_path / "new"), progress=progress)
    (fields,) = [fields for name, fields in told if name == "note"]
    assert fields["because"].startswith("2 rows share their id with another row: 'account' is 1 ")


def test_the_example_may_be_in_any_file_of_a_partition(tmp_path):
    whole = IdCounts.of_table(6)
    whole.add(pa.array([7, 8, 9, 9, 5, 6]))
    for number, part in enumerate(([7, 8], [9], [9, 5, 6])):
        pq.write_table(pa.table({"id": pa.array(part)}), tmp_path / part_file(number))
    together = IdCounts.of_table(6)
    together.merge(Result(arrays=whole.arrays()))
    found = together.report(store_of(tmp_path), lambda _: [part_file(k) for k in range(3)], "id")
    assert (found.shared, found.example) == (2, 9)
