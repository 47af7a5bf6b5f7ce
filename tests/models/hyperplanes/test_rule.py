import json
import pickle

import numpy as np
import pytest

from distsvc.models.hyperplanes.rule import TreeRule
from distsvc.models.hyperplanes.tree import GrowingTree

ROWS = np.random.default_rng(0).normal(scale=3.0, size=(400, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def tree():
    growing = GrowingTree.start(5, 3)
    growing.learn(ROWS, 0.5, 10.0, 1.0, 2**62, 5.0)
    growing.count(ROWS)
    return growing.with_rows("prune")


@pytest.mark.parametrize("k", [1, 2, 5])
def test_rows_are_labelled_by_the_cut(tree, k):
    rule = TreeRule(**vars(tree), cut_into=k)
    found = rule.label(ROWS)
    labels, margins = tree.cut(k).label(ROWS)
    assert list(found) == list(rule.meanings) == ["label", "score", "outlier"]
    assert found["label"].tobytes() == labels.tobytes()
    assert found["score"].tobytes() == margins.tobytes()
    assert [part.dtype for part in found.values()] == [np.int32, np.float32, bool]
    assert not found["outlier"].any()
    assert rule.n_clusters == k == len(set(labels))
    assert [len(part) for part in rule.label(ROWS[:0]).values()] == [0, 0, 0]


def test_a_rule_is_its_tree_and_a_number(tree):
    rule = TreeRule(**vars(tree), cut_into=4)
    assert rule.arrays().keys() == vars(tree).keys()
    assert rule.facts() == {"n_clusters": 4}
    rule.label(ROWS)
    assert rule.arrays().keys() == vars(tree).keys()
    facts = json.loads(json.dumps(rule.facts())) | {"algorithm": "imdh"}
    for again in (
        TreeRule.restored(facts, {**rule.arrays(), "origin": np.zeros(3)}),
        pickle.loads(pickle.dumps(rule)),
    ):
        assert again.n_clusters == 4
        assert again.label(ROWS)["label"].tobytes() == rule.label(ROWS)["label"].tobytes()


def test_its_words_say_that_no_row_is_outside():
    assert TreeRule.form == "imdh"
    assert not TreeRule.float64
    assert not TreeRule.words.has_outliers
    assert TreeRule.words.boundary is None
    assert "no row lies outside" in TreeRule.words.meaning
    assert "always false" in TreeRule.meanings["outlier"]
