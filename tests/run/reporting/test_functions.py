"""Columns that are functions of each other are a doubt, whatever the shape of the function."""

import numpy as np

from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.reporting.columns import doubt_of_functions, function_pairs
from distsvc.storage.rows.features import Numeric


def pairs(**columns):
    raw = np.column_stack(list(columns.values())).astype(float)
    n = len(raw)
    rows = PilotRows(np.arange(n), raw, raw, np.zeros(n, int), np.ones(n), sample=None)
    return function_pairs(rows, [Numeric(name) for name in columns])


def test_functions_of_each_other():
    random = np.random.default_rng(0)
    x, other = random.lognormal(size=500), random.lognormal(size=500)
    noisy = x * random.lognormal(0.0, 0.1, 500)
    found = pairs(x=x, other=other, square=x**2, noisy=noisy, inverse=1 / x)
    assert found == [("x", "square"), ("x", "inverse"), ("square", "inverse")]


def test_columns_of_few_values_and_missing_ones():
    x = np.random.default_rng(0).normal(size=500)
    gaps = np.where(np.arange(500) % 50 == 0, np.nan, x**3)
    assert pairs(flag=x > 0, same=x > 0) == []
    assert pairs(x=x, gaps=gaps) == []  # too few rows have both to be sure
    assert pairs(constant=np.zeros(500), empty=np.full(500, np.nan)) == []


def test_the_doubt_is_one_clause():
    assert doubt_of_functions([]) == []
    assert doubt_of_functions([("a", "b")]) == ["a and b are functions of each other"]
    many = [("a", "b"), ("a", "c"), ("b", "c")]
    assert doubt_of_functions(many) == [
        "a and b are functions of each other, as are 2 more pairs of columns"
    ]
    assert doubt_of_functions(many[:2]) == [
        "a and b are functions of each other, as is 1 more pair of columns"
    ]
