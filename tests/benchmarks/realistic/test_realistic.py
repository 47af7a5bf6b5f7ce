"""The figures of the realistic suite, from rows of fits, and what methods get."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.realistic import run
from benchmarks.realistic.methods import METHODS, TableMethod, ours, prepared
from benchmarks.realistic.run import (
    installed,
    losses,
    one_class,
    scores,
    share_of_ceiling,
    shares,
    smallest_class_overlap,
)
from benchmarks.realistic.tables import KnownTable


def row(name, method, ari, half="tune", **more):
    about = {"set": name, "seed": 0, "method": method, "half": half, "group": "generated"}
    return about | {"ari": ari, "ceiling_ari": 0.8, "classes": 3, "kind": name, "k": 2} | more


def test_the_share_is_the_mean_over_the_mean_of_the_ceilings():
    rows = [row("a", "m", 0.4), row("b", "m", 0.2, "confirm", ceiling_ari=0.4)]
    assert share_of_ceiling(rows) == pytest.approx(0.6 / 1.2)
    assert share_of_ceiling([row("a", "m", None)]) is None
    lines = {line["half"]: line for line in shares(rows, "half", ("tune", "confirm"))}
    assert lines["tune"]["m"] == pytest.approx(0.5)
    assert (lines["confirm"]["tables"], lines["all"]["tables"]) == (1, 2)


def test_tables_of_one_class_are_counted_apart_by_source():
    about = {"group": "one-class", "ari": 1.0, "classes": 1}
    rows = [row(f"t{k}", "m", source=s, k=k, **about) for s in ("generated", "one-class") for k in
            (0, 1, 2)]  # fmt: skip
    rows.append(row("t0", "m K", source="generated", **about | {"k": 1}))
    (line,) = one_class(rows)
    assert (line["generator, tune"], line["new kinds, tune"]) == ("2 of 3", "2 of 3")
    assert line["generator, confirm"] == line["wide, tune"] == "0 of 0"


def test_losses_against_k_means_are_counted():
    rows = [row(name, "k-means K", 0.5) for name in "abc"]
    rows += [row(name, "ours K", ari) for name, ari in zip("abc", (0.44, 0.46, None), strict=True)]
    assert losses(rows) == [{"group": "generated", "method": "ours K", "below": 1, "tables": 2}]


def test_the_smallest_class_is_compared_with_its_best_cluster():
    classes = np.repeat([0, 1], [8, 2])
    assert smallest_class_overlap(classes, classes) == 1.0
    assert smallest_class_overlap(classes, np.zeros(10, int)) == pytest.approx(0.2)


def table(n=120) -> KnownTable:
    classes = np.arange(n) % 2
    x = classes * 10 + np.random.default_rng(0).normal(size=n)
    frame = pd.DataFrame({"x": x, "flag": classes > 0, "c": pd.Categorical(["a", "b"] * (n // 2))})
    frame.loc[0, "x"] = np.nan
    return KnownTable("made", "added", "made", "tune", frame, classes)


def test_peers_get_standardised_numbers_and_indicators():
    X = prepared(table().frame)
    assert X.shape == (120, 4)
    assert X.flags.c_contiguous
    np.testing.assert_allclose(X.mean(0), 0.0, atol=1e-12)
    assert X[:, 2:].var(0).sum() == pytest.approx(1.0)


def test_a_slow_method_gets_a_sample_and_is_judged_on_it():
    method = TableMethod(
        "x > 5", lambda frame, k, seed: (frame["x"] > 5).to_numpy(int), max_rows=50
    )
    found = scores(table(), method)
    assert (found["fit_rows"], found["ari"], found["k"]) == (50, pytest.approx(1.0, abs=0.1), 2)


def test_an_error_of_a_method_is_a_note(capsys):
    def fail(frame, k, seed):
        raise RuntimeError("no start")

    found = scores(table(), TableMethod("peer", fail))
    assert (found["ari"], found["note"]) == (None, "RuntimeError: no start")
    assert "made, peer: no start" in capsys.readouterr().err


def test_methods_that_are_not_installed_are_left_out(capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "gone", TableMethod("gone", ours, module="no_such_module"))
    assert installed(["k-means K", "gone"]) == ["k-means K"]
    assert "gone left out: install no_such_module" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ours", "ours K", "k-means K", "mixture K"])
def test_methods_label_every_row_of_a_mixed_table(name):
    found = scores(table(), METHODS[name])
    assert found["note"] == ""
    assert found["k"] >= 1
    if METHODS[name].given_k:
        assert found["ari"] == pytest.approx(1.0)


def test_a_table_of_the_other_half_is_skipped():
    key = next(key for key in run.keys_of(("one-class",)) if key.name == "one-clock")
    assert run.rows_of_table(key.name, key, 0, ["k-means K"], "confirm", None) == []
    (found,) = run.rows_of_table(key.name, key, 0, ["k-means K"], "tune", None)
    assert (found["half"], found["classes"], found["source"]) == ("tune", 1, "one-class")
