"""Arguments that `fit` refuses, with the reason."""

import numpy as np
import pytest
from sklearn.utils.validation import has_fit_parameter

from distsvc import LinearSVDD
from distsvc.errors import UnusableRowsError
from distsvc.models.estimators import ESTIMATORS


@pytest.mark.parametrize("algorithm", ESTIMATORS)
def test_weights_of_rows_are_refused_with_a_remedy(algorithm):
    estimator, X = ESTIMATORS[algorithm](), np.eye(4)
    assert not has_fit_parameter(estimator, "sample_weight")
    for fit in estimator.fit, estimator.fit_predict:
        with pytest.raises(TypeError, match=r"takes no sample_weight: .* np\.repeat\(X, counts"):
            fit(X, sample_weight=np.ones(4))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        estimator.fit(X, weights=np.ones(4))


def test_missing_and_complex_values_are_named():
    X = np.ones((5, 3))
    X[2, 1] = np.nan
    with pytest.raises(UnusableRowsError, match=r"X contains NaN, first in row 2, column 1: .*"):
        LinearSVDD().fit(X)
    with pytest.raises(UnusableRowsError, match=r"^Complex data not supported: .*real ones$"):
        LinearSVDD().fit(np.ones((5, 3), complex))
