"""The level tree's engine: the steps of a job, and results that no estimator shows."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from distsvc import SupportVectorClustering
from distsvc.models.rows import sampling
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from tests.models.support_vector.begun import begun
from tests.quiet_fits import quietly


def blobs(n=300, d=2):
    centres = np.zeros((4, d))
    centres[:, :2] = [[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]]
    return make_blobs([n // 10, n // 5, 3 * n // 10, 4 * n // 10], centers=centres, random_state=0)[
        0
    ]


def quiet_fit(X, **parameters):
    given = {"effort": "fast", "random_state": 0} | parameters
    return quietly(SupportVectorClustering(**given), X)


@pytest.mark.parametrize(
    ("d", "parameters"),
    [
        (2, {}),
        (6, {"nu": 0.1}),
        (6, {"C": 30.0, "assignment": "nearest"}),
        (2, {"gamma": [1e-4, 2.0]}),
    ],
)
def test_the_steps_of_a_job_give_the_answer_of_fit(d, parameters):
    X = blobs(600, d)
    model = quiet_fit(X, **parameters)
    engine, keys = begun(X, effort="fast", **parameters)
    assert isinstance(engine, LevelTreeEngine)
    Z, order = engine.centred(X), np.argsort(keys)
    view, n = engine.ensemble.view(Z), len(X)

    def blocks(stream, ranges, first):
        return sampling.memory_blocks(view[order], keys[order], engine.seed, stream, ranges, first)

    ensemble, trees, sums = engine.ensemble, [], []
    for number in range(len(ensemble.members)):
        trees.append(ensemble.grow(number, engine.view, engine.key_ranges(n), blocks))
        of_parts = [np.zeros((4, trees[-1].n_branches), np.int64) for _ in range(3)]
        for part, some in zip(np.array_split(np.arange(n), 3), of_parts, strict=True):
            trees[-1].add_differences(view[part], some, ensemble.ties)
        sums.append(ensemble.test(number, trees[-1], n, blocks))
        assert sums[-1].tolist() == sum(of_parts).tolist()  # exact, whatever the cut
    engine.choose(list(zip(trees, sums, strict=True)))
    found = engine.rule.label(Z)
    assert found["label"].tobytes() == model.labels_.tobytes()
    assert found["score"].astype(float).tobytes() == model.decision_function(X).tobytes()
    assert engine.original(engine.support_vectors).tobytes() == model.support_vectors_.tobytes()
    assert engine.notes == model.notes_
    facts = engine.fitted_facts()
    assert (facts["gamma"], facts["C"]) == (model.gamma_, model.C_)
    assert facts["agreement"] == model.agreement_
    assert facts["n_models"] == len(trees)
    assert facts["n_components"] == len(model.tree_.S)
    assert facts["n_support_vectors"] == len(model.dual_coef_)
    assert facts["n_branches"] == model.tree_.n_branches
    assert facts["n_clusters"] == model.n_clusters_ == engine.rule.n_clusters


@pytest.mark.parametrize("distance", [9.0, 2.6, 0.0])
def test_all_models_are_trained_only_if_those_of_middle_width_disagree(distance):
    """Clear clusters, clusters that overlap, and one."""
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 6)) + distance * np.eye(6)[np.arange(900) % 3]
    engine, keys = begun(X, effort="default")
    rows, rounds, asked = engine.seen(X), engine.ensemble.rounds, []
    order = np.argsort(keys)
    engine.learn(rows[order], keys[order], len(rows))
    grown = engine._grown

    def train(part):
        asked.append(part)
        return [grown[number] for number in rounds[part]]

    engine.choose_early(train)
    found, n_models = engine.levels, engine.fitted_facts()["n_models"]
    if asked == [0]:
        assert found.winner.support == 1.0
        assert n_models == len(rounds[0])
    else:
        assert asked == [0, 1]
        assert n_models == len(grown)
        engine.choose(grown)
        assert engine.levels.winner.kept.tolist() == found.winner.kept.tolist()
        assert engine.levels.winner.standing == found.winner.standing
    assert (asked == [0]) == (distance == 9.0)


def test_a_grid_of_rounded_values_is_one_cluster():
    X = np.random.default_rng(0).integers(0, 5, (3000, 2)).astype(float)
    assert quiet_fit(X).n_clusters_ == 1
