"""The labelling of FSVC: balls cover the table, and their centres climb to the equilibria.

| "Fast support-based clustering method for large-scale problems", Jung, Lee and Lee 2010 | here |
|---|---|
| radius of the balls that the table is divided into | ``ball_radius`` |
| distance below which moving points are merged | ``merge_radius`` |
| descent of R^2 | ascent of f (trajectories with the same ends, since R^2 = const - 2 rho f) |
| points tested on a segment between two equilibria | `SAMPLES` |

The steps follow the authors' public program. Pham, Le and Dang (2017) vary two parameters from 0.1
to 1; which of the program's radii these are is not known. Departures:

* Bursts are steps of mean shift, not of a trust-region method. A point has arrived if a burst moves
  it by less than `ARRIVED` sigma; theirs is a squared move below 1e-3, whatever the kernel's width.
* A point that joins a neighbour that has arrived takes the nearest such neighbour.
* After a last climb, equilibria closer than `MERGE_TOLERANCE` are one. Theirs are rounded to one
  decimal, which merges modes if gamma is large.
* A row takes the label of its nearest centre, not of the first that absorbed it, so that new rows
  are labelled alike. Both are within ball_radius of it.
* Centres that climb to an equilibrium with f < 0 label nothing (`Clusters.from_equilibria`).
"""

from __future__ import annotations

import numpy as np

from distsvc.kernels import equilibria
from distsvc.models.support_vector.boundary.labelling import (
    CLIMB_STEPS,
    CLIMB_TOLERANCE,
    DecisionFunction,
)

BURST = 5
"""Steps of all points before those that have arrived absorb others."""

ARRIVED = 1e-2
"""Maximum move in a burst, in units of sigma, of a point that has arrived."""

SAMPLES = 9


def ball_centres(X: np.ndarray, keys: np.ndarray, radius: float) -> np.ndarray:
    """Return the centres (m, d) float32 of balls that cover the rows X (n, d) float32.

    Rows are taken in the order of their random keys (n,) uint64.
    """
    shuffled = np.ascontiguousarray(X[np.argsort(keys)])
    return shuffled[equilibria.ball_centres(shuffled, float(radius))]


def climb_together(f: DecisionFunction, X: np.ndarray, radius: float) -> np.ndarray:
    """Return the ends (m, d) of points X (m, d) float32 that climb f and merge on their way.

    All points do a burst of steps. Once any has arrived, points absorb neighbours nearer than
    `radius` (`distsvc.kernels.equilibria.merge_neighbours`). As in the authors' program, f between
    two points is not tested: `radius` alone decides how near two equilibria may be.
    """
    points, member = X.copy(), np.arange(len(X))
    arrived = np.zeros(len(X), bool)
    for _ in range(CLIMB_STEPS // BURST):
        moving = np.flatnonzero(~arrived)
        if not moving.size:
            break
        before = points[moving]
        after = equilibria.climb(before, f.S, f.a, f.gamma, CLIMB_TOLERANCE, BURST)
        points[moving] = after
        arrived[moving] = np.linalg.norm(after - before, axis=1) < ARRIVED * f.sigma
        if arrived.any():
            target = equilibria.merge_neighbours(points, arrived, float(radius))
            remaining, target = np.unique(target, return_inverse=True)
            points, arrived, member = points[remaining], arrived[remaining], target[member]
    return points[member]
