import os

import numba
import numpy as np
import pytest

from distsvc.kernels import jit, parts

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """A kernel and the function that it calls, both new to an empty cache."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(jit, "_FOLDER", tmp_path / "cache")

    @numba.njit
    def twice(x):
        return x + x

    def doubled(x):
        out = np.empty(x.shape[0] + 1)
        out[0] = 0.0
        for i in range(x.shape[0]):
            out[i + 1] = twice(x[i])
        return out

    kernel = jit.kernel(doubled)
    assert kernel(np.ones(2)).tolist() == [0.0, 2.0, 2.0]
    return kernel, twice


def library(function):
    [found] = function.overloads.values()
    return found.library


def test_only_the_kernel_has_machine_code(compiled):
    kernel, twice = compiled
    assert getattr(library(twice), parts.PART, False)
    assert not getattr(library(kernel), parts.PART, False)


def test_a_part_can_still_be_called_from_python(compiled):
    _, twice = compiled
    assert twice(1.5) == 3.0
    assert not getattr(library(twice), parts.PART, False)


def test_functions_of_others_can_use_the_same_parts(compiled):
    _, twice = compiled

    @numba.njit
    def other(x):
        out = np.empty(x.shape[0] + 1)
        out[:] = twice(x[0])
        return out

    assert other(np.ones(1)).tolist() == [2.0, 2.0]
    assert other(np.ones(2)).tolist() == [2.0, 2.0, 2.0]


def test_a_part_is_used_by_a_second_kernel(compiled):
    _, twice = compiled

    def quadrupled(x):
        return twice(twice(x[0]))

    assert jit.kernel(quadrupled)(np.ones(1)) == 4.0
