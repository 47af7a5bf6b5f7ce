"""A run whose workers are paused, lost or silent ends with the reason."""

import logging
from contextlib import contextmanager
from queue import SimpleQueue
from unittest.mock import Mock

import dask
import pytest
from distributed import Client
from distributed.core import Status

from distsvc.errors import TemporaryError
from distsvc.run.work.progress import Meter, Progress, attach
from distsvc.run.work.workers import fanout as watch
from distsvc.run.work.workers.cluster import Patience
from distsvc.run.work.workers.fanout import WorkerWatch, fan_out
from tests.clusters import loopback_cluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(watch, "CLUSTER_PATIENCE", Patience(answer=0.02, work=0.1))


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.fields = []

    def emit(self, record):
        self.fields.append(record.fields)


@contextmanager
def heard():
    records = Records()
    with attach(records):
        yield records.fields


def worker(status, memory=0):
    metrics = {"memory": memory}
    return {"status": status, "nthreads": 1, "metrics": metrics, "memory_limit": 400e6}


def watch_of(answers):
    """Watch a scheduler that gives the answers in order, and then repeats the last one."""
    answers = list(answers)

    def sync(*args, **kwargs):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"workers": answer}

    return WorkerWatch(Mock(sync=sync), Meter(Progress(quiet=True), "label"))


@pytest.mark.parametrize(
    ("answer", "matter"),
    [
        (
            {"a": worker("paused", 330e6), "b": worker("paused", 100e6)},
            "all workers are paused for want of memory at 82% of their limit of 400 MB: raise",
        ),
        ({}, "all workers are gone"),
        ({"a": worker("closing")}, "all workers are gone"),
        (TimeoutError(), "the scheduler does not answer"),
    ],
)
def test_a_run_ends_if_no_worker_runs(answer, matter):
    with pytest.raises(TemporaryError, match=rf"^label: no work for \d+ s: {matter}"):
        watch_of([answer]).next_of(SimpleQueue())


def test_a_run_continues_if_a_worker_runs():
    answers = [{}, {"a": worker("running")}, TimeoutError(), {"a": worker("running")}] * 20
    with pytest.raises(TemporaryError):
        watch_of([*answers, {}]).next_of(SimpleQueue())
    looks = [{"a": worker("paused"), "b": worker("running")}] * 20
    seen = watch_of([*looks, ZeroDivisionError()])
    with pytest.raises(ZeroDivisionError):
        seen.next_of(SimpleQueue())


def test_a_finished_task_is_returned_at_once():
    done = SimpleQueue()
    done.put(3)
    assert watch_of([{}]).next_of(done) == 3


def test_every_change_is_logged_once():
    running, paused = {"a": worker("running")}, {"a": worker("paused")}
    answers = [running, running, paused, paused, running, {}, {}, ZeroDivisionError()]
    with heard() as events, pytest.raises(ZeroDivisionError):
        watch_of(answers).next_of(SimpleQueue())
    assert [event["status"] for event in events] == ["paused", "running", "lost"]
    assert {(event["phase"], event["address"]) for event in events} == {("label", "a")}


def nothing(run_dir: str, number: int) -> int:
    return 1


def label(client, folder):
    list(fan_out(client, nothing, str(folder), range(3), Meter(Progress(quiet=True), "label")))


def test_no_workers_and_dasks_own_settings(tmp_path):
    """By default a Dask scheduler waits for workers for ever."""
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": None}),
        loopback_cluster(0) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(TemporaryError, match="all workers are gone"),
    ):
        label(client, tmp_path)


def pause(dask_worker):
    dask_worker.status = Status.paused


def test_paused_workers(tmp_path):
    with (
        dask.config.set({"distributed.worker.memory.pause": False}),
        loopback_cluster(1) as cluster,
        Client(cluster, set_as_default=False) as client,
        heard() as events,
    ):
        client.run(pause)
        with pytest.raises(TemporaryError, match="all workers are paused for want of memory"):
            label(client, tmp_path)
    assert events[-1] == {
        "phase": "label",
        "address": cluster.workers[0].address if cluster.workers else events[-1]["address"],
        "status": "paused",
    }


def test_a_frozen_worker_is_named_and_its_work_moves(monkeypatch):
    patience = Patience(answer=0.02, contact=0.05, work=0.1, heartbeat=0.3)
    monkeypatch.setattr(watch, "CLUSTER_PATIENCE", patience)
    clock, beats = [0.0], [0.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    retired = []

    def sync(call, *args, **kwargs):
        if "workers" in kwargs:
            retired.extend(kwargs["workers"])
            return {}
        beats[0] += 1.0
        alive = worker("running") | {"last_seen": beats[0]}
        return {"workers": {"frozen": worker("running") | {"last_seen": 1.0}, "alive": alive}}

    looking = WorkerWatch(Mock(sync=sync), Meter(Progress(quiet=True), "label"))
    with heard() as fields:
        for _ in range(20):
            clock[0] += 0.03
            looking.look()
    told = [one["address"] for one in fields if one.get("limit")]
    assert retired == ["frozen"]
    assert told[:2] == ["frozen", "frozen"]
