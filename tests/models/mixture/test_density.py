import numpy as np
import pytest

from distsvc.models.mixture.density import MixtureRows


@pytest.mark.parametrize("p", [1, 3, 8, 9, 16, 64, 65, 130])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.6])
def test_rows_are_grouped_by_their_missing_numbers(p, share):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(2000, p))
    X[rng.random(X.shape) < share] = np.nan
    X[0, -1] = np.nan
    rows = MixtureRows(X, np.zeros((len(X), 0), np.int32), np.zeros(0, np.int64)).by_pattern
    kinds, place = np.unique(~np.isnan(X), axis=0, return_inverse=True)
    place = place.ravel()
    np.testing.assert_array_equal(rows.order, np.argsort(place, kind="stable"))
    np.testing.assert_array_equal(np.diff(rows.starts), np.bincount(place))
    assert [(one[one >= 0]).tolist() for one in rows.present] == [
        np.flatnonzero(kind).tolist() for kind in kinds
    ]
    assert rows.X.tobytes() == X[rows.order].tobytes()
