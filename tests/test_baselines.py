import pytest
from sklearn.base import clone

from distsvc import baselines


@pytest.mark.parametrize("name", baselines.__all__)
def test_public_names(name):
    assert name in dir(baselines)
    model = getattr(baselines, name)()
    assert clone(model).get_params() == model.get_params()
    assert type(model).__name__ == name
    assert type(model).__doc__.rstrip()


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="has no attribute 'KMedoids'"):
        _ = baselines.KMedoids
