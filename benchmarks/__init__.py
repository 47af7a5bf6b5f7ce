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
WITHOUT_DATA = ("forecast", "flag", "nights", "wide", "membership_cost", "cuts", "pins", "calls",
    "realistic", "advice", "stream")  # fmt: skip
HOMES = {
    "methods.kernels": ("kernels",),
    "methods.calls": ("calls",),
    "quality.visual": ("visual",),
    "quality.structureless": ("mdh_null", "structureless"),
    "quality.disturbances": ("mdh_disturbed",),
    "methods.exactness": ("exactness",),
    "methods.objective": ("objective",),
    "papers.printed": ("printed",),
    "jobs.shuttle": ("shuttle", "levels_speed", "levels_workers"),
    "jobs.big": ("big", "levels_big", "mdh_big", "linear_big"),
    "quality.blind": ("blind",),
    "quality.blind_large": ("blind_large",),
    "quality.given_k": ("given_k",),
    "quality.stability": ("stability",),
    "papers.hyperplanes": ("mdh_table", "divisive", "mdh_order"),
    "methods.hyperplanes_speed": ("mdh_speed", "mdh_cost"),
    "methods.linear": ("linear_exactness", "linear_speed"),
    "quality.linear_outliers": ("linear_outliers",),
    "quality.outliers": ("outliers",),
    "quality.flag": ("flag",),
    "quality.far_rows": ("far_rows",),
    "methods.bico": ("bico",),
    "jobs.many": ("many",),
    "jobs.scale": ("scale", "kills"),
    "jobs.forecast": ("forecast",),
    "nights.nights": ("nights", "nights_real"),
    "jobs.assign": ("assign",),
    "quality.categories": ("categories",),
    "realistic.run": ("realistic",),
    "realistic.advice": ("advice",),
    "jobs.lazy": ("lazy",),
    "nights.drift": ("drift_null", "drift_workers"),
    "jobs.wide": ("wide",),
    "quality.membership": ("membership", "membership_cost"),
    "jobs.cuts": ("cuts",),
    "jobs.stream": ("stream",),
    "jobs.beside_k_means": ("beside_k_means",),
    "jobs.pins": ("pins",),
}
"""The benchmarks of each module: functions of those names."""

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
