import numpy as np
import pytest

from distsvc import SupportVectorClustering
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.engines import engine_for, engine_for_blocks
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine


def given(**parameters):
    return SupportVectorClustering(**parameters).get_params()


@pytest.mark.parametrize(
    ("parameters", "by_levels"),
    [
        ({}, True),
        ({"gamma": [0.5, 1.0]}, True),
        ({"gamma": (0.5,), "solver": "sgd"}, True),
        ({"gamma": np.array([0.5, 1.0])}, True),
        ({"gamma": np.array(0.5)}, True),
        ({"gamma": 0.5, "labelling": "level-tree"}, True),
        ({"solver": "sgd", "labelling": "level-tree"}, True),
        ({"gamma": 0.5, "n_clusters": 3}, True),
        ({"gamma": 0.5}, False),
        ({"gamma": np.float32(0.5)}, False),
        ({"labelling": "equilibria"}, False),
        ({"labelling": "balls"}, False),
        ({"labelling": "complete-graph"}, False),
        ({"solver": "sgd"}, False),
        ({"solver": "exact"}, False),
    ],
)
def test_the_default_is_the_level_tree(parameters, by_levels):
    engine = engine_for(given(**parameters), 7)
    assert type(engine) is (LevelTreeEngine if by_levels else BoundaryEngine)
    assert engine.seed == 7
    assert engine.notes == []


@pytest.mark.parametrize("parameters", [{}, {"gamma": 0.5}, {"solver": "sgd"}])
def test_blocks_are_labelled_by_equilibria(parameters):
    assert type(engine_for_blocks(given(**parameters), 0)) is BoundaryEngine


@pytest.mark.parametrize("make", [engine_for, engine_for_blocks])
def test_parameters_are_checked(make):
    with pytest.raises(ValueError, match="give nu or C, not both"):
        make(given(nu=0.1, C=1.0), 0)
