"""Medians and spreads that ignore extreme rows, and columns whose scale these decide."""

import numpy as np
import pytest

from distsvc.models.rows.robust_scale import ColumnSpread, middle_and_spread

RANDOM = np.random.default_rng(0)
NORMAL = RANDOM.normal(5.0, 3.0, 10_000)


def of_all(values, pilot=10_000):
    """Return the statistics of a column, whose first values are the pilot's."""
    return ColumnSpread.of(values[:pilot], values.min(), values.max(), values.std())


def test_a_normal_column_has_its_mean_and_standard_deviation():
    middle, spread = middle_and_spread(NORMAL)
    assert middle == pytest.approx(5.0, abs=0.1)
    assert spread == pytest.approx(3.0, rel=0.03)


@pytest.mark.parametrize(
    ("equal", "share"), [(600, 0.1), (850, 0.05), (950, 0.01), (995, None), (999, None)]
)
def test_wider_quantiles_replace_equal_quartiles(equal, share):
    values = np.append(np.full(equal, 7.0), 7.0 + np.linspace(-2.0, 2.0, 1000 - equal))
    middle, spread = middle_and_spread(values)
    assert middle == 7.0
    if share is None:
        away = np.abs(np.linspace(-2.0, 2.0, 1000 - equal))
        assert spread == (np.median(away[away > 0]) if equal < 999 else 2.0)
    else:
        low, high = np.quantile(values, [share, 1 - share])
        assert spread == pytest.approx(
            (high - low) / {0.1: 2.563, 0.05: 3.290, 0.01: 4.653}[share], rel=1e-3
        )


@pytest.mark.parametrize("kind", ["standard", "minmax"])
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_extreme_rows_decide_the_scale_of_a_column(kind, count, n):
    if count > 0.025 * n:
        return
    column = of_all(np.append(NORMAL[:n], np.full(count, 1e9)))
    assert column.decided(kind)
    assert not column.near_as_log


@pytest.mark.parametrize("kind", ["standard", "minmax"])
@pytest.mark.parametrize("values", [
    NORMAL, np.exp(NORMAL / 3.0), RANDOM.exponential(size=10_000), RANDOM.standard_t(3.0, 10_000),
    np.append(np.zeros(9990), np.ones(10)), np.append(np.zeros(5000), np.full(5000, 1e9)),
    np.append(np.zeros(9000), RANDOM.integers(0, 255, 1000)),
    np.append(NORMAL, np.full(10, 200.0)), np.array([3.0, 3.0]), np.array([3.0, 1e9]),
])  # fmt: skip
def test_extreme_rows_do_not_decide_the_scale_of_ordinary_columns(values, kind):
    assert not of_all(values).decided(kind)
