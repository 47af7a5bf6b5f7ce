"""Rows of clusters by level of categories and flags, and missing values."""

import numpy as np
import pytest

from distsvc.job.config import OutputConfig
from distsvc.run.labelling.columns import MissingValues
from distsvc.run.labelling.counts import (
    ClusterContents,
    CountedLevels,
    levels_of_columns,
)
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.categories import Codes, OneHot
from distsvc.storage.rows.features import Numeric

PLAN = OneHot(column="plan", known=("a", "b"), rest=0.1)
LAND = Codes(column="land", known=("DE", "FR"), rest=0.0)
N = 600


def contents(compared=(), share=1.0):
    features = levels_of_columns([Numeric("x"), PLAN, LAND])
    own = levels_of_columns(compared)
    rows = {c.column: np.zeros((2, len(c.codes) + 1), np.int64) for c in [*features, *own]}
    width = len(compared)
    missing, sample = np.zeros((2, 5), np.int64), np.zeros((0, width))
    return ClusterContents(features, own, missing, width, share, rows, sample=sample)


def table(seed=0):
    random = np.random.default_rng(seed)
    plan, land = random.integers(0, 4, N), random.integers(0, 3, N)
    X = np.zeros((N, 5), np.float32)
    X[:, 0] = np.where(random.random(N) < 0.2, np.nan, 1.0)
    X[:, 1:4] = np.where((plan < 3)[:, None], np.eye(4)[plan, :3], np.nan)
    X[:, 4] = np.where(land < 2, land, np.nan)
    return X, plan, land, random.integers(0, 2, N).astype(np.int32)


def test_levels_have_the_names_of_their_features():
    plan, land = levels_of_columns([Numeric("x"), PLAN, LAND])
    assert (plan.names, plan.places) == (("a", "b", "other"), slice(1, 4))
    assert (land.names, land.places) == (("DE", "FR"), slice(4, 5))


def test_counts_are_those_of_all_rows_however_they_are_cut():
    X, plan, land, labels = table()
    whole, parts = contents(), contents()
    whole.add(Block(np.arange(N), X, None, None), labels, seed=0)
    for first in range(0, N, 70):
        rows = slice(first, first + 70)
        one = contents()
        one.add(Block(np.arange(N)[rows], X[rows], None, None), labels[rows], seed=0)
        parts.merge(one.arrays())
    for found in whole, parts:
        for c in range(2):
            expected = np.bincount(plan[labels == c], minlength=4)
            assert found.rows["plan"][c].tolist() == expected.tolist()
            expected = np.bincount(land[labels == c], minlength=3)
            assert found.rows["land"][c].tolist() == expected.tolist()
            assert found.missing[c, 0] == np.isnan(X[labels == c, 0]).sum()


def test_other_columns_are_counted_and_numbers_are_sampled_by_the_key_of_their_row():
    X, _, land, labels = table()
    y = np.arange(N, dtype=float)
    compared = np.column_stack([np.where(land < 2, land, np.nan), y])
    whole, parts = (contents((LAND_2, Numeric("y")), share=0.3) for _ in range(2))
    whole.add(Block(np.arange(N), X, None, None, compared), labels, seed=5)
    for first in range(0, N, 70):
        rows = slice(first, first + 70)
        one = contents((LAND_2, Numeric("y")), share=0.3)
        block = Block(np.arange(N)[rows], X[rows], None, None, compared[rows])
        one.add(block, labels[rows], seed=5)
        parts.merge(one.arrays())
    assert 0.2 * N < len(whole.sample) < 0.4 * N
    assert np.array_equal(whole.sample, parts.sample, equal_nan=True)
    assert np.array_equal(whole.labels, labels[whole.sample[:, 1].astype(int)])
    assert np.array_equal(whole.rows["land2"], whole.rows["land"])


def test_missing_values_of_rows_are_a_column_that_is_asked_for():
    X = np.array([[np.nan, 1, 0, 0, 1], [np.nan] * 5, [1, 0, 1, 0, 0]])
    features, block = [Numeric("x"), PLAN, LAND], Block(np.arange(3), X, None, None)
    for wanted in True, False:
        output = OutputConfig(path="out", missing=wanted)
        found = MissingValues(None, None, features, output).add(block, X, {})
        assert [*found] == ["missing"] * wanted
    found = MissingValues(None, None, features, OutputConfig(path="out", missing=True))
    assert found.add(block, X, {})["missing"].tolist() == [1, 3, 0]


LAND_2 = Codes(column="land2", known=("DE", "FR"), rest=0.0)


@pytest.mark.parametrize("value", [0.5, -1.0, 7.0, np.nan])
def test_values_that_are_no_level_count_as_others(value):
    flag = CountedLevels("flag", ("1", "3"), np.array([1.0, 3.0]), slice(0, 1))
    assert flag.levels_of(np.array([[1.0], [3.0], [value]])).tolist() == [0, 1, 2]
