"""Rows and parameters that the baselines refuse."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans

BAD = [
    *[(BICO, {name: 0}, " be a whole number of at least 1") for name in ("n_clusters", "size")],
    (BICO, {"n_init": 0}, " be a whole number of at least 1"),
    *[(FuzzyCMeans, {name: 0}, " be") for name in ("n_clusters", "max_iter", "n_init")],
    *[(FuzzyCMeans, one, " be") for one in ({"m": 1.0}, {"m": 0.0}, {"tol": -1.0})],
    *[(SPDC, one, " be") for one in ({"window": 49}, {"valley": -1.0}, {"bandwidth": 0.0})],
    *[(SPDC, one, " be") for one in ({"amnesia": -1.0}, {"max_clusters": 0})],
    *[(DePDDP, one, "") for one in ({"n_clusters": 0}, {"bandwidth": 0.0}, {"trim": 0.6})],
    *[(DePDDP, one, "") for one in ({"trim": -0.1}, {"min_samples": 0}, {"grid_size": 8})],
]


@pytest.mark.parametrize(("make", "given", "rest"), BAD)
def test_bad_parameters(make, given, rest):
    [name] = given
    with pytest.raises(ValueError, match=f"{name} must{rest}"):
        make(**given).fit(np.eye(20))


@pytest.mark.parametrize("model", [BICO(2), FuzzyCMeans(2), SPDC(), DePDDP()])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_rows(model, bad):
    with pytest.raises(ValueError, match="contains"):
        model.fit([[0.0, 1.0], [bad, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("model", [BICO(), SPDC()])
def test_not_fitted(model):
    with pytest.raises(NotFittedError):
        model.predict(np.eye(3))
