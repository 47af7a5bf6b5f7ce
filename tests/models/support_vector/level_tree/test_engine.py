"""The level tree's engine: which models are trained, and rounded values."""

import numpy as np
import pytest

from distsvc import SupportVectorClustering
from tests.models.support_vector.begun import begun
from tests.quiet_fits import quietly


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
    model = SupportVectorClustering(effort="fast", random_state=0)
    assert quietly(model, X).n_clusters_ == 1
