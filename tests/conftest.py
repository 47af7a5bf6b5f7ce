"""For every test: fixtures of whole jobs, one thread for small fits, logs that can be read."""

import os
import warnings

import pytest

# As on workers. Threads of small fits wait for each other, longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Events of commands are read by tests.
os.environ["DISTSVC_LOG_FORMAT"] = "json"

pytest_plugins = ["tests.jobs.fixtures"]


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    """Thousands of runs are published here; none has to survive a loss of power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def mlflow_store(tmp_path, monkeypatch):
    """Return the folder of a store of MLflow's; nothing leaves this machine."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings():  # of its own, while it is imported
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow")
        pytest.importorskip("mlflow.pyfunc")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield tmp_path / "store"
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)
