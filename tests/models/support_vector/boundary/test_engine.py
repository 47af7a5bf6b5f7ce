"""The papers' engine: the steps of a job, and results that no estimator shows."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from distsvc import SupportVectorClustering
from distsvc.models.support_vector.boundary import labelling
from distsvc.models.support_vector.boundary.labelling import Boundary
from distsvc.models.support_vector.engines import engine_for
from tests.models.support_vector.begun import begun, fitted

BOUNDARY = {"gamma": 8.0, "nu": 0.1}


def moons(n=1500):
    return make_moons(n, noise=0.05, random_state=0)[0]


def blobs(n=400):
    centres = [[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]
    return make_blobs(n, centers=centres, cluster_std=0.6, random_state=1)[0]


def find_clusters(engine, Z, keys):
    """Do phase two as a job does, with rows in three parts and trajectories in two."""
    f, limit = engine.decision, engine.parameters.boundary_size
    boundary = Boundary.empty(f)
    for part in np.array_split(np.arange(len(Z)), 3):
        found = Boundary.collect(f, Z[part], keys[part], engine.epsilon, limit)
        boundary = boundary.merge(found, limit)
    engine.boundary = boundary
    ends = [labelling.climb(f, part) for part in np.array_split(boundary.X, 2)]
    engine.set_equilibria(boundary.X, np.concatenate(ends))
    blocks = range(labelling.pair_blocks(len(engine.vertices)))
    samples = engine.parameters.segment_samples
    pairs = [labelling.connected_pairs(f, engine.vertices, block, samples) for block in blocks]
    engine.set_clusters(np.concatenate(pairs))


def assert_same_arrays(a, b):
    assert set(a) == set(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].tobytes() == b[name].tobytes()


@pytest.mark.parametrize(
    "parameters",
    [BOUNDARY, {"gamma": 8.0, "C": 0.5}, {"solver": "sgd"}, {"gamma": 8.0, "solver": "exact"}],
)
def test_training_is_restored_from_facts_and_arrays(parameters):
    X = moons(600)
    engine, keys = begun(X, **parameters)
    engine.note("said before training")
    Z, order = engine.seen(X), np.argsort(keys)
    engine.learn(Z[order], keys[order], len(Z))
    facts, arrays = engine.trained()
    again, _ = begun(X, **parameters)
    again.restore(json.loads(json.dumps(facts)), {name: a.copy() for name, a in arrays.items()})
    assert again.notes == engine.notes
    assert again.trained()[0] == facts
    for one in (engine, again):
        find_clusters(one, Z, keys)
    assert again.fitted_facts() == engine.fitted_facts()
    assert again.notes == engine.notes
    assert again.rule.facts() == engine.rule.facts()
    assert_same_arrays(again.rule.arrays(), engine.rule.arrays())
    assert_same_arrays(again.rule.label(Z), engine.rule.label(Z))


def test_evaluation_rows_of_a_large_table_are_held_out():
    engine = engine_for(SupportVectorClustering(8.0, max_iter=10**6).get_params(), 0)
    assert engine.key_ranges(20 * 2048 - 1)[0][0] == 0
    assert engine.key_ranges(20 * 2048)[0][0] == 2**64 // 20
    assert engine.key_ranges(20 * 2048)[-1][1] == 2**64


def test_too_many_rows_for_the_exact_solver_are_an_error():
    X = np.zeros((10_001, 1))
    X[0] = 1.0
    model = SupportVectorClustering(0.5, C=2.0, solver="exact", random_state=0)
    with pytest.raises(ValueError, match="takes at most 10000 rows, found 10001; give nu"):
        model.fit(X)
    with pytest.raises(ValueError, match="found 10001"):
        engine_for(model.get_params(), 0).set_pilot(X[:5], len(X))


def test_an_empty_boundary_is_widened_with_a_note():
    X, given = moons(), {"gamma": 8.0, "C": 50.0, "epsilon": 1e-12}
    engine = fitted(X, **given)
    assert engine.epsilon > 1e-12
    assert len(engine.boundary.X) >= 50
    found = r"epsilon was widened from 1e-12 to 0\.\d+: 0 of the 1500 tested rows lie within"
    with pytest.warns(UserWarning, match=found):
        model = SupportVectorClustering(**given, random_state=0).fit(X)
    assert (model.epsilon_, model.n_boundary_) == (engine.epsilon, engine.boundary.n_rows)
    assert len(model.notes_) == 1


def test_a_stream_stores_only_the_last_note_on_epsilon():
    engine, _ = begun(blobs(), **BOUNDARY, epsilon=1e-9)
    for block in np.array_split(blobs(), 3):
        engine.feed(engine.centred(block))
    assert sum("was widened" in note for note in engine.notes) == 1


def test_bridging_joins_along_the_data_and_only_inside():
    X = moons()
    bridged, straight = (fitted(X, bridging=bridging, **BOUNDARY) for bridging in (True, False))
    assert bridged.rule.n_clusters <= straight.rule.n_clusters
    assert len(bridged.vertices) > len(straight.vertices) == len(straight.equilibria)
    # every cluster of the papers' test lies within one cluster of ours
    labels = [engine.rule.labels(engine.seen(X)) for engine in (straight, bridged)]
    assert len(set(zip(*labels, strict=True))) == straight.rule.n_clusters


def test_pending_until_the_clusters_of_a_stream_are_found():
    X = blobs()
    engine, _ = begun(X, **BOUNDARY)
    assert not engine.streams
    for block in np.array_split(X, 3):
        engine.feed(engine.centred(block))
    assert engine.streams
    assert engine.pending
    assert engine.n_iter == len(X)
    engine.find_pending_clusters()
    assert not engine.pending
    before = engine.rule
    engine.feed(engine.centred(X))
    assert engine.pending
    engine.find_pending_clusters()
    assert engine.rule is not before
