"""A learner that was stopped goes on from its last checkpoint, and ends in the same bytes."""

from pathlib import Path

import numpy as np
import pytest

from distsvc.errors import DataError
from distsvc.models.hyperplanes.tree import GrowingTree
from distsvc.models.rows import sampling
from distsvc.models.support_vector.boundary import training
from distsvc.models.support_vector.boundary.stochastic_gradient import StochasticGradient
from distsvc.run.work import phases
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps, TaskCheckpoints
from distsvc.run.work.progress import Progress
from tests.small_runs import MODELS, digests, fit, forget, small_job, three_clusters, write_table

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


# --- one checkpoint


@pytest.mark.usefixtures("always")
def test_the_last_state_is_returned_and_alone_kept(run):
    for steps in (5, 12, 100):
        checkpoint(run).keep(steps, lambda steps=steps: state(steps))
    assert run.names(FOLDER) == [f"{FOLDER}/000000000100"]
    assert checkpoint(run).last(value) == 100
    assert checkpoint(run, "learn/00004").last(value) is None


def test_nothing_is_written_before_its_time(run, monkeypatch):
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


def of_another_run(path):
    forget()
    facts = {"of": {"run": "other", "checkpoint": f"{FOLDER}/000000000009"}, "state": {"n": 9}}
    path.unlink()
    RunDirectory(path.parents[4]).write(
        f"{FOLDER}/000000000009", Result(facts, {"w": np.arange(9)})
    )


def of_other_steps(path):
    path.write_bytes((path.parent / "000000000005.npz").read_bytes())


def of_another_form(path):
    facts = {"of": {"run": "run", "checkpoint": f"{FOLDER}/000000000009"}, "state": {"n": 8}}
    path.unlink()
    RunDirectory(path.parents[4]).write(
        f"{FOLDER}/000000000009", Result(facts, {"w": np.arange(9)})
    )


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("with_one_before", [True, False])
@pytest.mark.parametrize(
    "spoil", [damaged, truncated, of_another_run, of_other_steps, of_another_form]
)
def test_what_is_not_usable_is_passed_over_and_written_anew(run, caplog, spoil, with_one_before):
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
def test_a_slower_twin_does_not_take_the_place_of_a_faster_one(run):
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
def test_checkpoints_go_when_the_result_is_there(run):
    learn = Phase("learn", count_to_20, sequential=True)
    with pytest.raises(Stopped):
        learn.do(run.address, 3)
    assert run.names(FOLDER) == [f"{FOLDER}/000000000010"]
    assert not run.has("learn/00003")
    learn.do(run.address, 3)
    assert run.load("learn/00003").facts == {"begun": 10}
    assert run.names(FOLDER) == []


@pytest.mark.usefixtures("always")
def test_a_step_of_the_driver_goes_on(run):
    steps = Steps(run, None, Progress(quiet=True))
    with pytest.raises(Stopped):
        steps.work_out("train", lambda kept: count_to_20(run, 0, kept))
    assert steps.work_out("train", lambda kept: count_to_20(run, 0, kept)).facts == {"begun": 10}
    assert run.names("checkpoints/train") == []


# --- learners in jobs


N = 200
JOBS = {
    "merge": {"gamma": 1.0, "nu": 0.1, "max_iter": 450, "budget": 20},
    "project": MODELS["boundary"] | {"maintenance": "project-random", "max_iter": 350},
    "average": {"gamma": 1.0, "nu": 0.1, "solver": "sgd", "iterate": "average", "max_iter": 350},
    "step norm": {"gamma": 1.0, "C": 20.0, "max_iter": 350, "budget": 30}
    | {"stopping": "step-norm", "theta": 1e-9},
    "hyperplanes": {"algorithm": "imdh", "depth": 3, "n_init": 1, "passes": 1},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("data") / "t.parquet", three_clusters(N))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of about 64 rows, J measured every 50 steps."""
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 64)
    monkeypatch.setattr(training, "CHECK_STEPS", 50)


class Watched:
    """Counts the rows that learners are fed and the states that they offer; stops at one."""

    def __init__(self, monkeypatch):
        self.begin()
        for of, name in ((StochasticGradient, "feed"), (GrowingTree, "learn")):
            self._count(monkeypatch, of, name)
        self._count(monkeypatch, GrowingTree, "count")
        keep = TaskCheckpoints.keep

        def watched(checkpoint, steps, make):
            keep(checkpoint, steps, make)
            self.kept += 1
            self.names.append(checkpoint._folder.removeprefix("checkpoints/"))
            if self.kept == self.stop_at:
                raise Stopped

        monkeypatch.setattr(TaskCheckpoints, "keep", watched)

    def _count(self, monkeypatch, of, name):
        method = getattr(of, name)

        def counted(learner, X, *more):
            self.rows += len(X)
            return method(learner, X, *more)

        monkeypatch.setattr(of, name, counted)

    def begin(self, stop_at=None):
        self.rows, self.kept, self.names, self.stop_at = 0, 0, [], stop_at


@pytest.mark.usefixtures("always", "small_blocks")
@pytest.mark.parametrize("name", JOBS)
def test_a_learner_goes_on_and_feeds_no_row_twice(name, table, tmp_path, monkeypatch):
    job, seen = small_job(table, JOBS[name]), Watched(monkeypatch)
    fit(job, tmp_path / "whole")
    files, rows, kept = digests(tmp_path / "whole"), seen.rows, seen.kept
    assert kept >= 3
    for k in range(1, kept + 1, max(kept // 3, 1)):
        folder = tmp_path / str(k) / "whole"
        folder.parent.mkdir()
        seen.begin(stop_at=k)
        with pytest.raises(Stopped):
            fit(job, folder)
        fed, seen.stop_at = seen.rows, None
        fit(job, folder)
        assert fed <= rows
        assert fed > 0
        assert seen.rows == rows
        assert seen.kept == kept
        assert digests(folder) == files
