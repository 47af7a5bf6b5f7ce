import multiprocessing
import os
import time
import warnings

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks.harness.measure import (
    agreement,
    alone,
    in_processes,
    interleaved,
    limited,
    machine,
    n_clusters,
    publish,
    timed,
)
from benchmarks.harness.rows import read_csv


def told(ready, mb):
    ready()
    block = np.ones(mb * 2**17)
    return {"note": "", "sum": float(block[0])}


def slow(ready):
    ready()
    time.sleep(30.0)
    return {"note": ""}


def broken(ready):
    raise SystemExit(1)


def test_a_row_of_a_process_of_its_own_has_its_peak_memory():
    row = limited(told, 60.0, 200)
    assert (row["note"], row["sum"]) == ("", 1.0)
    assert 200.0 < row["peak_mb"] - row["before_mb"] < 400.0


def test_what_takes_too_long_is_ended():
    assert limited(slow, 0.1) == {"note": "not done in 0.1 s"}
    assert multiprocessing.active_children() == []


def test_a_process_that_ends_is_a_failure():
    assert limited(broken, 60.0) == {"note": "failed"}


def test_tasks_in_processes_keep_their_order():
    assert list(in_processes(divmod, [(7, 2), (9, 4), (5, 5)], 2)) == [(3, 1), (2, 1), (1, 0)]
    assert alone(os.getpid) != os.getpid()


def test_a_timed_call_has_its_value_and_keeps_its_warnings():
    def action():
        warnings.warn("first", UserWarning, stacklevel=1)
        time.sleep(0.02)
        return 7

    found = timed(action)
    assert (found.value, found.warnings) == (7, ["first"])
    assert found.seconds >= 0.02


def test_interleaved_calls_take_turns_after_one_to_warm_up():
    calls = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "ab"}, 2)
    assert calls == ["a", "b"] * 3
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 2, "b": 2}


def test_agreement_is_scikit_learns():
    random = np.random.default_rng(0)
    y, labels = random.integers(4, size=200), random.integers(-1, 5, size=200)
    found = agreement(y, labels)
    geometric = normalized_mutual_info_score(y, labels, average_method="geometric")
    assert found["nmi"] == pytest.approx(normalized_mutual_info_score(y, labels))
    assert found["nmi_geometric"] == pytest.approx(geometric)
    assert found["ari"] == pytest.approx(adjusted_rand_score(y, labels))
    assert n_clusters(labels) == 5


def test_published_rows_name_the_machine_and_earlier_ones_keep_theirs(tmp_path, capsys):
    publish(tmp_path, "x", [{"a": 1}, {"a": 2, "day": "2001-01-01"}])
    assert "x.csv" in capsys.readouterr().out
    first, second = read_csv(tmp_path / "x.csv")
    assert first == {"a": 1} | machine()
    assert second == {"a": 2} | machine() | {"day": "2001-01-01"}
