"""A few runs that get a signal at some moment; `signal_runs` does many."""

import signal
import sys

import pytest

from tests.jobs.signal_runs import Kind, disturbed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def interruptible():
    """Children must not ignore SIGINT, which a process started in the background may do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("name", "workers", "cold", "algorithm", "moment"),
    [
        ("SIGINT", 0, False, "imdh", 1.5),
        ("SIGTERM", 0, True, "support-vector", 2.5),
        ("SIGINT", 2, True, "imdh", 3.0),
        ("SIGTERM", 2, False, "linear-svdd", 1.5),
    ],
)
def test_a_run_ends(warm, name, workers, cold, algorithm, moment):
    kind = Kind(signal.Signals[name], workers, cold, algorithm)
    outcome = disturbed(kind, moment, warm)
    assert outcome.wrong == []
    assert abs(outcome.code) in (kind.number, 128 + kind.number)
