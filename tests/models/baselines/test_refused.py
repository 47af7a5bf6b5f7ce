"""Rows and parameters that the baselines refuse."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans


@pytest.mark.parametrize("model", [BICO(2), FuzzyCMeans(2), SPDC(), DePDDP()])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_rows(model, bad):
    with pytest.raises(ValueError, match="contains"):
        model.fit([[0.0, 1.0], [bad, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("model", [BICO(), SPDC()])
def test_not_fitted(model):
    with pytest.raises(NotFittedError):
        model.predict(np.eye(3))
