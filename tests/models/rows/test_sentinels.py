"""Sentinels of missing values, and columns that only seem to have some."""

import numpy as np
import pytest
from sklearn import datasets

from distsvc.models.rows.sentinels import USUAL_SENTINELS, find_sentinels, find_spike, undone_log

N = 600
NORMAL = np.random.default_rng(0).normal(50.0, 10.0, N)
COUNTS = np.random.default_rng(1).poisson(3.0, N).astype(float)
MASK = np.random.default_rng(2).random(N) < 0.05
CODES = np.random.default_rng(3).integers(1, 5, N).astype(float)


def found(values):
    return [one.value for one in find_sentinels(values)]


@pytest.mark.parametrize(
    "value", [-9999.0, 999.0, 1e20, -1.0, 99_999.0, -5e5, float(np.float32(1e20))]
)
@pytest.mark.parametrize("values", [NORMAL, COUNTS, NORMAL.round(), NORMAL / 100])
def test_a_number_in_one_of_twenty_rows_is_a_sentinel(values, value):
    assert found(np.where(MASK, value, values)) == [value]


@pytest.mark.parametrize("value", [9999.0, -1.0, 999.0])
def test_a_usual_sentinel_among_other_values_is_far_more_frequent(value):
    values = np.random.default_rng(0).normal(0.0, 20_000.0, N)
    assert found(np.where(MASK, value, values)) == [value]


@pytest.mark.parametrize("value", [-99.0, -9999.0])
def test_a_usual_sentinel_is_the_only_negative_number(value):
    kilometres = np.random.default_rng(0).lognormal(9.0, 0.8, N).round(-2)
    assert found(np.where(MASK, value, kilometres)) == [value]
    assert found(np.where(MASK, value, kilometres - 9_000.0)) == []


@pytest.mark.parametrize(
    "values",
    [
        NORMAL, NORMAL.round(), COUNTS, np.where(MASK, 0.0, NORMAL), np.where(MASK, 1.0, 0.0),
        np.where(MASK, -1.0, 1.0), np.where(MASK, -1.0, CODES), np.full(N, 7.0),
        np.full(N, np.nan)[:0], np.clip(NORMAL, 40.0, 60.0),
        np.maximum((NORMAL - 50.0) / 50.0, -1.0), np.where(NORMAL > 85.0, -9999.0, NORMAL),
    ],
    ids=[
        "normal", "whole", "counts", "zeros", "yes or no", "two sides", "few values", "constant",
        "none", "clipped", "scaled", "rare",
    ],
)  # fmt: skip
def test_columns_without_sentinels(values):
    assert found(values) == []


@pytest.mark.parametrize("name", ["iris", "wine", "digits", "breast_cancer", "diabetes"])
def test_real_tables_without_sentinels(name):
    X = getattr(datasets, f"load_{name}")().data
    assert [k for k in range(X.shape[1]) if found(X[:, k])] == []


@pytest.mark.parametrize("value", [*USUAL_SENTINELS, -5e5])
def test_sentinels_of_logarithms_are_exact(value):
    values = np.where(MASK, value, NORMAL)
    logs = np.copysign(np.log1p(np.abs(values)), values)
    assert [one.value for one in find_sentinels(undone_log(logs))] == pytest.approx([value])


OFTEN = np.random.default_rng(6).random(N) < 0.3


@pytest.mark.parametrize(
    ("values", "end", "is_odd"),
    [
        (np.where(OFTEN, 47.3, NORMAL), "", True),
        (np.where(OFTEN, 99.9, np.clip(NORMAL, 30.0, 80.0)), "highest", True),
        (np.where(OFTEN, 0.0, NORMAL - 50.0), "", False),
        (np.clip(NORMAL, 45.0, None), "lowest", False),
        (np.clip(NORMAL, None, 52.0), "highest", False),
        (np.where(np.roll(OFTEN, 1) | (NORMAL > 45.0) & (NORMAL < 60.0), 47.3, NORMAL), "", False),
    ],
    ids=["stuck", "stuck outside", "zeros", "least that is detected", "clipped", "usual value"],
)
def test_spikes_and_their_places(values, end, is_odd):
    spike = find_spike(values)
    assert (spike.end, spike.is_odd) == (end, is_odd)
    assert spike.share == np.mean(values == spike.value) > 0.05


@pytest.mark.parametrize("values", [NORMAL, COUNTS, NORMAL.round(), CODES, NORMAL[:0]])
def test_columns_without_spikes(values):
    assert find_spike(values) is None
