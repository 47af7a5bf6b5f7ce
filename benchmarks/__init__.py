"""Measurements of distsvc, alone and side by side with others; `python -m benchmarks --help`.

One module answers one question. They report figures, with the bar beside a figure that has one, and
never pass or fail.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module

from distsvc.errors import DistsvcError

QUICK = ("kernels", "visual", "mdh_null", "structureless")
WITHOUT_DATA = ("forecast", "nights", "wide", "membership_cost", "cuts")
HOMES = {
    "kernels": ("kernels",),
    "visual": ("visual",),
    "structureless": ("mdh_null", "structureless"),
    "exactness": ("exactness",),
    "objective": ("objective",),
    "shuttle": ("shuttle", "levels_speed", "levels_workers"),
    "big": ("big", "levels_big", "mdh_big", "linear_big"),
    "blind": ("blind",),
    "blind_large": ("blind_large",),
    "given_k": ("given_k",),
    "hyperplanes": ("mdh_table", "divisive", "mdh_order"),
    "hyperplanes_speed": ("mdh_speed", "mdh_cost"),
    "linear": ("linear_exactness", "linear_speed"),
    "linear_outliers": ("linear_outliers",),
    "outliers": ("outliers",),
    "far_rows": ("far_rows",),
    "bico": ("bico",),
    "many": ("many",),
    "scale": ("scale", "kills"),
    "forecast": ("forecast",),
    "nights": ("nights", "nights_real"),
    "assign": ("assign",),
    "categories": ("categories",),
    "lazy": ("lazy",),
    "drift": ("drift_null", "drift_workers"),
    "wide": ("wide",),
    "membership": ("membership", "membership_cost"),
    "cuts": ("cuts",),
}
"""The module of each benchmark, which is the function of that name."""

NAMES = {name: home for home, names in HOMES.items() for name in names}


def benchmark(name: str) -> Callable[[Namespace], None]:
    """Return the function that measures."""
    return getattr(import_module(f"benchmarks.{NAMES[name]}"), name)


def run(name: str, options: Namespace) -> None:
    """Run one benchmark; an error that is the user's is one line."""
    try:
        benchmark(name)(options)
    except DistsvcError as error:
        sys.exit(f"{name}: {error}")
