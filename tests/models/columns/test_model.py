"""Models of columns: scales, draws from cells, flags, zeros, and irrelevant changes."""

import json

import numpy as np
import pytest
from scipy.stats import kstest, norm

from distsvc.models.columns.maps import GivenColumn
from distsvc.models.columns.model import CategoryColumn, ColumnModel, NumberColumn

N = 4000
ROWS = np.arange(N)


def model_of(*columns, nominal=None, given=None):
    X = np.stack(columns, axis=1).astype(float)
    nominal = np.zeros(X.shape[1], bool) if nominal is None else np.array(nominal)
    return X, ColumnModel.of(X, nominal, given)


def column(seed=0):
    return np.random.default_rng(seed).normal(size=N)


def test_values_off_the_scale_are_far():
    _, model = model_of(STORED["shares"])
    found = model.columns[0].map.mapped_to(np.array([-1e308, -1.0, 0.0, 1.0, 50.0, 1e308]), None)
    assert (np.diff(found) > 0.1).all()
    assert np.abs(found[[0, 1, -2, -1]]).min() > 5.0


PEAKS = np.where(column(1) < 0.0, 0.0, 9.0)
SHIFTED = {
    "continuous": PEAKS + (2.0**14 * column()).round() / 2.0**14,
    "rounded": PEAKS + (16.0 * column()).round() / 16.0,
    "ordinal": np.random.default_rng(0).integers(1, 6, N) - 3.0,
}


@pytest.mark.parametrize("offset", [1e6, 1e10])
@pytest.mark.parametrize("kind", SHIFTED)
def test_a_distant_column_is_prepared_as_one_about_0(kind, offset):
    X, model = model_of(SHIFTED[kind])
    far, other = model_of(SHIFTED[kind] + offset)
    assert other.prepared(far, ROWS) == pytest.approx(model.prepared(X, ROWS), abs=1e-4)
    ends = np.array([[-60.0], [60.0]])
    assert other.prepared(ends + offset) == pytest.approx(model.prepared(ends), rel=0.15)


def test_steps_of_a_distant_column_are_found_again():
    values = np.round(1e8 + column(), 2)
    _, model = model_of(values)
    own = model.columns[0]
    assert own.map.scale == "identity"
    assert own.describes(*np.unique(values[:3000], return_counts=True), GivenColumn())
    others = np.unique(values[:3000] + 0.003, return_counts=True)
    assert not own.describes(*others, GivenColumn())


def test_a_draw_lies_inside_its_cell():
    X, model = model_of(np.round(40 + 3 * column()))
    drawn, found = model.prepared(X, ROWS)[:, 0], model.columns[0].map
    low, high = (found._scores_in_cells(X[:, 0], np.full(N, share)) for share in (1e-9, 1 - 1e-9))
    assert ((drawn >= low - 1e-9) & (drawn <= high + 1e-9)).all()


STORED = {
    "rounded": np.round(40 + 3 * column(), 1),
    "lognormal": np.round(np.exp(4 + 0.7 * column()), 2),
    "counts": np.random.default_rng(1).poisson(9.0, N),
    "shares": np.round(1 / (1 + np.exp(-2 * column())), 3),
    "zero-inflated": np.where(column(1) < 0, 0.0, np.round(np.exp(4 + 0.7 * column()), 2)),
    "two peaks": np.where(column(1) < 0, column(), column() + 8.0),
    "ratings": np.random.default_rng(2).integers(1, 6, N),
}


COUNTS = {
    "of all sizes": np.round(np.exp(3 + 2.5 * column())),
    "of two sizes": np.round(np.exp(np.where(column(1) < 0, 2 + column(), 9 + 0.5 * column()))),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_the_middle_of_a_cell_lies_in_it_however_many_values_there_are(kind):
    X, model = model_of(COUNTS[kind])
    found = model.columns[0].map
    assert len(np.unique(X)) > 3 * len(found.values)
    scores = (found._scores_in_cells(X[:, 0], np.full(N, share)) for share in (0.4, 0.6))
    low, high = (np.interp(each, found.scores, found.targets) for each in scores)
    middle = model.prepared(X)[:, 0]
    assert ((low - 0.01 <= middle) & (middle <= high + 0.01)).all()


@pytest.mark.parametrize("kind", STORED)
def test_draws_as_stored_are_those_that_are_mapped(kind):
    X, model = model_of(STORED[kind])
    _, (draws, log_slopes, *_), values = model.draws(X, ROWS)
    mapped = model.prepared(X, ROWS)[:, model.layout.numbers]
    order = np.argsort(draws[:, 0])[: int(np.isfinite(draws).sum())]
    place, number = draws[order, 0], mapped[order, 0]
    assert (np.diff(number) >= -1e-9).all()
    assert np.array_equal(np.isnan(values), np.isnan(draws))
    inner = slice(len(order) // 10, -len(order) // 10)
    # The integral of the slope over mapped numbers is the range of the stored draws.
    slope = np.exp(log_slopes[order, 0])
    rise = np.concatenate([[0.0], np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(number))])
    assert np.ptp(rise[inner]) == pytest.approx(np.ptp(place[inner]), rel=0.05)


def test_a_flag_is_a_normal_variable_with_a_threshold():
    X, model = model_of(column() > 0.5, column(1))
    assert isinstance(model.columns[0], CategoryColumn)
    drawn = model.prepared(X, ROWS)[:, 0]
    assert kstest(drawn, norm.cdf).pvalue > 0.01
    assert drawn[X[:, 0] == 1].min() > drawn[X[:, 0] == 0].max()


def test_a_column_without_repeated_values_is_not_zero_inflated():
    X = np.exp(np.random.default_rng(0).normal(size=(1000, 1))) + 10.0
    assert ColumnModel.of(X, np.zeros(1, bool)).columns[0].kind == "continuous"


def test_a_zero_inflated_column_needs_amounts():
    amounts = np.where(np.arange(N) % 3 == 0, 0.0, np.round(np.exp(4 + 0.7 * column()), 2))
    found = model_of(amounts, column())[1].columns[0]
    assert found.kind == "zero-inflated"
    assert not found.describes(np.zeros(1), np.array([N]), GivenColumn())


def test_zeros_are_a_flag_and_an_amount_that_is_missing():
    random = np.random.default_rng(0)
    amounts = np.where(random.random(N) < 0.4, 0.0, np.round(np.exp(3 + random.normal(size=N)), 2))
    X, model = model_of(amounts, column())
    assert model.columns[0].spike == 0.0
    rows = model.layout.mixed(model.prepared(X))
    (place,) = np.flatnonzero(np.isnan(rows.X).any(axis=0))
    assert (np.isnan(rows.X[:, place]) == (amounts == 0)).all()
    assert (rows.levels[:, 0] == (amounts == 0)).all()


AMOUNTS = np.exp(4 + 0.7 * column())


def one_of(*values):
    return np.random.default_rng(1).choice(values, N, p=[0.43, 0.33, 0.17, 0.07])


INFLATED = {
    "amounts, a twentieth of them 0": (np.where(np.arange(N) % 20 == 0, 0.0, AMOUNTS), 0.0),
    "discounts, a third of them 100": (
        np.where(np.arange(N) % 3 == 0, 100.0, np.round(50 + 8 * column(), 1)),
        100.0,
    ),
    "shares that end at 100": (np.minimum(np.round(80 + 15 * column(), 1), 100.0), None),
    "fees of 0, of three kinds": (np.exp(0.2 * column()) * one_of(0.0, 29.0, 190.0, 900.0), 0.0),
    "seats": (np.maximum(np.round(one_of(1.0, 6.0, 45.0, 250.0) * (1 + 0.2 * column())), 1.0), 1.0),
    "counts": (np.random.default_rng(1).negative_binomial(1, 0.2, N), None),
    "counts, half of them 0": (np.random.default_rng(1).poisson(6.0, N) * (np.arange(N) % 2), 0.0),
    "times, evenly spread": (np.arange(N) / 288, None),
    "dates, three rows a day": (np.arange(N) // 3, None),
    "three codes": (np.resize([-1, -1, -1, 0, 1], N), None),
    "answers": (np.random.default_rng(1).choice(5, N, p=[0.5, 0.05, 0.2, 0.05, 0.2]), None),
}


@pytest.mark.parametrize("kind", INFLATED)
def test_a_column_is_zero_inflated_if_that_raises_its_bic(kind):
    values, spike = INFLATED[kind]
    _, model = model_of(values)
    assert model.columns[0].spike == spike


ROUNDED = {
    **STORED,
    **{kind: values for kind, (values, spike) in INFLATED.items() if spike is not None},
    "a flag of fractions": np.where(column() < 0.5, 0.1, 0.3),
    "fees of 0.1 and more": np.where(np.arange(N) % 3 == 0, 0.1, 0.2 + np.round(AMOUNTS, 2)),
    "three fractions": np.random.default_rng(3).choice([0.1, 0.7, 0.9], N, p=[0.1, 0.6, 0.3]),
}


@pytest.mark.parametrize("kind", ROUNDED)
def test_a_rounding_error_moves_no_prepared_value(kind):
    X, model = model_of(ROUNDED[kind])
    whole = model.prepared(X)
    others = X.astype(np.float32), np.nextafter(X, -np.inf), np.nextafter(X, np.inf)
    for other in others:
        assert model.prepared(other.astype(float)) == pytest.approx(whole, abs=1e-4)
        found, expected = (model.draws(one, ROWS)[1][0] for one in (other, X))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-4, nan_ok=True)


def test_values_that_differ_by_more_than_their_rounding_stay_apart():
    large = np.where(column() < 0.5, 2.0**30, 2.0**30 + 1)
    X, model = model_of(large)
    assert (model.prepared(X)[:, -1] == (column() >= 0.5)).all()
    X, model = model_of(np.where(np.arange(N) % 3 == 0, 0.0, AMOUNTS))
    assert (model.prepared(X + 1e-3 * AMOUNTS.min())[:, 2] == 0.0).all()


def test_missing_values_stay_missing_for_a_mixture_and_are_filled_for_trees():
    x = column()
    x[::7] = np.nan
    X, model = model_of(x, column(1))
    for numbers in (None, ROWS):
        rows = model.prepared(X, numbers)
        assert np.isfinite(rows).all()
        assert (np.isnan(model.layout.mixed(rows).X).any(axis=1) == np.isnan(x)).all()


def test_unknown_values_and_codes_are_accepted():
    codes = np.random.default_rng(0).integers(0, 3, N)
    _, model = model_of(np.round(40 + 3 * column()), codes, nominal=[False, True])
    rows = model.prepared(np.array([[1e9, 7.0], [-1e9, np.nan], [40.25, 1.0]]))
    assert np.isfinite(rows).all()
    assert rows[0, 0] > 5.0 > -5.0 > rows[1, 0]
    assert model.layout.mixed(rows).levels[:, 0].tolist() == [-1, -1, 1]


def test_a_model_is_restored_from_json_and_its_tables():
    random = np.random.default_rng(0)
    zeros = np.where(random.random(N) < 0.4, 0.0, np.exp(random.normal(size=N)))
    X, model = model_of(np.round(40 + 3 * column()), column() > 0, zeros, np.ones(N))
    content = json.loads(json.dumps(model.facts()))
    again = ColumnModel.restored(content, model.tables, model.salts)
    assert (again.prepared(X) == model.prepared(X)).all()
    assert (again.prepared(X, ROWS) == model.prepared(X, ROWS)).all()
    with pytest.raises(ValueError, match="array 'tables': expected"):
        ColumnModel.restored(content, model.tables[:-1], model.salts)


def test_components_are_restored_with_their_model():
    X, model = model_of(*np.random.default_rng(0).normal(size=(5, N)))
    model = model.along_components(X, ROWS)
    content = json.loads(json.dumps(model.facts()))
    again = ColumnModel.restored(content, model.tables, model.salts)
    assert (again.prepared(X, ROWS) == model.prepared(X, ROWS)).all()
    assert (again.layout.numbers == model.layout.numbers).all()
    assert (model.prepared(X[:1], ROWS[:1]) == model.prepared(X, ROWS)[:1]).all()
    with pytest.raises(ValueError, match=r"array 'tables': expected .* and 5 for each component"):
        ColumnModel.restored(content, model.tables[:-1], model.salts)


def test_float32_rows_have_the_model_of_their_float64_values():
    X = np.stack([*STORED.values()], axis=1).astype(np.float32)
    one, other = (ColumnModel.of(rows, np.zeros(X.shape[1], bool)) for rows in (X, X.astype(float)))
    assert one.facts() == other.facts()
    assert np.array_equal(one.tables, other.tables)


def test_a_job_gives_kinds_and_scales():
    x = np.round(np.exp(1 + 0.3 * column()))
    given = [GivenColumn("continuous", "root")]
    assert model_of(x, given=given)[1].columns[0].map.scale == "root"
    assert model_of(x, given=given)[1].columns[0].map.step == 0.0
    assert isinstance(model_of(x, given=[GivenColumn("category")])[1].columns[0], CategoryColumn)
    ordinal = model_of(x, given=[GivenColumn("ordinal")])[1].columns[0]
    assert isinstance(ordinal, NumberColumn)
    share = np.mean(x <= 2)
    middle = np.interp(2.5, ordinal.map.places, ordinal.map.scores)
    assert norm.cdf(middle) == pytest.approx(share)


def test_the_kind_that_was_found_can_be_given_and_changes_nothing():
    random, chosen = np.random.default_rng(3), np.random.default_rng(4)
    found = {
        "continuous": column(),
        "rounded": np.round(column(), 1),
        "count": random.poisson(3, N),
        "zero-inflated": np.where(random.random(N) < 0.4, 0.0, AMOUNTS.round(2)),
        "ordinal": random.choice(5, N, p=[0.4, 0.05, 0.05, 0.2, 0.3]),
        "binary": random.integers(0, 2, N),
        "category": random.integers(0, 4, N),
    }
    given = [GivenColumn(kind) for kind in found]
    nominal = [kind == "category" for kind in found]
    X, model = model_of(*found.values(), nominal=nominal)
    assert [one.kind for one in model.columns] == list(found)
    _, same = model_of(*found.values(), nominal=nominal, given=given)
    assert (same.facts(), same.tables.tolist()) == (model.facts(), model.tables.tolist())
    later = X[chosen.permutation(N)[: N // 2]]
    kept = ColumnModel.of(later, np.array(nominal), before=model)
    same = ColumnModel.of(later, np.array(nominal), given, before=model)
    assert (same.facts(), same.tables.tolist()) == (kept.facts(), kept.tables.tolist())


@pytest.mark.parametrize(
    ("values", "spike"),
    [
        (np.random.default_rng(1).poisson(5.0, N), 0.0),
        (100.0 - np.random.default_rng(1).poisson(3.0, N), 100.0),
        (np.resize([0, 1, 2, 1], N), 0.0),
        (np.resize([0, 1, 2], N), 0.0),
    ],
)
def test_a_given_zero_inflated_column_has_its_commonest_end_as_spike(values, spike):
    given = [GivenColumn("zero-inflated")]
    assert model_of(values)[1].columns[0].spike is None
    X, model = model_of(values, given=given)
    (found,) = model.columns
    assert (found.kind, found.spike) == ("zero-inflated", spike)
    assert np.isfinite(model.prepared(X, ROWS)).all()
    assert model_of(np.resize([0, 1], N), given=given)[1].columns[0].kind == "binary"


def tonight(seed):
    random = np.random.default_rng(seed)
    amounts = np.round(np.exp(3 + random.normal(size=N)), 1) * (random.random(N) < 0.6)
    counts, codes = random.poisson(3, N), random.integers(4, size=N)
    return model_of(amounts, counts, codes, nominal=[False, False, True])


def test_columns_that_have_not_changed_keep_the_model_of_the_previous_run():
    before = tonight(1)[1]
    X, anew = tonight(2)
    kept = ColumnModel.of(X, np.array([False, False, True]), before=before)
    assert (kept.tables == before.tables).all()
    assert (kept.salts == before.salts).all()
    assert not (anew.salts == before.salts).any()


@pytest.mark.parametrize("kind", ["share", "rounded", "continuous", None])
@pytest.mark.parametrize("scale", ["logit", "identity", None])
def test_a_given_column_that_has_not_changed_keeps_its_model(kind, scale):
    random, given = np.random.default_rng(0), [GivenColumn(kind, scale)]
    before = model_of(random.beta(2, 5, N).round(3), given=given)[1]
    later = random.beta(2, 5, N).round(3)[:, None]
    kept = ColumnModel.of(later, np.zeros(1, bool), given, before)
    assert kept.columns[0] is before.columns[0]
    other = [GivenColumn(kind, "root")]
    anew = ColumnModel.of(later, np.zeros(1, bool), other, before).columns[0]
    assert (anew.map.scale == "root") == (anew is not before.columns[0])


def test_another_row_leaves_the_draws_of_the_others():
    random = np.random.default_rng(0)
    X = np.column_stack([random.poisson(9.0, 500), random.random(500) < 0.3, random.random(500)])
    more = np.vstack([X, [[3.0, 1.0, 0.123]]])
    rows = np.arange(501)
    one = ColumnModel.of(X, np.zeros(3, bool), rows=rows[:500])
    other = ColumnModel.of(more, np.zeros(3, bool), rows=rows)
    assert other.salts.tolist() == one.salts.tolist()


def test_columns_that_are_equal_in_a_few_rows_have_their_own_draws():
    X = np.zeros((3000, 4))
    X[[5, 1500], [0, 1]] = 1.0  # two rare flags
    X[:, 2], X[:, 3] = X[:, 0], np.arange(3000.0)
    salts = ColumnModel.of(X, np.zeros(4, bool)).salts.tolist()
    assert salts[0] == salts[2]
    assert len(set(salts)) == 3


def test_no_column_is_a_copy_of_a_column_of_one_value():
    group = np.repeat([0.0, 1.0], 50)
    X = np.column_stack([np.where(group, 7.0, np.nan), group, -group])
    model = ColumnModel.of(X, np.zeros(3, bool))
    assert [one is None for one in model.columns] == [True, False, True]


def test_draws_and_salts_follow_rows_in_any_order():
    X, _ = model_of(np.round(50 + 10 * column()), column(1) > 0)
    order = np.random.default_rng(2).permutation(N)
    nominal = np.zeros(2, bool)
    model = ColumnModel.of(X, nominal, rows=ROWS)
    other = ColumnModel.of(X[order], nominal, rows=ROWS[order])
    assert (other.salts == model.salts).all()
    assert (other.latent(X[order], ROWS[order]) == model.latent(X, ROWS)[order]).all()
