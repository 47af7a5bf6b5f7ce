"""A phase does its missing numbers, and names lost results."""

import functools
import pickle
from pathlib import Path

import numpy as np
import pytest

from distsvc.errors import TemporaryError
from distsvc.job.config import ClusterConfig
from distsvc.run.work.directory import LostWorkError, Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps, in_order, steps_on
from distsvc.run.work.progress import Progress
from tests.small_runs import begin, forget, small_job, three_clusters, write_table


@pytest.fixture
def steps(tmp_path):
    forget()
    return Steps(RunDirectory(tmp_path), None, Progress(quiet=True))


def mark(run: RunDirectory, number: int) -> list[str]:
    """Add a line to a file and return all its lines: the numbers done so far."""
    with open(Path(run.address) / "done", "a+") as file:
        file.write(f"{number}\n")
        file.seek(0)
        return file.read().split()


def done(steps) -> list[int]:
    """Return the numbers done since the last call, in order."""
    path = Path(steps.run.address) / "done"
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return [int(line) for line in lines]


def square(run, number):
    mark(run, number)
    return Result({"number": number}, {"square": np.array([number**2])}, rows=10 * number)


def power(run, number, *, exponent):
    return Result({"power": number**exponent})


SQUARE = Phase("square", square)


def test_a_result_is_read_before_later_ones_are_computed(steps):
    results = steps.map(SQUARE, 4)
    assert done(steps) == []
    for number in range(4):
        result = next(results)
        assert (result.facts, result.arrays["square"].tolist()) == ({"number": number}, [number**2])
        assert done(steps) == [number]
    assert steps.progress.phases == []
    assert list(results) == []
    assert [(cost.name, cost.rows) for cost in steps.progress.phases] == [("square", 60)]
    assert list(steps.map(Phase("none", square), 0)) == []


@pytest.mark.parametrize(
    ("missing", "finished", "ready"),
    [
        ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [[0], [1], [2], [3], [4]]),
        ([0, 1, 2, 3, 4], [4, 1, 0, 3, 2], [[], [], [0, 1], [], [2, 3, 4]]),
        ([0, 1, 2, 3, 4], [1, 2, 3, 4, 0], [[], [], [], [], [0, 1, 2, 3, 4]]),
        ([1, 3], [3, 1], [[0], [1, 2, 3, 4]]),
        ([3], [3], [[0, 1, 2, 3, 4]]),
        ([], [], [[0, 1, 2, 3, 4]]),
    ],
)
def test_numbers_are_yielded_in_order_as_soon_as_possible(missing, finished, ready):
    asked = iter(finished)
    told = [[] for _ in ready]

    def going_on():
        for place, number in enumerate(asked):
            going_on.place = place
            yield number

    going_on.place = 0
    for number in in_order(5, missing, going_on()):
        told[going_on.place].append(number)
    assert told == ready


def test_existing_results_are_logged_and_not_repeated(steps, caplog):
    steps.do(SQUARE, 3)
    with caplog.at_level("INFO", "distsvc"):
        steps.do(SQUARE, 5)
    records = caplog.records
    assert [record.getMessage() for record in records] == ["resumed", "phase finished"]
    assert records[0].fields == {"phase": "square", "done_before": 3, "total": 5}
    assert done(steps) == [0, 1, 2, 3, 4]


def test_only_missing_numbers_are_done(steps):
    steps.do(SQUARE, 6)
    before = [result.facts for result in steps.map(SQUARE, 6)]
    assert done(steps) == [0, 1, 2, 3, 4, 5]
    for number in (4, 1):
        (Path(steps.run.address) / f"results/{SQUARE.result(number)}.npz").unlink()
    again = Steps(RunDirectory(steps.run.address), None, Progress(quiet=True))
    assert [result.facts for result in again.map(SQUARE, 6)] == before
    assert done(steps) == [1, 4]
    [cost] = again.progress.phases
    assert (cost.name, cost.rows) == ("square", 50)
    assert len(list(again.map(SQUARE, 8))) == 8
    assert done(steps) == [6, 7]


@pytest.mark.parametrize(
    ("n", "named"),
    [
        (3, "0, 1, 2"),
        (10, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        (13, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"),
    ],
)
def test_results_that_the_store_lost_are_named(steps, monkeypatch, n, named):
    steps.do(SQUARE, 20)
    folder = Path(steps.run.address) / "results/square"
    for number in range(n):
        (folder / f"{number:05d}.npz").unlink()
    monkeypatch.setattr(RunDirectory, "write", lambda self, name, result: None)
    message = f"^square: results {named} are missing from {folder.parents[1]}; run the same"
    with pytest.raises(TemporaryError, match=message):
        steps.do(SQUARE, 20)
    with pytest.raises(LostWorkError, match=f"^{folder}/00000.npz is missing"):
        next(steps.map(SQUARE, 20))


@pytest.mark.parametrize(
    "phase", [SQUARE, Phase("cube", functools.partial(power, exponent=3))], ids=["plain", "bound"]
)
def test_a_phase_can_be_sent_to_a_worker(steps, phase):
    here, there = Path(steps.run.address) / "here", Path(steps.run.address) / "there"
    for folder, do in ((here, phase.do), (there, pickle.loads(pickle.dumps(phase.do)))):
        folder.mkdir()
        do(str(folder), 3)
    found = RunDirectory(there).load(phase.result(3))
    assert found.facts == RunDirectory(here).load(phase.result(3)).facts
    assert found.arrays == RunDirectory(here).load(phase.result(3)).arrays


def test_a_step_of_the_driver_is_done_once(steps):
    calls = []

    def train(answer):
        calls.append(answer)
        return Result({"answer": answer}, {"w": np.array([answer])}, rows=12)

    first = steps.work_out("train", functools.partial(train, 42))
    again = steps.work_out("train", functools.partial(train, 43))
    forget()
    other = Steps(RunDirectory(steps.run.address), None, Progress(quiet=True))
    later = other.work_out("train", functools.partial(train, 44))
    assert calls == [42]
    for result in (first, again, later):
        assert result.facts == {"answer": 42}
        assert result.arrays["w"].tolist() == [42]
    assert [(cost.name, cost.rows) for cost in steps.progress.phases] == [("train", 12)]
    assert other.progress.phases == []


def test_a_phase_is_done_for_every_partition_of_the_plan(tmp_path):
    job = small_job(write_table(tmp_path / "t.parquet", three_clusters(900)), {})
    run = begin(job, tmp_path / "run").run
    with steps_on(run, Progress(quiet=True), ClusterConfig(workers=0)) as steps:
        assert steps.client is None
        assert steps.n_partitions == len(run.plan.partitions) == 3
        assert [result.facts["number"] for result in steps.map(SQUARE)] == [0, 1, 2]
