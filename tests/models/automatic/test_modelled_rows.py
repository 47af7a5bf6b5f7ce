"""Modelled rows: numbers that are codes, counts and rounded values."""

import numpy as np
import pytest

from distsvc import AutoClustering
from distsvc.errors import DataError
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.automatic.modelled_rows import ModelledRows
from distsvc.models.columns.maps import AS_FOUND, GivenColumn
from distsvc.models.columns.model import ColumnModel
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


def test_one_kind_of_rows_is_not_cut_along_a_count():
    random = np.random.default_rng(1)
    kind = random.choice(3, N, p=[0.5, 0.3, 0.2])
    items = 1 + random.poisson(np.array([1.0, 20.0, 300.0])[kind])
    X = np.stack([items, np.round(np.exp(2.0 * kind + 0.3 * random.normal(size=N)), 2)], axis=1)
    rows = modelled(X).populations(N, 1)
    cut = np.where((kind == 0) & (items == 1), 3, kind)
    assert quality_of(rows, kind).bic > quality_of(rows, cut).bic + 10.0


def test_amounts_of_a_common_factor_are_one_cluster():
    random = np.random.default_rng(0)
    factor, noise = random.normal(size=N), random.normal(size=(2, N))
    spend = np.exp(4 + 0.8 * factor + 0.5 * noise[0]).round(2)
    returns = np.exp(2 + 0.5 * factor + 0.6 * noise[1]).round(2)
    returns[random.random(N) < 0.7] = 0.0
    visits, is_member = random.poisson(np.exp(1 + factor / 2)), factor + random.logistic(size=N) > 0
    X = np.column_stack([spend, visits, returns, is_member])
    assert AutoClustering(random_state=0).fit(X).n_clusters_ == 1


def test_cells_of_rounded_numbers():
    X = flows()
    X[5::7, 0] = np.nan
    X = np.column_stack([X, np.random.default_rng(2).normal(size=N)])
    rows = modelled(X)
    cells, port = rows.populations(1000, 1).cells, X[:1000, 0]
    expected = np.where(np.isnan(port), -1, np.searchsorted(PORTS, port))
    place = list(rows.columns.layout.numbers).index(rows.columns.firsts[0])
    assert (cells.indices[:, place] == expected).all()
    assert (cells.indices[:, -1] == -1).all()
    chances = [cells.chances[expected == code, place] for code in range(len(PORTS))]
    assert all(np.ptp(one) == 0.0 for one in chances)
    assert sum(one[0] for one in chances) == pytest.approx(1.0, abs=0.01)
    for code in (1, 2, 3):  # the density inside a cell adds up to 1
        own = rows.cells.indices[:, place] == code
        draws = rows.scales[0].draws[own, place]
        order = np.argsort(draws)
        density = np.exp(rows.cells.log_inside[own, place][order])
        assert np.trapezoid(density, draws[order]) == pytest.approx(1.0, abs=0.05)


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


@pytest.mark.parametrize(("view", "seed"), [("graph", 0), ("mixture", 1)])
def test_a_wrong_value_is_outside_if_no_cluster_fits_the_row(view, seed):
    random = np.random.default_rng(seed)
    kind = random.choice(3, N, p=[0.5, 0.3, 0.2])
    use = np.exp(np.array([7.8, 8.5, 10.5])[kind] + 0.35 * random.normal(size=N))
    cost = 0.3 * use * np.exp(0.08 * random.normal(size=N))
    others = np.array([[0, 0], [2, 0], [1, 3]])[kind] + random.normal(size=(N, 2))
    X = np.column_stack([use, cost, others, random.normal(size=(N, 2))])
    wrong = np.flatnonzero(kind == 0)[:5]
    X[wrong, 0] *= 10.0  # a digit too many; rows of the third kind have such values
    found = AutoClustering(random_state=0).fit(X)
    rule, outside = found._rule, found.score_samples(X) < 0.0
    assert found.algorithm_ == view
    assert outside[wrong].all()
    of_before = {n: v for n, v in rule.arrays().items() if n not in ("floors", "spreads")}
    near = type(rule).restored(rule.facts(), of_before)
    Z = found._engine.columns.centred(X, found._engine.origin)
    far = near.scores(Z) < 0.0
    assert far[wrong].sum() <= 1, "they are near other rows"
    far[wrong] = True
    assert (outside == far).all()
    assert (rule.labels(Z) == near.labels(Z)).all()
    damaged = rule.arrays() | {name: np.ones(9) for name in ("floors", "spreads")}
    with pytest.raises(DataError, match="array floors: expected 2 values, found 9"):
        type(rule).restored(rule.facts(), damaged)
