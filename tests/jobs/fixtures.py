"""Fixtures of whole jobs, for every test."""

import pyarrow.parquet as pq
import pytest

from distsvc.run.job import run_job
from distsvc.run.reporting import files as report_files
from distsvc.run.work.phases import Phase
from tests.jobs import level_tree_jobs
from tests.jobs.blob_jobs import blobs, config
from tests.jobs.shop import Shop
from tests.small_runs import Tasks, write_table


@pytest.fixture
def quick_page(monkeypatch):
    """Drawing the page takes longer than all the rest."""
    monkeypatch.setattr(report_files, "page_of", lambda _: "a page")


@pytest.fixture
def no_signals(monkeypatch):
    """Commands leave this process's signals alone."""
    monkeypatch.setattr("signal.signal", lambda *_: None)


@pytest.fixture
def tasks(monkeypatch):
    """Return the tasks that are done from now on."""
    do, done = Phase.do, Tasks()

    def counted(self, run_dir, number):
        if len(done) == done.most:
            raise done.error
        done.append(self.result(number))
        return do(self, run_dir, number)

    monkeypatch.setattr(Phase, "do", counted)
    return done


@pytest.fixture(scope="session")
def blob_table(tmp_path_factory):
    """The blobs as Parquet, in row groups of 100."""
    path = tmp_path_factory.mktemp("data") / "blobs.parquet"
    pq.write_table(blobs(), path, row_group_size=100)
    return path


@pytest.fixture(scope="session")
def blob_run(blob_table, tmp_path_factory):
    """One run with a real page, done in this process, that tests may read and not change."""
    out = tmp_path_factory.mktemp("out") / "run"
    return out, run_job(config(blob_table, out, input={"label": "class"}), command="distsvc run x")


@pytest.fixture(scope="session")
def flat(tmp_path_factory):
    """A table of two columns for level trees."""
    X, _ = level_tree_jobs.blobs(2)
    return write_table(tmp_path_factory.mktemp("data") / "flat.parquet", X)


@pytest.fixture
def shop(tmp_path):
    """A folder of tables by date, and what is published."""
    return Shop(tmp_path)
