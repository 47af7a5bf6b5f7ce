"""Checkpoints: the last one is kept, and unusable ones are skipped."""

from pathlib import Path

import numpy as np
import pytest

from distsvc.errors import DataError
from distsvc.run.work import phases
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, TaskCheckpoints
from tests.small_runs import forget

FOLDER = "checkpoints/learn/00003"


class Stopped(BaseException):
    """The process is killed."""


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(phases, "CHECKPOINT_SECONDS", 0.0)


@pytest.fixture
def run(tmp_path):
    forget()
    return RunDirectory(tmp_path / "run")


def state(n):
    return {"n": n}, {"w": np.arange(n)}


def value(facts, arrays):
    """Restore what `state` returned."""
    if facts["n"] != len(arrays["w"]):
        raise DataError("array w: of another length")
    return facts["n"]


def checkpoint(run, name="learn/00003"):
    return TaskCheckpoints(run, name)


def told(caplog):
    return [(record.getMessage(), record.fields["checkpoint"]) for record in caplog.records]


@pytest.mark.usefixtures("always")
def test_only_the_last_checkpoint_is_kept(run):
    for steps in (5, 12, 100):
        checkpoint(run).keep(steps, lambda steps=steps: state(steps))
    assert run.names(FOLDER) == [f"{FOLDER}/000000000100"]
    assert checkpoint(run).last(value) == 100
    assert checkpoint(run, "learn/00004").last(value) is None


def test_checkpoints_are_written_after_their_interval(run, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(phases.time, "monotonic", lambda: now[0])
    kept, made = checkpoint(run), []

    def make():
        made.append(now[0])
        return state(3)

    for seconds in (0, 44, 45, 46, 89, 90, 91):
        now[0] = 1000.0 + seconds
        kept.keep(seconds, make)
    assert made == [1045.0, 1090.0]
    assert run.names(FOLDER) == [f"{FOLDER}/000000000090"]


def damaged(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-40])


def written(path, run, n):
    facts = {"of": {"run": run, "checkpoint": f"{FOLDER}/000000000009"}, "state": {"n": n}}
    path.unlink()
    result = Result(facts, {"w": np.arange(9)})
    RunDirectory(path.parents[4]).write(f"{FOLDER}/000000000009", result)


def of_another_run(path):
    forget()
    written(path, "other", 9)


def of_other_steps(path):
    path.write_bytes((path.parent / "000000000005.npz").read_bytes())


def of_another_form(path):
    written(path, "run", 8)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("with_one_before", [True, False])
@pytest.mark.parametrize(
    "spoil", [damaged, truncated, of_another_run, of_other_steps, of_another_form]
)
def test_an_unusable_checkpoint_is_skipped_and_replaced(run, caplog, spoil, with_one_before):
    last = Path(run.address) / f"results/{FOLDER}/000000000009.npz"
    checkpoint(run).keep(9, lambda: state(9))
    checkpoint(run).keep(5, lambda: state(5))
    spoil(last)
    if not with_one_before:
        run.remove(f"{FOLDER}/000000000005")
    with caplog.at_level("INFO", "distsvc"):
        assert checkpoint(run).last(value) == (5 if with_one_before else None)
    went_on = [("went on", f"{FOLDER}/000000000005")] if with_one_before else []
    assert told(caplog) == [("checkpoint passed over", f"{FOLDER}/000000000009"), *went_on]
    checkpoint(run).keep(9, lambda: state(9))
    assert checkpoint(run).last(value) == 9


@pytest.mark.usefixtures("always")
def test_a_slower_process_does_not_replace_a_later_checkpoint(run):
    slow, fast = checkpoint(run), checkpoint(run)
    slow.keep(5, lambda: state(5))
    fast.keep(12, lambda: state(12))
    slow.keep(7, lambda: state(7))
    assert checkpoint(run).last(value) == 12


def count_to_20(run, number, kept):
    begun = kept.last(value) or 0
    for n in range(begun + 1, 21):
        kept.keep(n, lambda n=n: state(n))
        if n == 10 and begun == 0:
            raise Stopped
    return Result({"begun": begun})


@pytest.mark.usefixtures("always")
def test_checkpoints_are_removed_with_the_result(run):
    learn = Phase("learn", count_to_20, sequential=True)
    with pytest.raises(Stopped):
        learn.do(run.address, 3)
    assert run.names(FOLDER) == [f"{FOLDER}/000000000010"]
    assert not run.has("learn/00003")
    learn.do(run.address, 3)
    assert run.load("learn/00003").facts == {"begun": 10}
    assert run.names(FOLDER) == []
