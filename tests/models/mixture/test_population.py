"""Populations: shapes that one cluster may have, and comparisons of partitions."""

import numpy as np
import pytest
from scipy.stats import expon, gamma, norm

from distsvc.kernels.mixture import MIN_RELATIVE_SD
from distsvc.models.mixture.population import (
    Population,
    PopulationRows,
    ScaledNumbers,
    _filled,
    described_numbers,
    quality_of,
    shifted_population,
)

N = 2000


def rows_of(*numbers, levels=None, n_levels=(), means=None, stored=None):
    Z = np.stack(numbers, axis=1)
    means = Z if means is None else np.stack(means, axis=1)
    means = (means - Z.mean(axis=0)) / Z.std(axis=0)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    levels = np.zeros((len(Z), 0), np.int64) if levels is None else levels
    scales = (ScaledNumbers(Z, means), *([] if stored is None else [stored]))
    present, flags = np.ones(Z.shape, bool), np.full(Z.shape[1], -1)
    return PopulationRows(scales, present, levels, np.array(n_levels, np.int64), flags)


def by(order, k=2):
    return np.argsort(np.argsort(order)) * k // len(order)


def one_better(rows, labels):
    one = quality_of(rows, np.zeros(len(rows), np.int64))
    return one.bic > quality_of(rows, labels).bic


def test_the_density_of_independent_normals_is_theirs():
    X = np.random.default_rng(0).normal(size=(N, 2))
    rows = rows_of(*X.T)
    found = Population.of(rows, np.arange(N))
    expected = norm.logpdf(rows.values, scale=np.sqrt(1.0 + MIN_RELATIVE_SD**2)).sum(axis=1)
    assert found.n_parameters.sum() == 4
    assert found.log_densities.sum(axis=0) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("rounding", [1e-3, 1e-6, 0.0])
def test_a_nearly_dependent_column_makes_no_clusters(rounding):
    x, z, e = np.random.default_rng(5).normal(size=(3, N))
    halves = (x > 0.0).astype(np.int64)
    rows = rows_of(x, z, x + 2.0 * z + rounding * np.where(halves, 1.0, 0.01) * np.abs(e))
    assert one_better(rows, halves)


@pytest.mark.parametrize("kind", ["linear", "curved", "wave", "product", "fan", "heavy", "skewed"])
def test_one_cluster_of_dependent_columns_is_not_cut(kind):
    random = np.random.default_rng(3)
    x, z, e = random.normal(size=(3, N))
    y = {
        "linear": x + 0.5 * e,
        "curved": 0.5 * x**2 + 0.5 * e,
        "wave": np.sin(2.0 * x) + 0.3 * e,
        "product": x * z + 0.3 * e,
        "fan": np.exp(0.3 * x) * e,
        "heavy": random.standard_t(4, N),
        "skewed": np.abs(e) * np.where(random.random(N) < 1 / 3, -0.5, 1.0),
    }[kind]
    rows = rows_of(x, z, y)
    assert one_better(rows, by(x))
    assert one_better(rows, by(y))


def exponentials():
    """Return four amounts and their sum as stored, and as normal scores with their log slopes."""
    parts = np.random.default_rng(2).exponential(size=(N, 4))
    stored = np.column_stack([parts, parts.sum(axis=1)])
    laws = [expon] * 4 + [gamma(4)]
    mapped = np.column_stack([norm.ppf(law.cdf(x)) for law, x in zip(laws, stored.T, strict=True)])
    slopes = [law.logpdf(x) for law, x in zip(laws, stored.T, strict=True)]
    return stored, mapped, norm.logpdf(mapped) - np.column_stack(slopes)


def test_parts_and_their_sum_are_one_cluster_as_stored():
    stored, mapped, log_slopes = exponentials()
    rows = rows_of(*mapped.T)
    both = rows_of(*mapped.T, stored=ScaledNumbers(stored, stored, log_slopes))
    assert both.order[-1] == 4
    assert both.scale_of[-1] == 1
    one = [quality_of(each, np.zeros(N, np.int64)).bic for each in (rows, both)]
    assert one[1] > one[0] + 1000.0
    assert one_better(both, by(stored[:, 4]))


def test_a_stored_density_counts_by_the_unit_of_the_mapped_one():
    mapped = exponentials()[1]
    Z = rows_of(*mapped.T).values
    rows = rows_of(*Z.T, stored=ScaledNumbers(7.0 * Z + 2.0, Z, np.full(Z.shape, np.log(7.0))))
    everything = np.arange(N)
    as_mapped, _ = described_numbers(rows, everything, np.zeros(5, np.int64))
    as_shifted, _ = described_numbers(rows, everything, np.ones(5, np.int64))
    assert as_shifted.mean(axis=1)[:4] == pytest.approx(as_mapped.mean(axis=1)[:4], abs=0.01)


def test_two_clusters_are_described_better_than_one():
    random = np.random.default_rng(4)
    y = random.integers(0, 2, N)
    rows = rows_of(*(random.normal(size=(3, N)) + 1.3 * y))
    assert not one_better(rows, y)
    assert one_better(rows, random.integers(0, 2, N))


def test_flags_that_depend_on_each_other_are_one_cluster():
    random = np.random.default_rng(5)
    first = random.random(N) < 0.5
    second = random.random(N) < np.where(first, 0.9, 0.1)
    levels = np.stack([first, second], axis=1).astype(np.int64)
    rows = rows_of(random.normal(size=N), levels=levels, n_levels=(2, 2))
    assert one_better(rows, first.astype(np.int64))


def test_columns_depend_on_values_and_not_on_the_noise_of_draws():
    random = np.random.default_rng(7)
    draw, e = random.normal(size=(2, N))
    count = np.digitize(draw, [-0.5, 0.5])
    load = (count - 1) ** 2 + 0.05 * e
    assert one_better(rows_of(draw, load, means=(count - 1, load)), count)
    assert not one_better(rows_of(draw, load), count)


def test_columns_that_clusters_share_are_described_once():
    random = np.random.default_rng(8)
    y = random.integers(0, 2, N)
    telling, idle = random.normal(size=(2, N)) + 2.0 * y, random.normal(size=(20, N))
    few, many = rows_of(*telling), rows_of(*telling, *idle)
    nought = np.zeros(N, np.int64)
    more = [[quality_of(rows, labels) for labels in (nought, y)] for rows in (few, many)]
    parameters = [two.n_parameters - one.n_parameters for one, two in more]
    assert parameters[1] < parameters[0] + len(idle)


def test_a_test_of_two_descriptions_on_further_rows_has_a_sign():
    random = np.random.default_rng(6)
    y = random.integers(0, 2, N)
    rows = rows_of(*(random.normal(size=(3, N)) + 2.0 * y))
    half = y[: N // 2]
    two, one = quality_of(rows, half), quality_of(rows, 0 * half)
    assert two.predicts_better_than(one) > 1.96
    assert one.predicts_better_than(two) < -1.96
    assert one.predicts_better_than(one) == 0.0


def test_clusters_that_differ_by_their_means_share_the_rest():
    random = np.random.default_rng(8)
    y = random.integers(0, 3, N)
    means = random.normal(size=(3, 8))
    columns = (random.normal(size=(N, 8)) + random.normal(size=(N, 1)) + means[y]).T
    rows = rows_of(*columns)
    parts = [Population.of(rows, np.flatnonzero(y == c)).n_parameters.sum() for c in range(3)]
    found = quality_of(rows, y)
    assert found.n_parameters < 0.6 * sum(parts)
    assert found.bic > quality_of(rows, np.minimum(y, 1)).bic
    assert found.bic > quality_of(rows, np.where(y == 0, by(columns[0]), y + 1)).bic


def test_a_shifted_population_has_the_density_of_each_cluster():
    random = np.random.default_rng(9)
    y = random.integers(0, 2, N)
    x = random.normal(size=N) + 3.0 * y
    z = 2.0 * x + np.where(y == 1, 5.0, 0.0) + random.normal(size=N)
    numbers = np.stack([x, z], axis=1)
    rows = PopulationRows(
        (ScaledNumbers(numbers, numbers),), np.ones((N, 2), bool),
        np.zeros((N, 0), np.int64), np.zeros(0, np.int64), np.full(2, -1),
    )  # fmt: skip
    density, n_parameters = shifted_population(rows, y, 2)
    expected = norm.logpdf(x - 3.0 * np.arange(2)[:, None])
    expected += norm.logpdf(z - 2.0 * x - 5.0 * np.arange(2)[:, None])
    assert n_parameters.tolist() == [3, 4]
    assert density.sum(axis=1).mean(axis=1) == pytest.approx(expected.mean(axis=1), abs=0.25)
    inside = density.sum(axis=1)[y, np.arange(N)]
    assert inside == pytest.approx(expected[y, np.arange(N)], abs=0.5)


def test_an_amount_depends_on_flags_and_no_flag_on_its_amount():
    """Numbers are x, z and amounts of x, in this order; the flag is 1 where there is no amount."""
    random = np.random.default_rng(10)
    x, noise, is_zero = random.normal(size=N), random.normal(size=(2, N)), random.random(N) < 0.6
    numbers = np.stack([np.where(is_zero, 5.0, x + 0.1 * noise[0]), x, noise[1]], axis=1)
    present = np.stack([~is_zero, np.ones(N, bool), np.ones(N, bool)], axis=1)
    rows = PopulationRows(
        (ScaledNumbers(numbers, numbers),), present, is_zero[:, None].astype(np.int64),
        np.array([2]), np.array([0, -1, -1]),
    )  # fmt: skip
    assert rows.order[-1] == 0
    assert (rows.leading.tolist(), rows.n_predictors.tolist()) == ([0, 1, 3], [2])
    assert (rows.ordered[0][2] == is_zero).all()
    whole = rows.population(np.arange(N))
    own = whole.log_densities[2, ~is_zero]
    assert own.mean() == pytest.approx(norm.logpdf(0.1 * noise[0], 0.0, 0.1).mean(), abs=0.15)
    assert (whole.log_densities[2, is_zero] == 0.0).all()
    assert whole.log_densities[3].mean() == pytest.approx(-0.673, abs=0.01)  # of a share of .6


def test_a_missing_predictor_is_the_mean_of_its_cluster():
    random = np.random.default_rng(11)
    y, present = np.repeat([0, 1], N // 2), np.ones((N, 2), bool)
    x = random.normal(size=N) + 6.0 * y
    present[::4, 0] = False
    numbers = np.stack([np.where(present[:, 0], x, -99.0), x + random.normal(size=N)], axis=1)
    rows = PopulationRows(
        (ScaledNumbers(numbers, numbers),), present, np.zeros((N, 0), np.int64),
        np.zeros(0, np.int64), np.full(2, -1),
    )  # fmt: skip
    filled = _filled(rows.ordered[0], rows.ordered_present, np.flatnonzero(y))
    at = rows.order.tolist().index(0)
    assert filled[at, ::4] == pytest.approx(x[(y == 1) & present[:, 0]].mean())
    assert (filled[at, 1::4] == x[1::4]).all()
