"""A run whose workers are paused, lost or silent ends with the reason."""

from queue import SimpleQueue
from unittest.mock import Mock

import dask
import pytest
from distributed import Client
from distributed.core import Status

from distsvc.errors import TemporaryError
from distsvc.run.work.progress import Meter, Progress
from distsvc.run.work.workers import fanout as watch
from distsvc.run.work.workers.cluster import Patience
from distsvc.run.work.workers.fanout import WorkerWatch, fan_out
from tests.clusters import loopback_cluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(watch, "CLUSTER_PATIENCE", Patience(answer=0.02, work=0.1))


def logged(caplog):
    return [record.fields for record in caplog.records if record.name == "distsvc"]


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


def test_every_change_is_logged_once(caplog):
    caplog.set_level("INFO", "distsvc")
    running, paused = {"a": worker("running")}, {"a": worker("paused")}
    answers = [running, running, paused, paused, running, {}, {}, ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        watch_of(answers).next_of(SimpleQueue())
    events = logged(caplog)
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


def test_paused_workers(tmp_path, caplog):
    caplog.set_level("INFO", "distsvc")
    with (
        dask.config.set({"distributed.worker.memory.pause": False}),
        loopback_cluster(1) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(pause)
        with pytest.raises(TemporaryError, match="all workers are paused for want of memory"):
            label(client, tmp_path)
    events = logged(caplog)
    assert events[-1] == {
        "phase": "label",
        "address": cluster.workers[0].address if cluster.workers else events[-1]["address"],
        "status": "paused",
    }


def test_a_frozen_worker_is_named_and_its_work_moves(monkeypatch, caplog):
    caplog.set_level("INFO", "distsvc")
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
    for _ in range(20):
        clock[0] += 0.03
        looking.look()
    fields = logged(caplog)
    told = [one["address"] for one in fields if one.get("limit")]
    assert retired == ["frozen"]
    assert told[:2] == ["frozen", "frozen"]
