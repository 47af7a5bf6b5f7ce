"""The labelling of FSVC: balls that cover the table, and their centres' climb to the equilibria.

| "Fast support-based clustering method for large-scale problems", Jung, Lee and Lee 2010 | here |
|---|---|
| radius of the balls that the table is divided into | ``ball_radius`` |
| distance below which points on their way are merged | ``merge_radius`` |
| descent of R^2 | ascent of f (the same trajectories' ends, since R^2 = const - 2 rho f) |
| points tested on a segment between two equilibria | `SAMPLES` |

The steps follow the authors' public program; which of its radii are the two parameters that Pham,
Le and Dang (2017) vary from 0.1 to 1 is not known. Departures:

* Bursts are steps of mean shift, not of a trust-region method, and a point has arrived when a burst
  moves it by less than `ARRIVED` sigma. Theirs is a squared move below 1e-3, whatever the kernel's
  width.
* A point that joins a neighbour which has arrived takes the nearest such one.
* Equilibria are told apart by `MERGE_TOLERANCE` after a last climb. Theirs are rounded to one
  decimal, which merges modes where gamma is large.
* A row takes the label of its nearest centre, not of the first that absorbed it, so that new rows
  are labelled alike. Both lie within ball_radius of it.
* Centres that climb to an equilibrium with f < 0 label nothing (`Clusters.from_equilibria`).
"""

from __future__ import annotations

import numpy as np

from distsvc.kernels import ascent, balls
from distsvc.models.support_vector.boundary.labelling import (
    CLIMB_STEPS,
    CLIMB_TOLERANCE,
    DecisionFunction,
)

BURST = 5
"""Steps that all points do before those that have arrived merge with others."""

ARRIVED = 1e-2
"""In units of sigma: what a burst moves a point by that has arrived, at most."""

SAMPLES = 9


def ball_centres(X: np.ndarray, keys: np.ndarray, radius: float) -> np.ndarray:
    """Return the centres (m, d) float32 of balls that cover the rows X (n, d) float32.

    Rows are taken in the order of their random keys (n,) uint64.
    """
    shuffled = np.ascontiguousarray(X[np.argsort(keys)])
    return shuffled[balls.ball_centres(shuffled, float(radius))]


def climb_together(f: DecisionFunction, X: np.ndarray, radius: float) -> np.ndarray:
    """Return where the points X (m, d) float32 end that climb f and merge on their way, (m, d).

    All points do a burst of steps. Then, once any has arrived, each in its order takes its
    neighbours, nearer than `radius`, along (`distsvc.kernels.balls.merge_neighbours`). Whether f
    falls between two of them is not looked at, as in the authors' program: `radius` is what decides
    how near two equilibria may be.
    """
    points, of = X.copy(), np.arange(len(X))
    arrived = np.zeros(len(X), bool)
    enough = ARRIVED * f.sigma
    for _ in range(CLIMB_STEPS // BURST):
        moving = np.flatnonzero(~arrived)
        if not moving.size:
            break
        before = points[moving]
        after = ascent.climb(before, f.S, f.a, f.gamma, CLIMB_TOLERANCE, BURST)
        points[moving] = after
        arrived[moving] = np.linalg.norm(after - before, axis=1) < enough
        if arrived.any():
            place = balls.merge_neighbours(points, arrived, float(radius))
            left, place = np.unique(place, return_inverse=True)
            points, arrived, of = points[left], arrived[left], place[of]
    return points[of]
