"""Engines: the code of an algorithm that both its estimator and a job run."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts


class Engine(Protocol):
    """Learns from rows that its caller reads, scales and puts in random order.

    After `set_pilot`, each algorithm has its own steps; the last step makes a rule. An estimator
    runs the steps on arrays, a job runs them as phases.
    """

    notes: list[str]  # remarks so far
    centre: np.ndarray  # (d,) float64, subtracted from scaled rows; known after `set_pilot`

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the ranges of row keys that select the sample from a table of `n_rows` rows."""

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Set the centre, and everything else that is computed from the pilot.

        `pilot` (m, d) float64 are the scaled pilot rows of a table of `n_rows` rows.
        """

    def fitted_facts(self) -> Facts:
        """Return the numeric results of the fit."""
