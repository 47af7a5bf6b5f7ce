"""Samples without clusters: what is measured again, and what stays of an earlier run."""

from argparse import Namespace

import numpy as np
import pytest

import distsvc
from benchmarks.harness.rows import read_csv, write_csv
from benchmarks.quality import structureless


class OneCluster:
    n_clusters_ = 1
    clearest_valley_ = 0.5
    valley = 3.2
    _engine = Namespace(tree_valleys=np.array([4.0, 0.5, 0.4, 0.6, 0.5, 0.5]))

    def __init__(self, random_state):
        pass

    def fit(self, X):
        return self


def test_mdh_null_names_known_distributions(tmp_path):
    with pytest.raises(SystemExit, match="there are normal, uniform"):
        structureless.mdh_null(Namespace(out=tmp_path, sets=["moons"]))


def test_mdh_null_keeps_rows_that_are_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(distsvc, "IncrementalMDH", OneCluster)
    monkeypatch.setattr(structureless, "NULL_COLUMNS", (1, 2))
    monkeypatch.setattr(structureless, "NULL_ROWS", (5,))
    measured = {
        "samples": 8,
        "split": 8,
        "split_1": 8,
        "split_5": 8,
        "split_20": 8,
        "highest_z": 9.0,
    }
    old = [
        {"half": half, "distribution": name, "d": d} | measured
        for half in structureless.NULL_SEEDS
        for name in structureless.NULL_DISTRIBUTIONS
        for d in (1, 2)
    ]
    write_csv(tmp_path / "mdh_null.csv", old, {"day": "earlier"})
    structureless.mdh_null(Namespace(out=tmp_path, sets=["uniform"], half="tune"))
    rows = read_csv(tmp_path / "mdh_null.csv")
    keys = "half", "distribution", "d"
    assert [[row[key] for key in keys] for row in rows] == [
        [row[key] for key in keys] for row in old
    ]
    for row in rows:
        again = row["distribution"] == "uniform" and row["half"] == "tune"
        assert row["split"] == (0 if again else 8)
        assert not again or (row["split_1"], row["split_5"]) == (8, 0)
        assert (row["day"] == "earlier") != again
