"""Sums have one order and products one rounding, whatever the processor."""

import importlib
import os
import pkgutil
from pathlib import Path

import numba
import numpy as np
import pytest

import distsvc.kernels
from distsvc.kernels import lanes
from distsvc.kernels.jit import cache_folder
from distsvc.kernels.lanes import dot, fma, projection, square_distance, total
from tests.processes import python

ROOT = Path(__file__).parents[2]
PROCESSORS = {
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}
KERNELS = """
import hashlib
import numpy as np
from distsvc.kernels import hyperplanes, level_tree, linear, nearest, rbf, rows

random = np.random.default_rng(0)
X, S = random.normal(size=(300, 9)).astype("f4"), random.normal(size=(9, 77)).astype("f4")
a, ends = random.uniform(0.1, 1.0, 77).astype("f4"), np.array([30, 77])
near = np.empty(300)
nearest.log_nearness(X, S, 35, np.float32(0.01), near)
found = [near, rbf.weighted_sums(X, S, a, 0.1), level_tree.vote(X, S, a, ends, 0.05)]
found += [rows.project(X, S.T[:3]), rows.project(np.einsum("ij,kj->ik", X, X), X.T)]
V, means, rest = np.eye(7, 9, dtype="f4"), np.zeros((7, 9), "f4"), np.ones((2, 7))
visits, decays = np.zeros(7, np.int64), np.ones(1)
hyperplanes.learn(X, means, V, *rest, visits, 0.9, 10.0, 1.0, 1000, np.inf, decays)
children = np.array([[1, 2], [3, 4], [5, 6], *[[-1, -1]] * 4], np.int32)
found += hyperplanes.route(X, V, np.zeros(7), np.ones(7), children)
gradients, rows_of_X = np.empty(300), np.arange(300)
arrays = X.astype(float).ravel(), np.zeros(0, np.uint32), np.zeros(0, np.uint64)
linear.gradient(*arrays, S[:, 0].astype(float), np.zeros(300), 1.0, rows_of_X, gradients)
found += [means, V, rest, gradients]
for one in found:
    print(hashlib.sha256(np.ascontiguousarray(one).tobytes()).hexdigest()[:12])
"""


def in_lanes(x):
    """Return the sum of x (n,) float32 in the order that `lanes` documents."""
    found, start = np.float32(0.0), 0
    for n in lanes.LANES:
        stop = len(x) - len(x) % n
        parts = np.zeros(n, np.float32)
        for j in range(start, stop, n):
            parts += x[j : j + n]
        while len(parts) > 1:
            parts = parts[: len(parts) // 2] + parts[len(parts) // 2 :]
        found, start = found + parts[0], stop
    return found


@numba.njit
def compiled(x, y, v, wide):
    both = projection(v, x, y)
    return total(x), dot(x, y), square_distance(x, y), both[0], both[1], dot(x, wide)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 31, 32, 35, 36, 64, 1000])
def test_twin_sums(n):
    x, y, v = np.random.default_rng(n).normal(size=(3, n)).astype(np.float32)
    X, Y, V = (one.astype(np.float64) for one in (x, y, v))
    found = compiled(x, y, v, Y)
    wanted = X.sum(), X @ Y, (X - Y) @ (X - Y), V @ (X - Y), (X - Y) @ (X - Y), X @ Y
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found[-1], X @ Y, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [1, 37, 999])
def test_sums_are_in_the_documented_order(n):
    x = np.random.default_rng(n).lognormal(0.0, 5.0, n).astype(np.float32)
    assert compiled(x, x, x, x.astype(np.float64))[0] == in_lanes(x)


def test_fused_products_are_rounded_once():
    @numba.njit
    def fused(a, b, c):
        return fma(a, b, c)

    a = np.float32(1.0 + 2.0**-12)
    assert fused(a, a, np.float32(-1.0 - 2.0**-11)) == np.float32(2.0**-24)


def test_no_kernel_may_reorder_or_fuse_operations():
    names = [
        f"distsvc.kernels.{one.name}" for one in pkgutil.iter_modules(distsvc.kernels.__path__)
    ]
    found = [one for name in names for one in vars(importlib.import_module(name)).values()]
    kernels = [one for one in found if hasattr(one, "targetoptions")]
    assert len(kernels) > 50
    assert not [one.__name__ for one in kernels if one.targetoptions.get("fastmath")]


@pytest.mark.skipif(
    numba.config.DISABLE_JIT or os.uname().machine != "x86_64", reason="names of x86 processors"
)
def test_kernels_give_the_same_bytes_on_every_processor(tmp_path, capsys):
    exec(KERNELS, {})
    here = capsys.readouterr().out.split()
    assert len(here) == 11
    for name, variables in PROCESSORS.items():
        kept = (cache_folder() or tmp_path) / name  # compiled once for each state of the kernels
        own = {**os.environ, **variables, "NUMBA_CACHE_DIR": str(kept)}
        done = python("-c", KERNELS, cwd=ROOT, env=own, timeout=None)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == here, name
