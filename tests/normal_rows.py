"""Normally distributed rows in float32."""

import numpy as np


def normal(*shape, seed=0, spread=1.0):
    return np.random.default_rng(seed).normal(scale=spread, size=shape).astype(np.float32)


def rows(n, d=2, seed=0, spread=2.0):
    return normal(n, d, seed=seed, spread=spread)
