"""Models that vote on the clusters: their parameters, training and tests.

Models differ in kernel width and in the number of leading directions. Each is an independent task,
which trains on its own stream of rows and then grows a tree.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from distsvc.kernels.rows import project
from distsvc.models.rows import sampling
from distsvc.models.rows.min_cluster_size import FLAT, few_points, least_mass
from distsvc.models.rows.threads import map_threads
from distsvc.models.rules.fields import Facts
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.boundary.kernel_width import density_gamma, parting_gamma
from distsvc.models.support_vector.boundary.labelling import DecisionFunction
from distsvc.models.support_vector.boundary.stochastic_gradient import StochasticGradient
from distsvc.models.support_vector.level_tree.directions import leading_directions
from distsvc.models.support_vector.level_tree.tree import LevelTree

Blocks = Callable[[int, sampling.Ranges, int], Iterable[np.ndarray]]

MOST_STEPS, FEWEST_STEPS, STEPS_A_ROW = 20_000, 4_000, 5
"""Steps of a model's stochastic gradient descent: `STEPS_A_ROW` for each row of the table, at
least `FEWEST_STEPS` and at most `MOST_STEPS`."""

PASSES = 500
"""Maximum number of passes of a model over the table."""

PENALTY = 2.0
"""Default C of the models. It is small, so that f is a density estimate; with a large C, f would be
flat in dense regions."""

BUDGET = 200
"""Default maximum number of support vectors of a model."""

SUBSPACES = (2, 3, 4, 6, 8, 12, 16)
"""Dimensions of the subspaces, such as 2 for the plane of the first two leading directions. Several
models are trained in each subspace."""

SIGNIFICANCE_ROWS = 100_000
"""Maximum number of rows on which a model's splits are tested. On more rows, even irrelevant splits
would be significant."""


@dataclass(frozen=True)
class Effort:
    """Models to train for one value of `effort`; subspaces are used above `FLAT` columns."""

    octaves: Sequence[float]  # log2 of a model's gamma, relative to `density_gamma`
    repeats: int  # number of models with each gamma
    octaves_in_subspaces: Sequence[float]  # like `octaves`, for each subspace
    repeats_in_subspaces: int  # like `repeats`, for each subspace
    subspaces: Sequence[int]  # numbers of leading directions of the subspaces


EFFORTS = {
    "fast": Effort((-1.0, 0.0, 1.0), 1, (-1.0, 1.0), 1, (2, 4, 8)),
    "default": Effort((-1.0, -0.5, 0.0, 0.5, 1.0), 2, (-1.0, 0.0, 1.0), 1, SUBSPACES),
    "thorough": Effort((-1.0, -0.5, 0.0, 0.5, 1.0), 4, (-1.0, -0.5, 0.0, 0.5, 1.0), 2, SUBSPACES),
}


@dataclass(frozen=True)
class Member:
    """Parameters of one of the models that vote."""

    n_components: int  # number of leading directions that it uses
    gamma: float
    C: float


@dataclass(frozen=True)
class Ensemble:
    """Parameters of all models that vote; a worker trains any of them."""

    components: np.ndarray  # (q, d) float32: directions, in the order of `leading_directions`
    members: list[Member]
    budget: int | None  # maximum number of support vectors of a member
    maintenance: str  # as in `StochasticGradient`
    projection_size: int
    steps: int  # number of steps of each member's descent
    seed: int
    sample_rows: int  # number of rows with the lowest keys, which train and test members
    ties: bool = False  # whether tests count rows exactly at a peak; true for few distinct rows

    def facts(self) -> Facts:
        """Return all fields except the components as JSON values, which `restored` reads."""
        return vars(self) | {"components": None, "members": [vars(m) for m in self.members]}

    @classmethod
    def restored(cls, facts: Facts, components: np.ndarray) -> Self:
        members = [Member(**member) for member in facts["members"]]
        return cls(**facts | {"components": components, "members": members})

    @property
    def rounds(self) -> tuple[list[int], list[int]]:
        """Indices of the members that are trained first, and of all other members.

        The first members have the middle width for each number of directions. If they agree, the
        other members are not trained.
        """
        order = sorted(range(len(self.members)), key=lambda i: self.members[i].gamma)
        of_each: dict[int, list[int]] = {}
        for number in order:
            of_each.setdefault(self.members[number].n_components, []).append(number)
        first = sorted(numbers[len(numbers) // 2] for numbers in of_each.values())
        return first, [i for i in range(len(self.members)) if i not in first]

    def view(self, Z: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, q) float32 of prepared rows Z (n, d) along the components."""
        return project(Z, self.components)

    def grow(
        self,
        number: int,
        pilot: np.ndarray,
        ranges: sampling.Ranges,
        blocks: Blocks,
    ) -> LevelTree:
        """Train a member on its own stream of rows, and grow its tree.

        ``blocks(stream, ranges, first)`` yields the coordinates (n, q) float32 of the rows in key
        ranges, from range number `first` on. The order of rows depends on `stream`, and each pass
        takes the ranges in another order. The mass of a branch is its share of the pilot (m, q).
        """
        member = self.members[number]
        descent = self._train(number, ranges, blocks)
        a = descent.coefficients.astype(np.float32)
        S = np.ascontiguousarray(descent.vectors[:, a > 0])
        rows = np.ascontiguousarray(pilot[:, : member.n_components])
        f = DecisionFunction(S, a[a > 0], member.gamma)
        return LevelTree.grow(f, rows, least_mass(len(pilot), member.n_components))

    def _train(self, number: int, ranges: sampling.Ranges, blocks: Blocks) -> StochasticGradient:
        member, epoch = self.members[number], number * self.steps
        q = member.n_components
        descent = StochasticGradient(
            q, member.gamma, member.C, self.budget, self.maintenance, self.projection_size,
            seed=self.seed + number,
        )  # fmt: skip
        while descent.n_steps < self.steps:
            order = sampling.epoch_order(self.seed, epoch, len(ranges), len(ranges))
            shuffled = [ranges[i] for i in order]
            for block in blocks(epoch, shuffled, 0):
                descent.feed(np.ascontiguousarray(block[: self.steps - descent.n_steps, :q]))
                if descent.n_steps >= self.steps:
                    break
            epoch += 1
        return descent

    @property
    def tested_rows(self) -> int:
        """Number of rows on which the splits of a member are tested."""
        return min(self.sample_rows, SIGNIFICANCE_ROWS)

    def tested_ranges(self, number: int, n_rows: int) -> sampling.Ranges:
        """Return the key ranges, in blocks, of the rows that test the splits of a member.

        If the sample has more than `tested_rows`, each member uses a different part of it.
        """
        high = sampling.key_threshold(n_rows, self.sample_rows)
        if self.tested_rows == self.sample_rows:
            return sampling.cut_keys(0, high, self.tested_rows)
        share = self.tested_rows / self.sample_rows
        start, width = high * number // len(self.members), int(high * share)
        over = max(start + width - high, 0)  # wraps around to the lowest keys
        ranges = sampling.cut_keys(start, start + width - over, self.tested_rows)
        return ranges + (sampling.cut_keys(0, over, self.tested_rows) if over else [])

    def test(self, number: int, tree: LevelTree, n_rows: int, blocks: Blocks) -> np.ndarray:
        """Return the sums (4, b) int64 that `LevelTree.tested` takes; `blocks` is as in `grow`."""
        sums = np.zeros((4, tree.n_branches), np.int64)
        for block in blocks(0, self.tested_ranges(number, n_rows), 0):
            tree.add_differences(block, sums, self.ties)
        return sums


def rows_of_sample(n_rows: int, max_iter: int) -> int:
    """Return the number of rows on which members are trained and tested."""
    return min(n_rows, max(max_iter, SIGNIFICANCE_ROWS))


def steps_of_member(n_rows: int, max_iter: int) -> int:
    """Return the number of steps of a member for a table of `n_rows`."""
    return min(max_iter, MOST_STEPS, max(FEWEST_STEPS, STEPS_A_ROW * n_rows), PASSES * n_rows)


def make_ensemble(
    pilot: np.ndarray, n_rows: int, given: Parameters, seed: int, n_jobs: int | None = 1
) -> Ensemble:
    """Return the models to train, from pilot rows (m, d) float32 of a table of `n_rows`.

    If gammas are given, there is one model for each gamma, in all features. Otherwise gammas lie
    around `density_gamma`, computed in each subspace. For more than 3 features, the subspaces are
    the first 2, 3, 4, 6, 8, 12, 16 and all `leading_directions`. Clusters often lie in few
    dimensions, where a density estimate needs fewer rows.

    If the table consists of few points with many rows each, `parting_gamma` replaces
    `density_gamma`. Kernels are then so narrow that every point is a peak.
    """
    d, points = pilot.shape[1], few_points(pilot)
    C = PENALTY if given.C is None else float(given.C)
    if not isinstance(given.gamma, str):
        components = np.eye(d, dtype=np.float32)
        members = [Member(d, float(gamma), C) for gamma in np.atleast_1d(given.gamma)]
    else:
        components = leading_directions(pilot)
        rows, width = (pilot, density_gamma) if points is None else (points, parting_gamma)
        view = project(rows, components)
        chosen, sizes = EFFORTS[given.effort], [d]
        octaves = list(chosen.octaves) * chosen.repeats
        if d > FLAT:
            most = view.shape[1]
            sizes = sorted({q for q in chosen.subspaces if q < most} | {most})
            octaves = list(chosen.octaves_in_subspaces) * chosen.repeats_in_subspaces
        middles = map_threads(lambda q: width(view[:, :q].astype(np.float64)), sizes, n_jobs)
        members = [
            Member(q, middle * 2.0**octave, C)
            for q, middle in zip(sizes, middles, strict=True)
            for octave in octaves
        ]
    return Ensemble(
        components,
        members,
        (given.budget or BUDGET) if given.solver == "bsgd" else None,
        given.maintenance,
        given.projection_size,
        steps_of_member(n_rows, given.max_iter),
        seed,
        rows_of_sample(n_rows, given.max_iter),
        ties=points is not None,
    )
