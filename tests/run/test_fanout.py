"""The same outcome from a plain loop and from a cluster, whatever fails."""

import logging
from unittest.mock import Mock

import dask
import pytest
from clusters import loopback_cluster
from distributed import Client, KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from filelock import FileLock

from distsvc.errors import DataError, PartitionFailedError, TemporaryError
from distsvc.run.fanout import IN_FLIGHT, fan_out
from distsvc.run.progress import Meter, Progress, attached


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
    fan_out(client, task, str(folder), numbers, phase)
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


def test_every_number_once(where, tmp_path):
    phase = run(where, rows_of, tmp_path, range(25))
    assert attempts(tmp_path) == dict.fromkeys(range(25), 1)
    assert (phase.total, phase.done, phase.rows) == (25, 25, 10 * sum(range(25)))


def test_no_number(where, tmp_path):
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
    # what was under way is finished, nothing more is begun
    assert max(begun) == 3 if where is None else max(begun) < 99


def fails_once(run_dir: str, number: int) -> int:
    if len(leave_a_mark(run_dir, number)) == 1 and number in (2, 4):
        raise RuntimeError("only the first time")
    return 1


def test_a_failure_is_tried_again_once(where, tmp_path):
    phase = run(where, fails_once, tmp_path, range(6))
    assert attempts(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 2, 5: 1}
    assert (phase.done, phase.rows) == (6, 6)


def always_fails_at_4(run_dir: str, number: int) -> int:
    leave_a_mark(run_dir, number)
    if number == 4:
        raise RuntimeError("broken")
    return 1


def test_a_partition_that_keeps_failing_is_named(where, tmp_path):
    message = "^label: partition 4 failed twice: RuntimeError: broken$"
    with pytest.raises(PartitionFailedError, match=message):
        run(where, always_fails_at_4, tmp_path, range(6))
    assert attempts(tmp_path) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 1}


def test_the_traceback_of_a_failure_is_logged(where, tmp_path):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    with attached(handler), pytest.raises(PartitionFailedError):
        run(where, always_fails_at_4, tmp_path, range(6))
    records = [record for record in records if record.getMessage() == "task failed"]
    assert len(records) == 2
    assert records[0].fields == {"phase": "label", "partition": 4, "error": "RuntimeError: broken"}
    for record in records:
        assert "in always_fails_at_4" in logging.Formatter().formatException(record.exc_info)


def kills_its_worker(run_dir: str, number: int) -> int:
    raise KilledWorker("label-1", Mock(address="tcp://a:1"), 3)


def test_a_killed_worker_hints_at_memory(tmp_path):
    message = "label: partition 7 failed twice: KilledWorker: .* memory does not suffice: raise the"
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


def test_the_window_is_bounded(client, tmp_path):
    class Counting:
        """A client that counts the futures that were submitted and not yet released."""

        cluster, scheduler = client.cluster, client.scheduler
        sync = staticmethod(client.sync)
        submitted = 0

        def submit(self, *args, **kwargs):
            self.submitted += 1
            return client.submit(*args, **kwargs)

    counting, most = Counting(), 0

    class Watching(Meter):
        def finished(self, *outcome):
            nonlocal most
            most = max(most, counting.submitted - self.done)
            super().finished(*outcome)

    phase = Watching(Progress(quiet=True), "label")
    fan_out(counting, rows_of, str(tmp_path), range(40), phase)
    assert phase.done == counting.submitted == 40
    assert most == IN_FLIGHT * 2


def test_results_are_not_kept_on_the_cluster(client, tmp_path):
    run(client, rows_of, tmp_path, range(5))
    client.run_on_scheduler(lambda: None)
    assert not [f for f in client.futures.values() if f.status == "finished"]


def test_workers_report_their_memory(client, tmp_path):
    assert run(client, rows_of, tmp_path, range(2)).worker_peak_mb > 1
    assert run(None, rows_of, tmp_path, range(2)).worker_peak_mb == 0


def test_a_lost_cluster_is_temporary(tmp_path):
    class Lost(Mock):
        def sync(self, *args, **kwargs):
            return {"workers": {"a": {"nthreads": 1, "status": "running"}}}

        def submit(self, *args, **kwargs):
            raise FutureCancelledError("key", "scheduler-connection-lost")

    with pytest.raises(TemporaryError, match=r"the cluster was lost: FutureCancelledError: .*lost"):
        run(Lost(), rows_of, tmp_path, range(2))


def test_a_cluster_that_is_gone_before_a_phase_is_temporary(tmp_path):
    class Gone(Mock):
        def sync(self, *args, **kwargs):
            raise CommClosedError("in <TCP (closed)>: Stream is closed")

    with pytest.raises(TemporaryError, match=r"the cluster was lost: CommClosedError: .*closed"):
        run(Gone(), rows_of, tmp_path, range(2))


def test_a_cluster_without_workers_is_temporary(tmp_path):
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": 0.2}),
        loopback_cluster(0) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(TemporaryError, match="the cluster was lost: NoWorkerError"),
    ):
        run(client, rows_of, tmp_path, range(2))


def test_the_same_task_can_be_done_again(client, tmp_path):
    """A key that was used before would give its old result, or its old error."""
    for _ in range(2):
        run(client, rows_of, tmp_path, range(3))
    assert attempts(tmp_path) == dict.fromkeys(range(3), 2)
