"""Reasons of outliers: columns with their shares, counted over partitions."""

from types import SimpleNamespace

import numpy as np
import pytest

from distsvc.models.baselines.rules import Centres
from distsvc.models.linear.rule import BallRule, OneClassRule
from distsvc.models.rules.rule import Typical
from distsvc.run.labelling.columns import Reasons
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.features import Codes, Numeric, OneHot, Time

NUMBERS = [Numeric(name) for name in ("heat", "noise", "wear")]
NONE = Typical(np.zeros((1, 3)), 1.0, 0.0)
BALL = BallRule(np.zeros(3), np.zeros(3), -1.0)
PLANE = OneClassRule(np.array([1.0, 2.0, -1.0]), np.array([1.0, 1.0, 1.0]), 0.0)


def reasons_of(rule, count, features=NUMBERS, typical=NONE, types=()):
    """Return empty reasons for a rule of one cluster whose typical row is 0."""
    labeller, output = SimpleNamespace(rule=rule, typical=typical), SimpleNamespace(reasons=count)
    preparation = SimpleNamespace(firsts=np.arange(99), columns=None)
    return Reasons(labeller, preparation, features, output, types)


def block_of(X, first=0):
    return Block(np.arange(first, first + len(X)), X, None, None)


def added(reasons, X, first=0):
    """Add a block with the prepared rows X, a tenth of the table's; return its reasons."""
    block = block_of(10.0 * X, first)
    return reasons.add(block, X, reasons.rule.label(X)).get("reasons")


def pilot_of(reasons, X):
    """Return the labelled pilot of prepared rows X."""
    found = reasons.rule.label(X)
    return SimpleNamespace(raw=10.0 * X, X=X, labels=found["label"], scores=found["score"])


def part_of(reasons, X=None):
    pilot = pilot_of(reasons, np.zeros((5, len(reasons.names))) if X is None else X)
    return reasons.parts(pilot, lambda X: X / 10.0, SimpleNamespace(rows={}))["reasons"]


def test_a_ball_names_the_columns_of_the_largest_squares():
    X = np.array([[2.0, 0.0, 1.0], [0.1, 0.2, 0.3], [0.0, 0.0, -3.0]])
    assert added(reasons_of(BALL, 2), X) == ["heat (80%), wear (20%)", None, "wear (100%)"]
    assert added(reasons_of(BALL, 1), X) == ["heat (80%)", None, "wear (100%)"]


def test_a_hyperplane_names_the_columns_that_pull_to_the_origins_side():
    """The first row's pulls are 2, -4 and 6: the second column pulls in, and has no share."""
    X = np.array([[-1.0, 3.0, 7.0]])
    reasons = reasons_of(PLANE, 3)
    assert reasons.rule.pulls(X, None, NONE, np.arange(3)).tolist() == [[2.0, -4.0, 6.0]]
    label, score = np.zeros(1, np.int32), np.array([-2.0], np.float32)
    found = reasons.add(block_of(X), X, {"label": label, "score": score})
    assert found == {"reasons": ["wear (75%), heat (25%)"]}


def test_an_outlier_that_no_column_pulls_out_has_an_empty_text():
    """If the mean itself lies outside, all columns of an outlier may pull towards the inside."""
    X = np.array([[2.0, 2.0, 0.0]])
    reasons = reasons_of(PLANE, 2)
    label, score = np.zeros(1, np.int32), np.array([-2.0], np.float32)
    assert reasons.add(block_of(10.0 * X), X, {"label": label, "score": score}) == {"reasons": [""]}
    assert part_of(reasons).farthest[0].reasons == []
    assert not reasons.leading.any()


def test_unpublished_reasons_are_counted():
    reasons = reasons_of(BALL, 0)
    X = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, -3.0], [0.0, 2.0, 0.0]])
    assert added(reasons, X) is None
    assert reasons.leading.tolist() == [1, 1, 1]
    assert reasons.far_rows.tolist() == [1, 0, 2]
    assert reasons_of(BALL, 0).add(block_of(X), X, BALL.label(X)) == {}


def test_the_page_shows_the_farthest_rows_with_raw_values():
    reasons = reasons_of(BALL, 1)
    added(reasons, np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, -3.0]]), first=100)
    part = part_of(reasons)
    assert [row.row for row in part.farthest] == [102, 100]
    assert [row.score for row in part.farthest] == [-8.0, -4.0]
    assert [[r.column for r in row.reasons] for row in part.farthest] == [
        ["wear"],
        ["heat", "wear"],
    ]
    assert [r.share for r in part.farthest[1].reasons] == [0.8, 0.2]
    assert [r.value for r in part.farthest[1].reasons] == [20.0, 10.0]
    assert [r.typical for r in part.farthest[1].reasons] == [0.0, 0.0]
    assert part.counted is None
    assert [(c.column, c.rows) for c in part.leading] == [("heat", 1), ("wear", 1)]


def test_without_outliers_there_are_no_reasons():
    reasons = reasons_of(BALL, 2)
    assert added(reasons, np.zeros((4, 3))) == [None] * 4
    assert added(reasons, np.zeros((0, 3))) == []
    assert (part_of(reasons).leading, part_of(reasons).farthest) == ([], [])


@pytest.mark.parametrize("n_parts", [1, 4, 40])
def test_partitions_merge_to_the_whole(n_parts):
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 2.0, 0.5]
    whole = reasons_of(BALL, 2)
    texts = added(whole, X)
    merged, found, first = reasons_of(BALL, 2), [], 0
    for part in np.array_split(X, n_parts):
        own = reasons_of(BALL, 2)
        found += added(own, part, first)
        merged.merge(own.arrays())
        first += len(part)
    assert found == texts
    assert part_of(merged) == part_of(whole)
    outlier = BALL.label(X)["outlier"]
    leading = np.bincount((X[outlier] ** 2).argmax(axis=1), minlength=3)
    assert merged.leading.tolist() == leading.tolist()
    order = np.argsort(BALL.label(X)["score"], kind="stable")[: Reasons.n_farthest]
    assert merged.far_rows.tolist() == order.tolist()


def test_many_columns_are_ranked_by_how_often_they_lead():
    reasons = reasons_about([Numeric(f"f{k}") for k in range(20)], 0, n_places=20)
    for k in range(20):
        added(reasons, np.tile(2.0 * np.eye(20)[k], (k, 1)))
    leading = part_of(reasons).leading
    assert [(c.column, c.rows) for c in leading] == [(f"f{k}", k) for k in range(19, 9, -1)]


CELLS = Centres(np.array([[0.0, 0.0, 0.0], [10.0, 0.0, 0.0]]))
"""Two clusters with a border at 5, and no outliers."""

NEAR = Typical(CELLS.centres, 5.0, 1.0)


def test_slow_reasons_are_counted_in_the_pilot():
    """Only the farthest rows and a sample have reasons if a rule computes them slowly."""
    reasons = reasons_of(CELLS, 0, typical=NEAR)
    X = np.array([[4.5, 2.0, 0.0], [1.0, 2.0, 0.0], [9.0, 1.0, 0.0], [5.5, 0.0, 0.0]])
    assert added(reasons, X, first=7) is None
    assert not reasons.leading.any()
    part = part_of(reasons, np.repeat(X, [1, 5, 3, 2 * Reasons.n_sampled], axis=0))
    assert [(c.column, c.rows) for c in part.leading] == [("heat", Reasons.n_sampled)]
    assert part.counted == Reasons.n_sampled
    assert [(row.row, row.label) for row in part.farthest] == [(7, 0), (10, 1)]
    first = part.farthest[1].reasons[0]
    assert (first.column, first.share, first.value, first.typical) == ("heat", 1.0, 55.0, 90.0)


def reasons_about(features, n_reasons, types=(), n_places=2):
    """Return empty reasons for a ball around 0, in columns of any kind."""
    rule = BallRule(np.zeros(n_places), np.zeros(n_places), -1.0)
    return reasons_of(rule, n_reasons, features, NONE, types)


def part_in(reasons, pilot, scale, **level_rows):
    """Return the part of the report for a pilot of four rows, which `scale` scales."""
    rows = SimpleNamespace(raw=pilot, X=pilot, labels=np.zeros(4, np.int32), scores=np.ones(4))
    counts = SimpleNamespace(rows={name: np.array([own]) for name, own in level_rows.items()})
    return reasons.parts(rows, scale, counts)["reasons"]


def test_a_category_is_one_reason_that_names_its_value():
    kind = OneHot(column="kind", known=("a", "b"), rest=0.0)
    reasons = reasons_about([Numeric("heat"), kind], 2, n_places=4)
    X = np.array([[1.0, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 1.0]])
    text = reasons.add(block_of(X), X, reasons.rule.label(X))["reasons"]
    assert text == ["heat (50%), kind=b (50%)", "heat (90%), kind=a (10%)",
                    "heat (80%), kind=other (20%)"]  # fmt: skip
    pilot = np.array([[0.0, 1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 1.0, 0.0]])
    part = part_in(reasons, pilot, lambda X: X, kind=[5, 3, 0, 2])
    told = {row.row: {r.column: r.held for r in row.reasons} for row in part.farthest}
    assert told[0] == {"heat": None, "kind=b": 0.375}
    assert told[2]["kind=other"] == 0.0


def test_booleans_and_dates_are_shown_as_in_the_table():
    features = [Numeric("express"), Time(column="opened", unit="days")]
    reasons = reasons_about(features, 1, ("bool", "date32[day]"))
    X, Z = np.array([[1.0, 19_000.0]]), np.array([[2.0, 1.0]])
    text = reasons.add(block_of(X), Z, reasons.rule.label(Z))["reasons"]
    assert text == ["express=true (80%)"]
    pilot = np.array([[0.0, 20_000.0]] * 3 + [[1.0, 20_000.0]])
    flag, date = part_in(reasons, pilot, lambda _: Z, express=[3, 1, 0]).farthest[0].reasons
    assert (flag.column, flag.held, flag.unit) == ("express=true", 0.25, "")
    assert (date.column, date.value, date.unit) == ("opened", 19_000.0, "date")


def test_codes_are_named_by_their_level():
    kind = Codes(column="kind", known=("a", "b"), rest=0.0)
    reasons = reasons_about([Numeric("heat"), kind], 1)
    X = np.array([[0.5, 1.0], [0.5, np.nan]])
    Z = np.array([[0.5, 2.0], [0.5, 2.0]])
    text = reasons.add(block_of(X), Z, reasons.rule.label(Z))["reasons"]
    assert text == ["kind=b (94%)", "kind missing (94%)"]
    pilot = np.array([[0.0, 0.0]] * 3 + [[0.0, 1.0]])
    part = part_in(reasons, pilot, lambda _: Z, kind=[6, 2, 8])
    assert [row.reasons[0].held for row in part.farthest] == [0.25, 0.5]
