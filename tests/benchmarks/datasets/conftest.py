"""A made data set, and a catalogue that has it beside the real ones."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.datasets import catalogue
from benchmarks.datasets.catalogue import Dataset
from benchmarks.datasets.loading import fingerprint


@pytest.fixture
def rows():
    """Return X (60, 3), classes 0, 1, 2 of 30, 20 and 10 rows, and a split of 40 and 20."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [30, 20, 10])
    X = np.round(rng.normal(size=(60, 3)) + y[:, np.newaxis], 3)
    order = rng.permutation(60)
    return X[order], y[order], np.repeat([0, 1], [40, 20])


@pytest.fixture
def made(rows):
    """Return the facts of the made set."""
    X, y, split = rows
    return Dataset(
        name="made",
        group="bsgd",
        rows=60,
        features=3,
        class_counts=(30, 20, 10),
        origin="Made for the tests.",
        fingerprint=fingerprint(X, y)[0],
        splits=tuple(tuple(np.bincount(y[split == k]).tolist()) for k in (0, 1)),
    )


@pytest.fixture
def in_catalogue(monkeypatch):
    """Return a function that puts changed facts into the catalogue and returns them."""
    real = dict(catalogue.catalogue())

    def put(one, **changes):
        one = replace(one, **changes)
        monkeypatch.setattr(catalogue, "catalogue", lambda: real | {one.name: one})
        return one

    return put
