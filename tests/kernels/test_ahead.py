import os
import sys
import threading
import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from distsvc.kernels import ahead, jit

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1" or not hasattr(os, "getuid"),
    reason="nothing is compiled, or nothing is locked",
)


def new_kernel(name, folder, monkeypatch):
    """Return a kernel as a new process has it, from a module of its own."""
    (folder.parent / f"{name}.py").write_text("def twice(x):\n    return 2.0 * x.sum()\n")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return jit.kernel(__import__(name).twice)


TYPES = ahead.signature("f8:1")


def test_a_process_waits_for_the_form_that_another_compiles(folder, monkeypatch):
    first, second = (new_kernel("waits", folder, monkeypatch) for _ in range(2))
    assert first._cache.try_claim()
    assert not jit.try_compile(second, TYPES)
    results = []
    thread = threading.Thread(target=lambda: results.append(second(np.ones(3))))
    thread.start()
    time.sleep(3 * jit.POLL_SECONDS)
    assert not results
    first._cache.end()  # as if the other process had died
    thread.join(30)
    assert results == [6.0]
    assert sum(second.stats.cache_misses.values()) == 1
    assert list(folder.rglob("*.lock")) == []
    assert first(np.ones(3)) == 6.0
    assert sum(first.stats.cache_hits.values()) == 1


def test_a_waiting_process_compiles_another_kernel(folder, monkeypatch):
    awaited, other = (new_kernel(name, folder, monkeypatch) for name in ("awaited", "other"))
    holder = new_kernel("awaited", folder, monkeypatch)
    assert holder._cache.try_claim()
    left = [other]

    def compile_other():
        if not left:
            holder._cache.end()
            return False
        return jit.try_compile(left.pop(), TYPES)

    jit.set_helpers(compile_other=compile_other)
    try:
        assert awaited(np.ones(3)) == 6.0
    finally:
        jit.set_helpers()
    assert not jit.is_missing(other)


def test_compiling_inside_a_miss_counts_once(folder, monkeypatch):
    outer, inner = (new_kernel(name, folder, monkeypatch) for name in ("outer", "inner"))
    left, before, ticks = [inner], jit.compile_seconds(), count()
    monkeypatch.setattr(jit.time, "perf_counter", lambda: float(next(ticks)))
    jit.set_helpers(on_miss=lambda: left and left.pop()(np.ones(3)))
    try:
        assert outer(np.ones(3)) == 6.0
    finally:
        jit.set_helpers()
    assert jit.compile_seconds() - before == next(ticks) - 1


def test_a_form_that_does_not_compile_is_left_to_its_call(folder, monkeypatch):
    kernel = new_kernel("fails", folder, monkeypatch)
    assert jit.try_compile(kernel, ahead.signature("f8"))  # a number has no sum
    assert list(folder.rglob("*.lock")) == []
    assert kernel(np.ones(3)) == 6.0


def test_helpers_fill_the_cache_and_end_with_the_block(tmp_path, monkeypatch):
    cache = tmp_path / "new"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    helpers = ahead.Helpers(1)
    helpers.start()
    try:
        deadline = time.monotonic() + 60
        while not list(cache.rglob("*.nbc")) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        helpers.stop()
    assert [Path(path).name.partition("-")[0] for path in cache.rglob("*.nbc")][:1] == [
        next(iter(ahead.FORMS))
    ]
    assert all(process.poll() is not None for process in helpers._processes)


def test_no_process_is_started_on_a_full_cache_or_one_core(monkeypatch):
    started = []
    monkeypatch.setattr(ahead.Helpers, "start", lambda self: started.append(self))
    monkeypatch.setattr(ahead, "_cores", lambda: 2)
    monkeypatch.setattr(jit, "is_missing", lambda kernel: False)
    with ahead.compiling_ahead():
        pass
    assert not started
    monkeypatch.setattr(jit, "is_missing", lambda kernel: True)
    with ahead.compiling_ahead():
        pass
    assert len(started) == 1
    monkeypatch.setattr(ahead, "_cores", lambda: 1)
    with ahead.compiling_ahead():
        pass
    assert len(started) == 1


def test_threads_limit_the_processes(monkeypatch):
    started = []
    monkeypatch.setattr(ahead.Helpers, "start", lambda self: started.append(self._n))
    monkeypatch.setattr(ahead, "_cores", lambda: 8)
    monkeypatch.setattr(jit, "is_missing", lambda kernel: True)
    for n_threads in 1, 2, 8:
        with ahead.compiling_ahead(n_threads):
            pass
    assert started == [1, ahead.MAX_PROCESSES]
