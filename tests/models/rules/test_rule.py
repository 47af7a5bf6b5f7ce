"""Properties of all rules: arrays and facts restore them, and meanings match their columns."""

import dataclasses
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from distsvc.models.baselines.rules import Centres, Splits
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.hyperplanes.tree import GrowingTree
from distsvc.models.linear.rule import BallRule, OneClassRule
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.rule import BoundaryRule
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored
from distsvc.storage.publishing.formats import PUBLISHED_COLUMNS, published_columns

D = 3
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Sides(Rule):
    """Rule that labels a row by its side of a hyperplane."""

    form: ClassVar[str] = "sides"
    meanings: ClassVar[dict[str, str]] = {"label": "the side"}
    threshold: float
    direction: np.ndarray
    names: list[str]

    @property
    def n_clusters(self):
        return 2

    def label(self, Z):
        score = (Z @ self.direction - self.threshold).astype(np.float32)
        return {"label": (score > 0.0).astype(np.int32), "score": score, "outlier": score < -9.0}


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def tree_rule():
    growing = GrowingTree.start(3, D)
    rows = floats(200, D)
    growing.learn(rows, 0.5, 10.0, 1.0, 2**62, 5.0)
    growing.count(rows)
    return growing.with_rows("prune").cut(3)


SCORED = Scored.fields_of(floats(2, D), NeighbourScore(floats(2, 60), 0.01, -0.5, 0.25))

RULES = [
    LevelRule(
        **SCORED,
        S=floats(2, 4),
        a=np.ones(4, "f4"),
        part=np.arange(4) % 2,
        gamma=0.5,
        nearest=False,
    ),
    BoundaryRule(
        floats(D, 4), np.ones(4, "f4"), floats(5, D), np.array([0, 1, 1, 0, 2], "i4"), 0.5
    ),
    tree_rule(),
    LandmarkRule(
        **SCORED,
        axes=floats(4, D),
        landmarks=floats(6, 4),
        cluster=np.array([0, 1, 1, 0, 2, 2], "i4"),
        gamma=0.5,
        plane_axes=floats(2, D),
    ),
    OneClassRule(np.ones(D), np.zeros(D), 0.5),
    BallRule(np.zeros(D), np.zeros(D), -2.0),
    Centres(RANDOM.normal(size=(4, D))),
    Splits(
        np.eye(3, D, dtype="f4"),
        np.zeros(3),
        np.array([[1, 2], [-1, -1], [-1, -1]]),
        np.array([-1, 0, 1], "i4"),
        np.zeros(D),
        np.ones(3),
    ),
]
EACH = pytest.mark.parametrize("rule", RULES, ids=[rule.form for rule in RULES])


def rows_for(rule, n=50):
    rows = np.random.default_rng(1).normal(size=(n, D))
    return rows if rule.float64 else rows.astype(np.float32)


def test_a_rule_is_restored_among_other_facts_and_arrays():
    rule = Sides.restored(
        {"threshold": 0.5, "names": [], "gamma": 1.0}, {"direction": np.ones(2), "S": np.zeros(3)}
    )
    assert (rule.threshold, rule.names, rule.direction.tolist()) == (0.5, [], [1.0, 1.0])
    with pytest.raises(KeyError, match="names"):
        Sides.restored({"threshold": 0.5}, {"direction": np.ones(2)})


@EACH
def test_meanings_match_the_published_columns(rule):
    assert {"label", "score", "outlier"} <= rule.meanings.keys()
    assert rule.meanings.keys() <= {column.name for column in PUBLISHED_COLUMNS[1:]}
    assert [column.name for column in published_columns(list(rule.meanings))] == list(rule.meanings)
    types = {column.name: column.type.to_pandas_dtype() for column in PUBLISHED_COLUMNS}
    found = rule.label(rows_for(rule))
    assert list(found) == list(rule.meanings)
    for name, values in found.items():
        assert values.dtype == types[name]
        assert values.shape == (50,)
        assert rule.meanings[name].startswith(values.dtype.name)
    assert rule.form not in ("", "auto")


@EACH
def test_labels_scores_and_outliers_agree(rule):
    found = rule.label(rows_for(rule, 500))
    assert 0 <= found["label"].min() <= found["label"].max() < rule.n_clusters
    expected = found["score"] < 0.0 if rule.words.has_outliers else np.zeros(500, bool)
    np.testing.assert_array_equal(found["outlier"], expected)
    assert rule.words.has_outliers == (rule.words.boundary == 0.0)
    assert rule.words.has_outliers == ("always false" not in rule.meanings["outlier"])


@EACH
def test_shares_add_up_and_depend_on_no_other_row(rule):
    rows = rows_for(rule, 300)
    if not rule.shared:
        assert rule.form.startswith("linear")
        with pytest.raises(NotImplementedError):
            rule.shares(rows)
        return
    shares = rule.shares(rows)
    assert (shares.shape, shares.dtype) == ((300, rule.n_clusters), np.float32)
    assert shares.min() >= 0.0
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
    again = np.concatenate([rule.shares(part) for part in np.array_split(rows, 7)])
    assert again.tobytes() == shares.tobytes()
    assert rule.shares(rows[:0]).shape == (0, rule.n_clusters)


def test_votes_of_a_wide_kernel_count_more():
    """The vectors of each cluster have variance 1; a kernel of that variance doubles the power."""
    S = np.array([[0.0, 2.0, 5.0, 7.0]], np.float32)
    scored = SCORED | {"components": np.eye(1, D, dtype=np.float32)}
    part = np.array([0, 0, 1, 1])
    powers = {
        gamma: LevelRule(**scored, S=S, a=np.ones(4, "f4"), part=part, gamma=gamma, nearest=False)
        for gamma in (1e6, 0.5, 0.01)
    }
    found = [powers[gamma]._power for gamma in (1e6, 0.5, 0.01)]
    np.testing.assert_allclose(found, [0.25, 0.5, 2.0], rtol=1e-5)


def test_shares_by_the_nearest_vector():
    rule = dataclasses.replace(RULES[0], nearest=True)
    rows = rows_for(rule, 300)
    np.testing.assert_array_equal(rule.shares(rows).argmax(axis=1), rule.label(rows)["label"])


@EACH
def test_a_restored_rule_labels_alike(rule):
    facts = json.loads(json.dumps(rule.facts()))
    arrays = {name: array.copy() for name, array in rule.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False  # as they are read from a file
    again = type(rule).restored(facts, arrays)
    assert again.facts() == rule.facts()
    assert again.n_clusters == rule.n_clusters
    rows = rows_for(rule)
    assert again.unrounded_scores(rows).tobytes() == rule.unrounded_scores(rows).tobytes()
    expected = rule.label(rows)
    for name, values in again.label(rows).items():
        assert values.tobytes() == expected[name].tobytes()


@EACH
def test_labels_and_scores_alone_are_those_of_label(rule):
    rows = rows_for(rule, 300)
    found = rule.label(rows)
    assert rule.labels(rows).dtype == np.int32
    assert rule.labels(rows).tobytes() == found["label"].tobytes()
    assert rule.scores(rows).dtype == np.float32
    assert rule.scores(rows).tobytes() == found["score"].tobytes()
    assert rule.scores(rows[:0]).shape == rule.labels(rows[:0]).shape == (0,)
