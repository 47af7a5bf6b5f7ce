"""The same outcome from a plain loop and from a cluster, whatever fails."""

import errno
import logging
import pickle
import traceback
from unittest.mock import Mock

import dask
import pytest
from distributed import Client, KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from filelock import FileLock

from distsvc.errors import DataError, PartitionFailedError, TemporaryError
from distsvc.run.work.progress import HERE, Meter, Progress
from distsvc.run.work.workers.fanout import IN_FLIGHT, TaskOutcome, _on_worker, fan_out
from tests.clusters import loopback_cluster


@pytest.fixture(scope="module")
def client():
    """Two workers, as threads of this process, behind a real scheduler."""
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": 2}),
        loopback_cluster(2) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["loop", "cluster"])
def where(request):
    return None if request.param == "loop" else request.getfixturevalue("client")


def run(client, task, folder, numbers) -> Meter:
    phase = Meter(Progress(quiet=True), "label")
    phase.begin(len(numbers))
    phase.numbers = list(fan_out(client, task, str(folder), numbers, phase))
    return phase


def leave_a_mark(run_dir: str, number: int) -> list[str]:
    """Add a line to the number's file and return the lines: one for each attempt."""
    with FileLock(f"{run_dir}/lock"), open(f"{run_dir}/{number}", "a+") as file:
        file.write("x\n")
        file.seek(0)
        return file.read().split()


def attempts(folder) -> dict[int, int]:
    files = [p for p in folder.iterdir() if p.name.isdigit()]
    return {int(p.name): len(p.read_text().split()) for p in files}


def rows_of(run_dir: str, number: int) -> int:
    leave_a_mark(run_dir, number)
    return 10 * number


def test_every_number_is_done_once(where, tmp_path):
    phase = run(where, rows_of, tmp_path, range(25))
    assert attempts(tmp_path) == dict.fromkeys(range(25), 1)
    assert (phase.total, phase.done, phase.rows) == (25, 25, 10 * sum(range(25)))


def test_without_numbers_nothing_is_done(where, tmp_path):
    assert run(where, rows_of, tmp_path, []).done == 0
    assert attempts(tmp_path) == {}


def test_a_loop_goes_in_order(tmp_path):
    seen = []

    def task(run_dir, number):
        seen.append(number)
        return 0

    run(None, task, tmp_path, [3, 1, 2])
    assert seen == [3, 1, 2]


def bad_data_from_3(run_dir: str, number: int) -> int:
    leave_a_mark(run_dir, number)
    if number in (3, 5, 7):
        raise DataError(f"row in partition {number}")
    return 1


def test_the_data_error_of_the_lowest_number_is_raised_without_a_retry(where, tmp_path):
    with pytest.raises(DataError, match=r"^row in partition 3$"):
        run(where, bad_data_from_3, tmp_path, range(100))
    begun = attempts(tmp_path)
    assert begun[3] == 1
    # tasks in flight are finished, and no others start
    assert max(begun) == 3 if where is None else max(begun) < 99


def fails_once(run_dir: str, number: int) -> int:
    if len(leave_a_mark(run_dir, number)) == 1 and number in (2, 4):
        raise RuntimeError("only the first time")
    return 1


def test_a_failed_task_is_repeated_once(where, tmp_path):
    phase = run(where, fails_once, tmp_path, range(6))
    assert attempts(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 2, 5: 1}
    assert (phase.done, phase.rows) == (6, 6)


def always_fails_at_4(run_dir: str, number: int) -> int:
    leave_a_mark(run_dir, number)
    if number == 4:
        raise RuntimeError("broken")
    return 1


def is_away_at_4(run_dir: str, number: int) -> int:
    leave_a_mark(run_dir, number)
    if number == 4:
        raise OSError(errno.ESTALE, "Stale file handle", "t.parquet")
    return 1


def test_a_disk_that_fails_twice_is_temporary(where, tmp_path):
    message = r"^label: partition 4 failed twice: OSError: .*Stale file handle"
    with pytest.raises(TemporaryError, match=message):
        run(where, is_away_at_4, tmp_path, range(6))


def test_a_partition_that_keeps_failing_is_named_and_logged(where, tmp_path, caplog):
    message = "^label: partition 4 failed twice: RuntimeError: broken$"
    with caplog.at_level("INFO", "distsvc"), pytest.raises(PartitionFailedError, match=message):
        run(where, always_fails_at_4, tmp_path, range(6))
    assert attempts(tmp_path) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 1}
    records = [record for record in caplog.records if record.getMessage() == "task failed"]
    assert [record.fields.pop("attempt") for record in records] == [1, 2]
    for record in records:
        worker = record.fields.pop("worker")
        assert worker == HERE if where is None else "://" in worker
        assert record.fields == {"phase": "label", "partition": 4, "error": "RuntimeError: broken"}
        assert "in always_fails_at_4" in logging.Formatter().formatException(record.exc_info)


def kills_its_worker(run_dir: str, number: int) -> int:
    raise KilledWorker("label-1", Mock(address="tcp://a:1"), 3)


def test_a_killed_worker_hints_at_memory(tmp_path):
    message = "label: partition 7 failed twice: KilledWorker: .* too little memory: raise the"
    with pytest.raises(PartitionFailedError, match=message):
        run(None, kills_its_worker, tmp_path, [7])


def bad_data_at_second_sight(run_dir: str, number: int) -> int:
    if number == 1:
        if len(leave_a_mark(run_dir, number)) == 1:
            raise RuntimeError("unclear")
        raise DataError("now it is clear")
    return 1


def test_a_data_error_of_the_second_attempt_is_raised(where, tmp_path):
    with pytest.raises(DataError, match="now it is clear"):
        run(where, bad_data_at_second_sight, tmp_path, range(3))


class Counting:
    """A client that counts its Dask tasks, and the most that were unreleased at a time."""

    def __init__(self, client):
        self.client, self.cluster, self.scheduler = client, client.cluster, client.scheduler
        self.sync = client.sync
        self.submitted = self.released = self.most = 0

    def submit(self, *args, **kwargs):
        future = self.client.submit(*args, **kwargs)
        self.submitted += 1
        self.most = max(self.most, self.submitted - self.released)
        release = future.release

        def counted():
            self.released += 1
            release()

        future.release = counted
        return future


def test_many_small_tasks_are_grouped(client, tmp_path):
    counting = Counting(client)
    phase = run(counting, rows_of, tmp_path, range(400))
    assert sorted(phase.numbers) == list(range(400))
    assert attempts(tmp_path) == dict.fromkeys(range(400), 1)
    assert phase.rows == 10 * sum(range(400))
    assert counting.submitted < 300
    assert counting.most == IN_FLIGHT * 2


class OnAWorker:
    """Stands for a worker in this process."""

    address = "tcp://a:1"


@pytest.fixture
def on_worker(monkeypatch, tmp_path):
    """Call a group's task here; return its outcomes after pickling."""
    monkeypatch.setattr("distributed.get_worker", OnAWorker)

    def call(task, numbers):
        return pickle.loads(pickle.dumps(_on_worker(task, str(tmp_path), numbers, None)))[0]

    return call


def test_a_group_continues_after_a_failure_and_ends_at_bad_data(on_worker):
    def task(run_dir, number):
        if number == 2:
            raise RuntimeError("unclear")
        if number == 4:
            raise DataError("row 5")
        return 10 * number

    outcomes = on_worker(task, [1, 2, 3, 4, 5])
    assert [(o.number, o.rows, o.worker) for o in outcomes] == [
        (1, 10, "tcp://a:1"),
        (2, 0, "tcp://a:1"),
        (3, 30, "tcp://a:1"),
        (4, 0, "tcp://a:1"),
    ]
    assert [repr(o.error) for o in outcomes if o.error] == [
        "RuntimeError('unclear')",
        "DataError('row 5')",
    ]
    assert all(outcome.peak_mb > 1 for outcome in outcomes)


class UnsendableError(Exception):
    """An error that can be pickled, but not unpickled."""

    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def test_an_error_that_can_not_be_sent_is_replaced(on_worker):
    def task(run_dir, number):
        raise UnsendableError("it", "broke")

    [outcome] = on_worker(task, [7])
    assert repr(outcome.error) == "RuntimeError('UnsendableError: it broke')"
    assert "in task" in "".join(traceback.format_exception(outcome.error))


class Killing(Mock):
    """A client whose workers are killed by one number, and do others at once."""

    def sync(self, *args, **kwargs):
        return {"workers": {"a": {"nthreads": 1, "status": "running"}}}

    def submit(self, call, task, run_dir, numbers, *others, **kwargs):
        self.groups.append(numbers)
        future = Mock(add_done_callback=lambda then: then(future))
        killed = KilledWorker("label-1", Mock(address="tcp://a:1"), 3)
        future.exception.return_value = killed if self.number in numbers else None
        future.traceback.return_value = None
        future.result.return_value = [TaskOutcome(n, task(run_dir, n)) for n in numbers], 1e-6
        return future


def test_the_numbers_of_a_lost_worker_are_repeated_one_by_one(tmp_path):
    client = Killing(number=41, groups=[])
    with pytest.raises(PartitionFailedError, match="partition 41 failed twice: KilledWorker"):
        run(client, rows_of, tmp_path, range(60))
    [together] = [group for group in client.groups if 41 in group and len(group) > 1]
    begun = [number for group in client.groups for number in group]
    assert begun[:60] == list(range(60))
    assert begun[60:] == list(range(together[0], 42))


def test_results_are_not_kept_on_the_cluster(client, tmp_path):
    run(client, rows_of, tmp_path, range(5))
    client.run_on_scheduler(lambda: None)
    assert not [f for f in client.futures.values() if f.status == "finished"]


def test_workers_report_their_memory(client, tmp_path):
    assert run(client, rows_of, tmp_path, range(2)).worker_peak_mb > 1
    assert run(None, rows_of, tmp_path, range(2)).worker_peak_mb == 0


ALIVE = [{"workers": {"a": {"nthreads": 1, "status": "running"}}}] * 9
LOST = FutureCancelledError("key", "scheduler-connection-lost")
GONE = CommClosedError("in <TCP (closed)>: Stream is closed")


@pytest.mark.parametrize(
    ("client", "error"),
    [
        (Mock(**{"sync.side_effect": ALIVE, "submit.side_effect": LOST}), "FutureCancelledError"),
        (Mock(**{"sync.side_effect": GONE}), "CommClosedError"),
    ],
)
def test_a_lost_cluster_is_temporary(client, error, tmp_path):
    with pytest.raises(
        TemporaryError,
        match=rf"lost the connection to the Dask scheduler or workers: {error}: .*(lost|closed)",
    ):
        run(client, rows_of, tmp_path, range(2))


def test_a_cluster_without_workers_is_temporary(tmp_path):
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": 0.2}),
        loopback_cluster(0) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(
            TemporaryError,
            match="lost the connection to the Dask scheduler or workers: NoWorkerError",
        ),
    ):
        run(client, rows_of, tmp_path, range(2))


def test_the_same_task_can_be_repeated(client, tmp_path):
    """A reused key would return its old result or error."""
    for _ in range(2):
        run(client, rows_of, tmp_path, range(3))
    assert attempts(tmp_path) == dict.fromkeys(range(3), 2)


def test_a_worker_that_does_not_see_the_input_is_named(tmp_path, monkeypatch):
    from types import SimpleNamespace

    import distributed

    from distsvc.run.work.workers import fanout

    monkeypatch.setattr(distributed, "get_worker", lambda: SimpleNamespace(address="tcp://w:1"))
    table = SimpleNamespace(sources=(str(tmp_path / "t.parquet"),))
    run = SimpleNamespace(address=str(tmp_path), is_planned=True, plan=SimpleNamespace(table=table))
    monkeypatch.setattr(fanout, "RunDirectory", lambda run_dir: run)
    [outcome], _ = fanout._on_worker(None, str(tmp_path), [3], None, True)
    assert isinstance(outcome.error, TemporaryError)
    assert "tcp://w:1 can't see" in str(outcome.error)
    assert str(tmp_path / "t.parquet") in str(outcome.error)
    run.is_planned = False
    [outcome], _ = fanout._on_worker(None, str(tmp_path), [3], None, True)
    assert "plan.json" in str(outcome.error)
