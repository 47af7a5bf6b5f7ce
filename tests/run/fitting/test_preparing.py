"""The choice of a scale, notes on dominant columns and extreme rows, the weight of a boolean."""

from types import SimpleNamespace as Stand

import numpy as np
import pytest

from distsvc.job.config import PreprocessConfig
from distsvc.run.fitting import extreme_row_notes
from distsvc.run.learning.survey import ExtremeRow
from distsvc.run.preparing import dominant_column_notes, make_scaling, standard_or_unit
from distsvc.storage.rows.features import Numeric, Vector
from tests.small_runs import surveyed


def told(X, features, scale="unit"):
    survey = surveyed(X)
    names = [name for feature in features for name in feature.names]
    scaling, _ = make_scaling(PreprocessConfig(scale=scale, missing="median"), survey, names)
    return dominant_column_notes(survey, scaling, features)


def test_a_dominant_column_is_named():
    random = np.random.default_rng(0)
    V, price = random.normal(size=(200, 3)), random.lognormal(4.0, 0.5, 200)
    features = [Vector(column="v", width=3), Numeric("price")]
    price[7] = np.nan
    (note,) = told(np.column_stack([V, price]), features)
    assert note.startswith("preprocess.scale = 'unit' divides rows by their lengths, and 'price' ")
    assert "exclude 'price', or give another" in note
    assert told(np.column_stack([V, price]), features, "standard") == []
    assert told(np.column_stack([V, price / 100.0]), features) == []
    assert told(V, features[:1]) == []


@pytest.mark.parametrize(("has_outliers", "outliers", "end"), [
    (True, [1, 1], ""), (True, [0, 1], "; 1 of 2 is an outlier (not key a)"), (False, [0, 0], ""),
    (True, [0, 0], "; 0 of 2 are outliers"),
])  # fmt: skip
def test_extreme_rows_inside_a_cluster_are_counted(has_outliers, outliers, end):
    ids = {"ignored_rows": np.array([3, 7]), "ignored_ids": np.array(["a", ""])}
    labeller = Stand(rule=Stand(words=Stand(has_outliers=has_outliers)))
    ignored = Stand(**ids, ignored_outliers=np.array(outliers, bool))
    table = Stand(id="key", features=[], types={}, columns=["x"])
    rows = [ExtremeRow(9.0, 3, 0, 1e9), ExtremeRow(9.0, 7, 0, 2e9)]
    (note,) = extreme_row_notes(rows, Stand(ignored=ignored, labeller=labeller), table)
    words = "extreme rows: key a (x = 1e+09), row 7 (x = 2e+09); ignored while learning, and "
    assert note == f"{words}labelled like any other{end}"


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_boolean_weighs_as_a_category_of_two_values(share):
    flag = (np.random.default_rng(0).random(1000) < share).astype(float)[:, None]
    codes = np.column_stack([flag, 1.0 - flag, 0.0 * flag])
    one, _ = make_scaling(PreprocessConfig(scale="standard"), surveyed(flag), ["flag"])
    several, _ = make_scaling(
        PreprocessConfig(scale="standard"), surveyed(codes), list("abc"), [slice(0, 3)]
    )
    places = [int(flag.argmin()), int(flag.argmax())]
    apart = [np.ptp(one.apply(flag[places])), np.diff(several.apply(codes[places]), axis=0)]
    assert apart[0] == pytest.approx(np.linalg.norm(apart[1]))


def directions(lengths, seed=0):
    """Return 900 rows around three directions of ten columns, with the given lengths (900,)."""
    random = np.random.default_rng(seed)
    X = np.repeat(np.eye(3, 10), 300, axis=0) + random.normal(0.0, 0.1, (900, 10))
    return random.permutation(X * lengths[:, None])


@pytest.mark.parametrize("kind", ["standard", "unit"])
def test_the_clearer_scale_is_chosen_and_named(kind):
    random = np.random.default_rng(1)
    if kind == "unit":
        X = directions(random.lognormal(0.0, 1.5, 900))
    else:  # along one direction, at three lengths
        X = np.repeat([[1.0], [2.0], [3.0]], 300, axis=0) * np.ones(10)
        X = random.permutation(X + random.normal(0.0, 0.1, (900, 10)))
    survey = surveyed(X)
    names = [f"c{k}" for k in range(10)]
    standard, _ = make_scaling(PreprocessConfig(scale="auto"), survey, names)
    assert standard.kind == "standard"
    found, note = standard_or_unit(standard, survey, 0)
    assert found.kind == kind
    assert note.startswith(f"preprocess.scale = 'auto' chose '{kind}': ")
    expected, _ = make_scaling(PreprocessConfig(scale=kind), survey, names)
    np.testing.assert_array_equal(found.apply(X), expected.apply(X))
    again, _ = standard_or_unit(standard, survey, 0)
    np.testing.assert_array_equal(again.apply(X), found.apply(X))
