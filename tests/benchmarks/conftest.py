"""A made data set in the place of every set that is loaded."""

import pytest
from sklearn.datasets import make_blobs

from benchmarks.harness import data


@pytest.fixture
def toy(monkeypatch):
    """Return X (300, 2) and three classes, which any name stands for."""
    rows = make_blobs(300, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    monkeypatch.setattr(data, "load", lambda name, folder=None, split=None: rows)
    data.table.cache_clear()
    yield rows
    data.table.cache_clear()
