"""Rules whose clusters are merged, because they are small or too many."""

import pickle

import numpy as np
import pytest

from distsvc.errors import DataError
from distsvc.models.baselines.rules import Centres
from distsvc.models.rules.joined import clusters_to_join, joined, joined_form

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [1.5, 0.0], [10.0, 2.0]])


@pytest.fixture
def rule():
    return Centres(CENTRES.astype(np.float64))


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    sizes = (300, 200, 100, 20, 10)
    parts = [random.normal(c, 0.1, (n, 2)) for c, n in zip(CENTRES, sizes, strict=True)]
    return np.concatenate(parts)


def test_small_clusters_are_merged_with_the_nearest(rule, rows):
    assert clusters_to_join(rule, rows, None, 10.0) is None
    assert clusters_to_join(rule, rows, 5, 0.0) is None
    assert clusters_to_join(rule, rows, None, 30.0).tolist() == [0, 1, 2, 0, 1]
    assert clusters_to_join(rule, rows, 4, 0.0).tolist() == [0, 1, 2, 3, 1]
    assert clusters_to_join(rule, rows, 1, 0.0).tolist() == [0] * 5


def test_joined_clusters_are_numbered_by_their_rows(rule, rows):
    few = np.concatenate([rows[:50], rows[300:]])  # the first cluster is the fourth largest now
    into = clusters_to_join(rule, few, 3, 0.0)
    assert (np.diff(np.bincount(into[rule.labels(few)])) <= 0).all()


def test_a_joined_rule_labels_as_its_parts_do(rule, rows):
    into = np.array([0, 1, 2, 0, 1], np.int32)
    found = joined(rule, into)
    assert found.n_clusters == 3
    assert (found.labels(rows) == into[rule.labels(rows)]).all()
    columns = found.label(rows)
    assert (columns["label"] == found.labels(rows)).all()
    assert (columns["score"] == rule.label(rows)["score"]).all()
    shares = found.shares(rows)
    assert shares.shape == (len(rows), 3)
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert (shares.argmax(axis=1) == found.labels(rows)).mean() > 0.99
    form = joined_form(type(rule))
    again = form.restored(found.facts(), found.arrays(), d=2)
    assert (again.labels(rows) == found.labels(rows)).all()
    assert (pickle.loads(pickle.dumps(found)).labels(rows) == found.labels(rows)).all()
    assert form.form == "joined-centres"


def test_a_damaged_joined_rule_is_refused(rule):
    found = joined(rule, np.array([0, 1, 2, 0, 1]))
    arrays = found.arrays() | {"joined_into": np.array([0, 1], np.int32)}
    with pytest.raises(DataError, match="joined_into: expected 5 clusters, found 2"):
        type(found).restored(found.facts(), arrays, d=2)
    arrays = found.arrays() | {"joined_into": np.array([0, 1, 3, 0, 1], np.int32)}
    with pytest.raises(DataError, match="found a gap"):
        type(found).restored(found.facts(), arrays, d=2)
