"""Timing lines of a fit's phases for verbose estimators."""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from distsvc.job.parameters import VERBOSE


class Verbose(Protocol):
    """Estimator with a parameter `verbose`."""

    verbose: int


class Phases:
    """Prints a line for each phase of an estimator's fit, unless its `verbose` is 0."""

    def __init__(self, estimator: Verbose):
        self._name, self._verbose = type(estimator).__name__, estimator.verbose
        VERBOSE.check("verbose", self._verbose)
        self._began = perf_counter()

    def ended(self, phase: str) -> float:
        """Print the phase and its duration if verbose; return the present time."""
        now = perf_counter()
        if self._verbose:
            print(f"[{self._name}] {phase}: {now - self._began:.1f} s", flush=True)
        self._began = now
        return now
