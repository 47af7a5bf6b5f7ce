"""Columns that alone divide clusters are named, and others are not."""

import numpy as np
import pytest

from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.reporting.dividing import told_of_dividers
from distsvc.storage.rows.categories import OneHot
from distsvc.storage.rows.features import Numeric

N = 400
OWN = OneHot(column="plan", known=("a", "b"), rest=0.0)


def rows(labels, **columns):
    """Return the features and a labelled pilot; a column of one-hot values is called plan."""
    features = [OWN if name == "plan" else Numeric(name) for name in columns]
    raw = np.column_stack([np.asarray(values, float) for values in columns.values()])
    X = (raw - np.nanmean(raw, axis=0)) / np.where(
        np.nanstd(raw, axis=0) > 0, np.nanstd(raw, axis=0), 1
    )
    X = np.where(np.isnan(X), 0.0, X)
    pilot = PilotRows(np.arange(N), raw, X, np.asarray(labels), np.ones(N), sample=None)
    return pilot, features, np.arange(labels.max() + 1) + 10


@pytest.fixture
def planted():
    random = np.random.default_rng(0)
    y, flag = random.integers(0, 3, N), random.random(N) < 0.5
    return y, flag, 6.0 * y + random.normal(size=N), random.normal(size=N)


def test_an_irrelevant_boolean_is_named_with_the_pairs_that_it_divides(planted):
    y, flag, x, noise = planted
    (note,) = told_of_dividers(*rows(2 * y + flag, x=x, flag=flag, noise=noise))
    assert note == (
        "'flag' alone divides clusters 10 and 11, 12 and 13, 14 and 15: these are alike in all "
        "other columns; leave a column out of input.columns if it should not divide"
    )


def test_so_is_one_that_is_missing_in_some_rows_and_one_of_two(planted):
    y, flag, x, _ = planted
    other = np.random.default_rng(1).random(N) < 0.5
    gaps = np.where(np.arange(N) % 9 == 0, np.nan, flag)
    (note,) = told_of_dividers(*rows(4 * y + 2 * flag + other, x=x, flag=gaps, other=other))
    assert note.startswith("'flag' alone divides clusters 10 and 12, 11 and 13, 14 and 16, 15 and ")
    assert "; 'other' alone divides clusters 10 and 11, " in note


def test_so_is_a_category(planted):
    y, flag, x, _ = planted
    pilot, features, ids = rows(2 * y + flag, x=x, plan=flag)
    codes = np.column_stack([flag, ~flag, np.zeros(N)]).astype(float)
    raw = np.column_stack([pilot.raw[:, :1], codes])
    X = np.column_stack([pilot.X[:, :1], codes])
    pilot = PilotRows(pilot.numbers, raw, X, pilot.labels, pilot.scores, None)
    (note,) = told_of_dividers(pilot, features, ids)
    assert note.startswith("'plan' alone divides clusters 10 and 11, ")


def test_a_boolean_that_goes_with_other_columns_is_not(planted):
    y, _, x, noise = planted
    assert told_of_dividers(*rows(y, x=x, flag=y == 1, noise=noise)) == []
    assert told_of_dividers(*rows(y, x=x, noise=noise, constant=np.zeros(N))) == []


def test_neither_are_many_small_differences_nor_one_cluster():
    random = np.random.default_rng(0)
    y = np.arange(N) % 2
    many = {f"x{k}": 0.6 * y + random.normal(size=N) for k in range(80)}
    assert told_of_dividers(*rows(y, flag=y, **many)) == []
    assert told_of_dividers(*rows(0 * y, flag=y, **many)) == []
