"""Columns that alone divide clusters are named, and others are not."""

import numpy as np
import pytest

from distsvc.models.columns.model import ColumnModel
from distsvc.models.rows.scaling import Scaling
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.learning.preparation import Preparation
from distsvc.run.reporting.columns import separating_columns
from distsvc.storage.rows.categories import Codes, OneHot
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


def found(pilot, features, ids):
    d = pilot.X.shape[1]
    scaling = Scaling(np.zeros(d), np.ones(d), np.zeros(d), "none")
    return separating_columns(pilot, features, ids, Preparation(scaling, np.zeros(d), True))


def test_an_irrelevant_boolean_is_named_with_the_pairs_that_it_divides(planted):
    y, flag, x, noise = planted
    (one,) = found(*rows(2 * y + flag, x=x, flag=flag, noise=noise))
    assert one.pairs == [(10, 11), (12, 13), (14, 15)]
    assert one.note == ("3 pairs of clusters differ only in flag. To ignore it: --exclude flag")


def test_so_is_one_that_is_missing_in_some_rows_and_one_of_two(planted):
    y, flag, x, _ = planted
    other = np.random.default_rng(1).random(N) < 0.5
    gaps = np.where(np.arange(N) % 9 == 0, np.nan, flag)
    first, second = found(*rows(4 * y + 2 * flag + other, x=x, flag=gaps, other=other))
    assert (first.column, first.pairs[:2]) == ("flag", [(10, 12), (11, 13)])
    assert (second.column, second.pairs[0]) == ("other", (10, 11))


def test_so_is_a_category(planted):
    y, flag, x, _ = planted
    pilot, features, ids = rows(2 * y + flag, x=x, plan=flag)
    codes = np.column_stack([flag, ~flag, np.zeros(N)]).astype(float)
    raw = np.column_stack([pilot.raw[:, :1], codes])
    X = np.column_stack([pilot.X[:, :1], codes])
    pilot = PilotRows(pilot.numbers, raw, X, pilot.labels, pilot.scores, None)
    (one,) = found(pilot, features, ids)
    assert (one.column, one.pairs[0]) == ("plan", (10, 11))


def test_so_is_a_category_of_codes_in_modelled_columns(planted):
    y, flag, x, _ = planted
    raw = np.column_stack([x, 2.0 * flag])
    raw[(y == 1) & (np.arange(N) % 5 == 0), 1] = 1.0
    columns = ColumnModel.of(raw, np.array([False, True]))
    origin = np.zeros(columns.layout.width)
    scaling = Scaling(np.zeros(2), np.ones(2), np.zeros(2), "none")
    labels = np.where(y == 1, 0, 1 + flag)
    pilot = PilotRows(np.arange(N), raw, columns.prepared(raw), labels, np.ones(N), None)
    plan = Codes(column="plan", known=("a", "b", "c"), rest=0.0)
    features, ids = [Numeric("x"), plan], np.arange(3)
    one_class = y != 0
    pilot = PilotRows(
        *(part[one_class] for part in (pilot.numbers, pilot.raw, pilot.X, labels, pilot.scores)),
        None,
    )
    (one,) = separating_columns(pilot, features, ids, Preparation(scaling, origin, False, columns))
    assert one.clause == "clusters 1 and 2 differ only in plan"


def test_a_boolean_that_goes_with_other_columns_is_not(planted):
    y, _, x, noise = planted
    assert found(*rows(y, x=x, flag=y == 1, noise=noise)) == []
    assert found(*rows(y, x=x, noise=noise, constant=np.zeros(N))) == []


def test_neither_are_many_small_differences_nor_one_cluster():
    random = np.random.default_rng(0)
    y = np.arange(N) % 2
    many = {f"x{k}": 0.6 * y + random.normal(size=N) for k in range(80)}
    assert found(*rows(y, flag=y, **many)) == []
    assert found(*rows(0 * y, flag=y, **many)) == []
