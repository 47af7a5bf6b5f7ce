"""Folders have only published files; a holder that lost the lease changes nothing."""

import json
import os
import stat
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from unittest import mock

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from distsvc.errors import TemporaryError
from distsvc.published.run import load
from distsvc.run.job import run_job
from distsvc.run.work.start import Start
from distsvc.storage.places import folder, lease
from distsvc.storage.publishing.publication import Output, collect
from tests.published_files import listed, read_labels
from tests.small_runs import MODELS, small_job, three_clusters, write_table
from tests.storage.written_runs import digest_of, name_of, run, seen, work_of, write_run


def test_a_glob_reads_the_published_rows_once(tmp_path):
    table = write_table(tmp_path / "t.parquet", three_clusters(600))
    nights, runs = ("2026-11-01", "2026-11-02"), {}
    for night in nights:
        output = {"output": {"path": str(tmp_path / "out" / night)}}
        first = small_job(table, MODELS["sampled"], **output)
        run_job(first)
        runs[night] = load(str(tmp_path / "out" / night))
        scaled = small_job(table, MODELS["sampled"], preprocess={"scale": "none"}, **output)
        run_job(scaled, start=Start(overwrite=True))
        held = small_job(table, MODELS["sampled"], checks={"min_rows": 10**6}, **output)
        with pytest.raises(Exception, match="is held back"):
            run_job(held, start=Start(overwrite=True))
    rows = sorted(
        row for night in nights for row in read_labels(tmp_path / "out" / night)["row"].to_pylist()
    )
    assert len(rows) == 1200
    pattern = str(tmp_path / "out/*/labels/*/*.parquet")
    assert sorted(pl.read_parquet(pattern)["row"].to_list()) == rows
    for globbed in (pattern, str(tmp_path / "out/*/labels/**/*.parquet")):
        count = duckdb.connect().sql(f"SELECT count(*) FROM read_parquet('{globbed}')").fetchall()
        assert count == [(1200,)]
        assert pl.scan_parquet(globbed).select(pl.len()).collect().item() == 1200
    for night in nights:
        folder_of = tmp_path / "out" / night / "labels"
        assert ds.dataset(folder_of).count_rows() == pq.read_table(folder_of).num_rows == 600
        old = runs[night]
        assert old.labels().num_rows == 600, "a reader of the replaced run lost its files"
        assert isinstance(pl.read_parquet(old.files), pl.DataFrame)
        collect(str(tmp_path / "out" / night))
        assert not (tmp_path / "out" / night / ".runs/replaced").exists()


def test_work_is_private_and_published_files_are_not(tmp_path):
    table = write_table(tmp_path / "t.parquet", three_clusters(600))
    run_job(small_job(table, MODELS["sampled"]))
    assert stat.S_IMODE((tmp_path / "out/.runs").stat().st_mode) == 0o700
    for path in listed(tmp_path / "out"):
        assert path.stat().st_mode & stat.S_IROTH
    output = Output(tmp_path / "elsewhere")
    with output.locked():
        work = output.new_work("ab" * 32, str(tmp_path / "work"))
        assert stat.S_IMODE(os.stat(work.address).st_mode) == 0o700


def test_files_that_can_not_have_two_names_are_copied(tmp_path, monkeypatch):
    def refused(*_args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    run(tmp_path / "out", "a")
    assert seen(tmp_path / "out") == "a"


ON_DISK = ("replace", "rename", "unlink", "rmdir", "mkdir", "link", "open")
"""The functions of `os` that change files; `open` only for writing."""


class NoLock:
    """A lock without effect."""

    def __init__(self, *_args, **_options):
        pass

    def acquire(self):
        return None

    def release(self):
        return None


@contextmanager
def paused(under, at, meanwhile):
    """Call `meanwhile` before change number `at` of the files below a path.

    Yields a list, to which the name of that change is added.
    """
    changes, found, counting = [], [], threading.Lock()

    def disturbed(name, real):
        def change(*args, **kwargs):
            with counting:  # files are written to the disk by several threads
                writes = name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR)
                if writes and any(str(under) in str(one) for one in args):
                    changes.append(name)
                is_now = len(changes) == at + 1 and not found
                found.extend([name] * is_now)
            if is_now:
                meanwhile()
            return real(*args, **kwargs)

        return change

    with ExitStack() as stack:
        for name in ON_DISK:
            changed = disturbed(name, getattr(os, name))
            stack.enter_context(mock.patch.object(os, name, changed))
        yield found


@pytest.fixture
def apart(monkeypatch):
    """Locks have no effect, and every previous holder counts as gone."""
    monkeypatch.setattr(folder, "FileLock", NoLock)
    monkeypatch.setattr(lease, "is_gone", lambda holder: True)
    monkeypatch.setattr(lease, "TIMES", lease.LeaseTimes(beat=1e6))


def test_a_holder_that_wakes_up_before_its_swap_replaces_nothing(tmp_path, apart):
    out = tmp_path / "out"
    replaced = paused(out / "manifest.json", 0, lambda: run(out, "b"))
    with replaced as kinds, pytest.raises(TemporaryError, match="over"):
        run(out, "a")
    assert kinds == ["replace"]
    assert seen(out) == "b"
    manifest = json.loads((out / "manifest.json").read_text())
    assert sorted(os.listdir(out / "labels")) == [manifest["run_id"]]


def test_gc_that_wakes_up_removes_nothing_that_was_published_meanwhile(tmp_path, apart):
    out = tmp_path / "out"
    for mark in ("a", "b"):
        run(out, mark)
    found = set()
    for at in range(0, 60, 6):
        with paused(out, at, lambda: run(out, "c")) as kinds, suppress(TemporaryError):
            collect(str(out))
        found.update(kinds)
        assert seen(out) == "c" or not kinds
        run(out, "b")
    assert len(found) > 2


def test_a_lease_that_was_not_renewed_for_long_is_renewed_before_a_change(tmp_path, monkeypatch):
    output, now = Output(tmp_path / "out"), time.monotonic()
    with output.locked(), work_of(output, digest_of("a")) as work:
        manifest = write_run(output, name_of(work), "a")
        output.check_free(digest_of("a"), overwrite=True)
        beat = output._lease.record.beat
        monkeypatch.setattr(lease.time, "monotonic", lambda: now + lease.TIMES.silence + 60)
        output.publish(manifest)
        assert output._lease.record.beat == beat + 1
        holder = tmp_path / "out/.runs/holder.json"
        holder.write_text('{"host": "elsewhere"}')
        monkeypatch.setattr(lease.time, "monotonic", lambda: now + 3 * lease.TIMES.silence + 60)
        with pytest.raises(TemporaryError, match="another run took"):
            output.store.put("report.html", b"old")
    assert json.loads(holder.read_text()) == {"host": "elsewhere"}
