import numpy as np
import pytest

from distsvc.models.baselines.density import binned_density, lowest_minimum, normal_bandwidth


def exact(positions, bandwidth, places):
    """The sum of kernels, computed for one place after another."""
    scale = len(positions) * bandwidth * np.sqrt(2.0 * np.pi)
    return np.array(
        [np.exp(-0.5 * ((p - positions) / bandwidth) ** 2).sum() / scale for p in places]
    )


def sample(n=700, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(-3.0, 1.0, n // 3), rng.normal(2.0, 0.5, n - n // 3)])


@pytest.mark.parametrize("factor", [0.2, 0.9, 1.06, 3.0])
def test_the_binned_density_equals_the_sum_of_kernels(factor):
    positions = sample()
    h = normal_bandwidth(positions, factor)
    grid, density = binned_density(positions, h, 512)
    np.testing.assert_allclose(density, exact(positions, h, grid), atol=0.005 * density.max())
    fine, finer = binned_density(positions, h, 2**14)
    np.testing.assert_allclose(finer, exact(positions, h, fine), atol=2e-5 * finer.max())
    step = fine[1] - fine[0]
    assert finer.sum() * step == pytest.approx(1.0, abs=0.01)


def test_the_lowest_minimum():
    rng = np.random.default_rng(0)
    means, shares = (0.0, 5.0, 20.0), (4000, 4000, 4000)
    positions = np.concatenate([rng.normal(m, 1.0, n) for m, n in zip(means, shares, strict=True)])
    place, density = lowest_minimum(positions, 0.5, 512, 1)
    assert 9.0 < place < 16.0
    assert density == 0.0
    place, density = lowest_minimum(positions[:8000], 0.5, 512, 1)
    assert place == pytest.approx(2.5, abs=0.4)
    assert density == pytest.approx(exact(positions[:8000], 0.5, [place])[0], rel=0.01)


def test_a_far_outlier_raises_the_bandwidth_to_one_step():
    grid, density = binned_density(np.append(sample(), 1e9), 0.2, 512)
    assert len(grid) == 2**17
    assert np.isfinite(density).all()
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.01)
