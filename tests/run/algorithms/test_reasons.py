"""Which columns pull rows out, counted partition by partition as on the whole."""

import json

import numpy as np
import pytest
from distsvc.run.algorithms.reasons import FARTHEST, Reasons, farthest

from distsvc.models.linear.rule import BallRule, OneClassRule
from distsvc.run.directory import Result
from distsvc.storage.blocks import Block

NAMES = ("heat", "noise", "wear")
BALL = BallRule(np.zeros(3), np.zeros(3), -1.0)
PLANE = OneClassRule(np.array([1.0, 2.0, -1.0]), np.array([1.0, 1.0, 1.0]), 0.0)


def block_of(X, first=0):
    return Block(np.arange(first, first + len(X)), X, None, None)


def added(reasons, X, first=0):
    """Add rows that are prepared already; return the published column."""
    block = block_of(10.0 * X, first)
    return reasons.add(block, X, reasons.rule.label(X)).get("reasons")


def saved(reasons):
    """Return what a partition's task leaves, as the driver reads it."""
    found = reasons.result()
    return Result(json.loads(json.dumps(found.facts)), found.arrays)


def test_a_ball_names_the_columns_of_the_largest_squares():
    X = np.array([[2.0, 0.0, 1.0], [0.1, 0.2, 0.3], [0.0, 0.0, -3.0]])
    assert added(Reasons(BALL, NAMES, 2), X) == ["heat (80%), wear (20%)", None, "wear (100%)"]
    assert added(Reasons(BALL, NAMES, 1), X) == ["heat (80%)", None, "wear (100%)"]


def test_a_hyperplane_names_the_columns_that_pull_to_the_origins_side():
    """The first row's pulls are 2, -4 and 6: the second column pulls in, and has no share."""
    X = np.array([[-1.0, 3.0, 7.0]])
    reasons = Reasons(PLANE, NAMES, 3)
    assert reasons.rule.pulls(X).tolist() == [[2.0, -4.0, 6.0]]
    assert reasons.add(
        block_of(X), X, {"score": np.array([-2.0]), "outlier": np.array([True])}
    ) == {"reasons": ["wear (75%), heat (25%)"]}


def test_an_outlier_that_no_column_pulls_out_has_an_empty_text():
    """The mean may lie outside itself, and rows that all columns pull in from there."""
    X = np.array([[2.0, 2.0, 0.0]])
    reasons = Reasons(PLANE, NAMES, 2)
    found = reasons.add(block_of(X), X, {"score": np.array([-2.0]), "outlier": np.array([True])})
    assert found == {"reasons": [""]}
    assert reasons.farthest[0].reasons == []
    assert not reasons.heaviest(X)[1].any()


def test_without_a_count_nothing_is_published_but_counted():
    reasons = Reasons(BALL, NAMES, 0)
    X = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, -3.0], [0.0, 2.0, 0.0]])
    assert added(reasons, X) is None
    assert reasons.leading.tolist() == [1, 1, 1]
    assert len(reasons.farthest) == 3
    assert Reasons(BALL, NAMES, 0).add(block_of(X), X, BALL.label(X)) == {}


def test_the_page_shows_the_farthest_rows_with_raw_values():
    reasons = Reasons(BALL, NAMES, 1)
    added(reasons, np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, -3.0]]), first=100)
    part = reasons.part()
    assert [row.row for row in part.farthest] == [102, 100]
    assert [row.score for row in part.farthest] == [-8.0, -4.0]
    assert [[r.column for r in row.reasons] for row in part.farthest] == [
        ["wear"],
        ["heat", "wear"],
    ]
    assert [r.share for r in part.farthest[1].reasons] == [0.8, 0.2]
    assert [r.value for r in part.farthest[1].reasons] == [20.0, 10.0]
    assert [(c.column, c.rows) for c in part.leading] == [("heat", 1), ("wear", 1)]


def test_without_outliers_there_is_nothing_to_tell():
    reasons = Reasons(BALL, NAMES, 2)
    assert added(reasons, np.zeros((4, 3))) == [None] * 4
    assert added(reasons, np.zeros((0, 3))) == []
    assert (reasons.part().leading, reasons.part().farthest) == ([], [])


@pytest.mark.parametrize("n_parts", [1, 4, 40])
def test_partitions_merge_to_the_whole(n_parts):
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 2.0, 0.5]
    whole = Reasons(BALL, NAMES, 2)
    texts = added(whole, X)
    merged, found, first = Reasons(BALL, NAMES, 2), [], 0
    for part in np.array_split(X, n_parts):
        own = Reasons(BALL, NAMES, 2)
        found += added(own, part, first)
        merged.merge(saved(own))
        first += len(part)
    assert found == texts
    assert merged.part() == whole.part()
    outlier = BALL.label(X)["outlier"]
    leading = np.bincount((X[outlier] ** 2).argmax(axis=1), minlength=3)
    assert merged.leading.tolist() == leading.tolist()
    order = np.argsort(BALL.label(X)["score"], kind="stable")[:FARTHEST]
    assert [row.row for row in merged.farthest] == order.tolist()


def test_equally_far_rows_are_in_the_order_of_the_table():
    later, earlier = Reasons(BALL, NAMES, 0), Reasons(BALL, NAMES, 0)
    X = np.full((FARTHEST, 3), 2.0)
    added(later, X, first=500)
    added(earlier, X, first=0)
    later.merge(saved(earlier))
    assert [row.row for row in later.farthest] == list(range(FARTHEST))
    rows = [*later.farthest[:2], *earlier.farthest[2:4]]
    assert farthest(rows[::-1]) == rows


def test_many_columns_are_ranked_by_how_often_they_lead():
    names = [f"f{k}" for k in range(20)]
    reasons = Reasons(BallRule(np.zeros(20), np.zeros(20), -1.0), names, 0)
    for k in range(20):
        added(reasons, np.tile(2.0 * np.eye(20)[k], (k, 1)))
    leading = reasons.part().leading
    assert [(c.column, c.rows) for c in leading] == [(f"f{k}", k) for k in range(19, 9, -1)]
