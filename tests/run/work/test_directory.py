"""The directory of a run: results are written once, and checked when read."""

import builtins
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from distsvc.errors import OutputPermissionError, TemporaryError
from distsvc.run.work.directory import LostWorkError, Result, RunDirectory
from distsvc.storage.places.arrays import write_array
from tests.small_runs import begin, forget, small_job, three_clusters, write_table, zeroed

FACTS = {"n": 3, "names": ["a", "b"], "limit": 1e-300, "big": 2**200}


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path)


def result(number):
    return Result({"number": number}, {"x": np.full(3, float(number))})


def test_a_written_result_is_read(run):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "keys": np.array([2**64 - 1], np.uint64)}
    run.write("fit", Result(FACTS, arrays, {"rows": np.eye(3, dtype=np.float32)}, rows=7))
    for found in (run.load("fit"), run.read("fit")):
        assert found.facts == FACTS
        assert found.arrays.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found.arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(found.arrays[name], array)
        assert (found.large, found.rows) == ({}, 0)
    mapped = run.map_large("fit", "rows")
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float32
    np.testing.assert_array_equal(mapped, np.eye(3))


def test_an_existing_result_is_not_replaced(run):
    run.write("fit", Result({"n": 1}, {"x": np.zeros(2)}, {"rows": np.zeros(4)}))
    before = {path: path.read_bytes() for path in (Path(run.address) / "results").iterdir()}
    assert len(before) == 2
    assert run.read("fit").facts == {"n": 1}
    run.write("fit", Result({"n": 2}, {"x": np.ones(2)}, {"rows": np.ones(4)}))
    assert {path: path.read_bytes() for path in (Path(run.address) / "results").iterdir()} == before
    assert run.read("fit").facts == run.load("fit").facts == {"n": 1}
    assert not run.map_large("fit", "rows").any()


def test_a_failed_write_leaves_no_result(run):
    large = {"rows": np.zeros(4), "words": np.array(["a", None], object)}
    with pytest.raises(ValueError, match="Object arrays"):
        run.write("fit", Result({"n": 1}, large=large))
    assert not run.has("fit")
    with pytest.raises(LostWorkError, match=r"fit\.npz is missing"):
        run.load("fit")
    run.write("fit", Result({"n": 2}, large={"rows": np.ones(4)}))
    assert run.map_large("fit", "rows").all()


def test_tasks_read_copies_of_results(run):
    facts, arrays = {"names": ["a"]}, {"x": np.zeros(3)}
    run.write("fit", Result(facts, arrays, large={"rows": np.zeros(3)}))
    for mine in (run.load("fit"), run.read("fit")):
        mine.arrays["x"] += 1.0
        mine.facts["names"].append("b")
        mine.arrays["y"] = np.ones(1)
    for again in (run.load("fit"), run.read("fit"), RunDirectory(run.address).read("fit")):
        assert again.facts == {"names": ["a"]}
        assert list(again.arrays) == ["x"]
        assert not again.arrays["x"].any()
    with pytest.raises(ValueError, match="read-only"):
        run.map_large("fit", "rows")[0] = 1.0


def test_a_result_is_read_once_in_a_process(run):
    run.write("fit", result(1))
    first = run.read("fit")
    (Path(run.address) / "results/fit.npz").unlink()
    for again in (run.read("fit"), RunDirectory(run.address).read("fit")):
        assert again.facts == first.facts
        assert again.arrays["x"].tolist() == first.arrays["x"].tolist()
    with pytest.raises(LostWorkError, match="is missing"):
        run.load("fit")


def test_results_with_equal_times_are_distinguished(run, tmp_path):
    other = RunDirectory(tmp_path / "other")
    for number, (folder, name) in enumerate([(run, "a"), (run, "b"), (other, "a")]):
        folder.write(name, result(number))
        os.utime(Path(folder.address) / f"results/{name}.npz", ns=(0, 0))
        folder.read(name)
    found = [run.read("a"), run.read("b"), other.read("a")]
    assert [one.facts["number"] for one in found] == [0, 1, 2]
    assert [one.arrays["x"][0] for one in found] == [0.0, 1.0, 2.0]


def test_the_plan_is_read_once_in_a_process(tmp_path):
    job = small_job(write_table(tmp_path / "t.parquet", three_clusters(100)), {})
    run = begin(job, tmp_path / "run").run
    assert run.plan is RunDirectory(run.address).plan
    (Path(run.address) / "plan.json").unlink()
    assert run.plan.table.n_rows == 100
    forget()
    with pytest.raises(LostWorkError, match=r"plan\.json is missing"):
        _ = run.plan


def of_another_shape(path):
    write_array(path, np.zeros((3, 2)))


def of_another_type(path):
    write_array(path, np.zeros((2, 3), np.float32))


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [of_another_shape, of_another_type, zeroed, cut, flipped])
def test_a_damaged_large_array_is_removed(run, spoil):
    forget()
    large = {"rows": np.ones((2, 3)), "keys": np.zeros(2)}
    run.write("fit", Result(large=large))
    spoil(Path(run.address) / "results/fit.rows.npy")
    assert run.map_large("fit", "keys").shape == (2,)
    with pytest.raises(LostWorkError, match=r"fit\.rows\.npy is damaged: .*; the same command"):
        run.map_large("fit", "rows")
    assert not run.has("fit")
    forget()
    run.write("fit", Result(large=large))
    assert run.map_large("fit", "rows").all()


def placed_before_the_file(path):
    """Let the end of an archive place its directory after the end of the file."""
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\5\6") + 19] ^= 0x40
    path.write_bytes(content)


@pytest.mark.parametrize(
    "spoil", [zeroed, cut, lambda path: path.write_bytes(b""), placed_before_the_file]
)
def test_a_damaged_result_is_removed(run, spoil):
    run.write("fit", result(1))
    spoil(Path(run.address) / "results/fit.npz")
    with pytest.raises(LostWorkError, match=r"fit\.npz is damaged: .*; the same command writes it"):
        run.load("fit")
    assert not run.has("fit")


def test_damaged_results_are_named_and_removed(run):
    forget()
    for number in range(4):
        rows = {"rows": np.full(50, float(number))}
        run.write(f"survey/{number:05d}", Result({"n": number}, {"x": np.ones(40)}, rows))
    run.write("fit", result(1))
    folder = Path(run.address) / "results/survey"
    zeroed(folder / "00001.rows.npy")
    zeroed(folder / "00002.npz")
    (folder / "00003.rows.npy").unlink()
    assert len(run.lost()) == 3
    assert run.names() == ["fit", "survey/00000"]
    assert run.lost() == []


def fails_with(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE])
def test_an_unreachable_file_is_temporary_and_not_lost(run, monkeypatch, number):
    forget()
    run.write("fit", Result({"n": 1}, {"x": np.ones(3)}, {"rows": np.ones(4)}))
    (Path(run.address) / "staging").mkdir()
    (Path(run.address) / "staging/t").write_bytes(b"x")
    reads = [lambda: run.load("fit"), lambda: run.map_large("fit", "rows"), lambda: run.plan]
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "open", fails_with(number))
        patched.setattr(os, "scandir", fails_with(number))
        for read in (*reads, lambda: run.names("")):
            with pytest.raises(TemporaryError) as found:
                read()
            assert not isinstance(found.value, LostWorkError)
            assert ("ulimit -n" in str(found.value)) == (number == errno.EMFILE)
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", fails_with(number))
        for read in (lambda: run.has("fit"), lambda: run.is_planned):
            with pytest.raises(TemporaryError):
                read()
    assert run.load("fit").facts == {"n": 1}
    assert run.map_large("fit", "rows").all()


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ("zipfile.ZipFile", lambda run: run.load("fit")),
        ("numpy.lib.format.read_array", lambda run: run.load("fit")),
        ("numpy.lib.format.open_memmap", lambda run: run.map_large("fit", "rows")),
    ],
)
def test_a_lack_of_memory_removes_no_result(run, monkeypatch, where, read):
    forget()
    run.write("fit", Result({"n": 1}, {"x": np.ones(3)}, {"rows": np.ones(4)}))

    def fail(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(where, fail)
        with pytest.raises(TemporaryError, match="MemoryError"):
            read(run)
    assert run.has("fit")


def test_an_unreadable_file_is_a_permission_error(run, monkeypatch):
    run.write("fit", result(1))
    monkeypatch.setattr(builtins, "open", fails_with(errno.EACCES))
    with pytest.raises(OutputPermissionError, match=r"no permission to read .*fit\.npz"):
        run.load("fit")
    assert run.has("fit")


PLANS = {
    "empty": b"",
    "cut": None,
    "garbled": b"\x00\xff{]",
    "odd": b"[1, 2]",
    "another": b'{"plan": {}, "staged": {}}',
    "deep": b"[" * 9999,
}


@pytest.mark.parametrize("how", PLANS)
def test_a_damaged_plan_is_lost(tmp_path, how):
    job = small_job(write_table(tmp_path / "t.parquet", three_clusters(100)), {})
    run = begin(job, tmp_path / "run").run
    path = Path(run.address) / "plan.json"
    path.write_bytes(path.read_bytes()[:-9] if PLANS[how] is None else PLANS[how])
    forget()
    for read in (lambda: run.plan, run.planned):
        with pytest.raises(LostWorkError, match=r"plan\.json is damaged"):
            read()
