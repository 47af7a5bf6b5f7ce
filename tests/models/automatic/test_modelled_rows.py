"""Modelled rows: numbers whose values may be codes."""

import numpy as np
import pytest

from distsvc import AutoClustering
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.automatic.modelled_views import ModelledRows
from distsvc.models.columns.maps import AS_FOUND, GivenColumn
from distsvc.models.columns.model import ColumnModel, are_codes
from distsvc.models.mixture.population import quality_of
from distsvc.models.rows.sampling import row_keys

N = 3000
PORTS = np.array([22.0, 53.0, 80.0, 443.0, 8080.0])


def flows(seed=0):
    """Return ports, packets and bytes of one kind of flows; the port says nothing."""
    random = np.random.default_rng(seed)
    port = random.choice(PORTS, N, p=[0.1, 0.2, 0.1, 0.4, 0.2])
    packets = np.ceil(np.exp(3 + random.normal(size=N)))
    sizes = np.round(packets * np.exp(6 + 0.5 * random.normal(size=N)))
    return np.stack([port, packets, sizes, np.round(random.normal(size=N), 2)], axis=1)


def modelled(X):
    return ModelledRows.of(ColumnModel.of(X, np.zeros(X.shape[1], bool)), X, np.arange(len(X)))


def test_one_kind_of_rows_is_not_cut_along_a_code():
    X = flows()
    rows = modelled(X).populations(N, 1)
    cut = (X[:, 0] == 443.0).astype(np.int64)
    assert quality_of(rows, 0 * cut).bic > quality_of(rows, cut).bic


def test_a_code_is_the_place_of_a_value_that_is_not_missing():
    X = flows()
    X[5::7, 0] = np.nan
    codes = modelled(X).populations(1000, 1).number_codes.codes
    port = X[:1000, 0]
    expected = np.where(np.isnan(port), -1, np.searchsorted(PORTS, port))
    assert ((codes >= 0).any(axis=0)).sum() == 1
    assert (codes[:, codes.max(axis=0) >= 0].ravel() == expected).all()


def test_the_density_inside_a_cell_adds_up_to_1():
    X = flows()
    rows = modelled(X)
    codes, log_inside = rows.number_codes.codes, rows.number_codes.log_inside
    place = int(codes.max(axis=0).argmax())
    for code in (1, 2, 3):
        own = codes[:, place] == code
        draws = rows.scales[0].draws[own, place]
        order = np.argsort(draws)
        density = np.exp(log_inside[own, place][order])
        assert np.trapezoid(density, draws[order]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (PORTS, True),
        ([1, 3, 6, 12, 24, 36, 48, 60, 72, 180, 240, 360], True),
        ([1, 2, 3, 4, 5], False),
        ([0, 1, 2, 3, 4, 6, 9], False),
        ([1.0, 2.5, 7.0], False),
        (np.cumsum(np.arange(40.0)), False),
    ],
    ids=["ports", "terms", "ratings", "counts", "three values", "many values"],
)
def test_codes_are_few_values_with_different_gaps(values, expected):
    assert are_codes(np.asarray(values, float)) == expected


@pytest.mark.parametrize(
    ("given", "is_modelled"),
    [
        ([AS_FOUND, AS_FOUND], False),
        ([GivenColumn("continuous"), GivenColumn("share")], False),
        ([GivenColumn("continuous", "log"), AS_FOUND], True),
        ([AS_FOUND, GivenColumn("ordinal")], True),
    ],
)
def test_two_columns_are_modelled_if_a_kind_or_scale_is_given(given, is_modelled):
    X = np.random.default_rng(0).lognormal(size=(500, 2))
    keys, nominal = row_keys(0, np.arange(500)), np.zeros(2, bool)
    engine = AutomaticEngine(AutoClustering().get_params(), seed=0)
    columns = engine.model_columns(X, keys, nominal, given)
    assert (columns is not None) == is_modelled
    if given[0].scale == "log":
        assert columns.columns[0].map.scale == "log"
