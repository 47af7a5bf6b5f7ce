"""The models of a choice without labels: their parameters, training and weights.

They differ in the kernel's width and in the number of leading directions. Each is an independent
task: a sequential pass over its own stream of rows, and the growing of its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from distsvc.kernels.projection import project
from distsvc.models.rows import sampling
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint, Position, State
from distsvc.models.rows.mass import FLAT, few_points, least_mass
from distsvc.models.rows.threads import on_threads
from distsvc.models.rules.fields import Facts, check_fields, forms_of
from distsvc.models.support_vector.boundary.kernel_width import density_gamma, parting_gamma
from distsvc.models.support_vector.boundary.labelling import DecisionFunction
from distsvc.models.support_vector.boundary.stochastic_gradient import StochasticGradient
from distsvc.models.support_vector.boundary.training import DescentProgress
from distsvc.models.support_vector.level_tree.directions import leading_directions
from distsvc.models.support_vector.level_tree.tree import LevelTree, LowestPoints

Blocks = Callable[[int, sampling.Ranges, int], Iterable[np.ndarray]]

STEPS, FEWEST_STEPS, STEPS_A_ROW = 20_000, 4_000, 5
"""Steps of stochastic gradient descent of a member: most, fewest, and for each row of the table."""

PASSES = 500
"""Most passes over a table that has few rows."""

PENALTY = 2.0
"""C of the members: small, so that f is a density estimate and not yet flat where rows abound."""

BUDGET = 200

SUBSPACES = (2, 3, 4, 6, 8, 12, 16)

SIGNIFICANCE_ROWS = 100_000
"""Rows that each member's splits are tested on, where the table has so many. With more, splits that
matter to nobody would be significant."""


@dataclass(frozen=True)
class Effort:
    """The number of models: octaves about the middle gamma, their repeats, and subspaces."""

    octaves: Sequence[float]
    repeats: int
    octaves_in_subspaces: Sequence[float]
    repeats_in_subspaces: int
    subspaces: Sequence[int]


EFFORTS = {
    "fast": Effort((-1.0, 0.0, 1.0), 1, (-1.0, 1.0), 1, (2, 4, 8)),
    "default": Effort((-1.0, -0.5, 0.0, 0.5, 1.0), 2, (-1.0, 0.0, 1.0), 1, SUBSPACES),
    "thorough": Effort((-1.0, -0.5, 0.0, 0.5, 1.0), 4, (-1.0, -0.5, 0.0, 0.5, 1.0), 2, SUBSPACES),
}


@dataclass(frozen=True)
class Member:
    """One model to train: its leading components, its kernel and its trade-off."""

    n_components: int
    gamma: float
    C: float


@dataclass
class Growing(DescentProgress):
    """A member that is trained, and then finds the lowest points of its tree's edges."""

    points: LowestPoints | None = None

    def state(self) -> State:
        """Return facts and arrays; `restored` takes them back."""
        facts, arrays = super().state()
        return facts, arrays | (vars(self.points) if self.points is not None else {})

    def restored(self, facts: Facts, arrays: dict[str, np.ndarray]) -> Growing:
        """Return the member whose `state` these are, of the same descent; errors as there."""
        points = None
        if "heights" in arrays:
            check_fields(forms_of(LowestPoints), arrays, {"q": self.descent.vectors.shape[0]})
            points = LowestPoints(arrays["heights"], arrays["places"])
        course = super().restored(facts, arrays)
        return Growing(course.descent, course.position, course.history, points)


@dataclass(frozen=True)
class Ensemble:
    """The models to train; the same on the driver and on every worker.

    Rows are projected on `components` (q, d) float32, the leading directions first. Each member has
    `budget` support vectors and does `steps` steps; `maintenance` and `projection_size` are
    those of `StochasticGradient`. Members learn from, and test their splits on, the `sample_rows`
    rows of the table with the lowest keys. `ties` is whether the table is few points, each many
    rows: then rows that lie on a peak tell how dense it is.
    """

    components: np.ndarray
    members: list[Member]
    budget: int | None
    maintenance: str
    projection_size: int
    steps: int
    seed: int
    sample_rows: int
    ties: bool = False

    def facts(self) -> Facts:
        """Return all but the components as plain values; `restored` takes them back."""
        return vars(self) | {"components": None, "members": [vars(m) for m in self.members]}

    @classmethod
    def restored(cls, facts: Facts, components: np.ndarray) -> Ensemble:
        """Return the ensemble that `facts` and its components stand for."""
        members = [Member(**member) for member in facts["members"]]
        return cls(**facts | {"components": components, "members": members})

    def view(self, Z: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, q) float32 of prepared rows Z (n, d) float32."""
        return project(Z, self.components)

    def grow(
        self,
        number: int,
        pilot: np.ndarray,
        ranges: sampling.Ranges,
        blocks: Blocks,
        checkpoint: Checkpoint = NO_CHECKPOINT,
    ) -> LevelTree:
        """Train a member on a stream of rows of its own, and grow its tree.

        ``blocks(stream, ranges, first)`` are viewed rows (n, q) float32 of ranges of keys, from
        number `first` of these on, in the order that the number of the stream gives; every pass
        takes the ranges in another order. Branches are weighed by the pilot's viewed rows (m, q)
        float32.
        """
        member = self.members[number]
        growing = self._train(number, ranges, blocks, checkpoint)
        descent = growing.descent
        a = descent.coefficients.astype(np.float32)
        S = np.ascontiguousarray(descent.vectors[:, a > 0])
        rows = np.ascontiguousarray(pilot[:, : member.n_components])
        f = DecisionFunction(S, a[a > 0], member.gamma)

        def watch(points: LowestPoints) -> None:
            growing.points = points
            checkpoint.keep(descent.n_steps + len(points.heights), growing.state)

        least = least_mass(len(pilot), member.n_components)
        return LevelTree.grow(f, rows, least, growing.points, watch)

    def _train(
        self, number: int, ranges: sampling.Ranges, blocks: Blocks, checkpoint: Checkpoint
    ) -> Growing:
        """Return a member whose descent has done all its steps."""
        member, first = self.members[number], number * self.steps
        q = member.n_components
        descent = StochasticGradient(
            q, member.gamma, member.C, self.budget, self.maintenance, self.projection_size,
            seed=self.seed + number,
        )  # fmt: skip
        course = Growing(descent, Position(first), [])
        course = checkpoint.last(course.restored) or course
        position = course.position

        def most() -> int:
            return min(self.steps - descent.n_steps, descent.piece_rows)

        while descent.n_steps < self.steps:
            order = sampling.epoch_order(self.seed, position.epoch, len(ranges), len(ranges))
            shuffled = [ranges[i] for i in order]
            for piece in position.pieces(blocks(position.epoch, shuffled, position.block), most):
                descent.feed(np.ascontiguousarray(piece[:, :q]))
                if descent.n_steps >= self.steps:
                    return course
                checkpoint.keep(descent.n_steps, course.state)
        return course

    @property
    def tested_rows(self) -> int:
        """Rows that the splits of a member are tested on."""
        return min(self.sample_rows, SIGNIFICANCE_ROWS)

    def tested_ranges(self, number: int, n_rows: int) -> sampling.Ranges:
        """Return the ranges of keys of the rows that test the splits of a member, in blocks.

        They are a part of the sample of a table of `n_rows`, another for each member where the
        sample has more rows than are tested.
        """
        high = sampling.key_threshold(n_rows, self.sample_rows)
        if self.tested_rows == self.sample_rows:
            return sampling.cut_keys(0, high, self.tested_rows)
        share = self.tested_rows / self.sample_rows
        start, width = high * number // len(self.members), int(high * share)
        over = max(start + width - high, 0)  # and so many keys from the lowest on
        ranges = sampling.cut_keys(start, start + width - over, self.tested_rows)
        return ranges + (sampling.cut_keys(0, over, self.tested_rows) if over else [])

    def test(self, number: int, tree: LevelTree, n_rows: int, blocks: Blocks) -> np.ndarray:
        """Return the sums (4, b) int64 of a member's tree that `LevelTree.tested` takes.

        `blocks` are as those of `grow`, of a table of `n_rows`.
        """
        sums = tree.no_differences()
        for block in blocks(0, self.tested_ranges(number, n_rows), 0):
            tree.add_differences(block, sums, self.ties)
        return sums


def rows_of_sample(n_rows: int, max_iter: int) -> int:
    """Return the rows that members learn from, or test their splits on, of a table of `n_rows`."""
    return min(n_rows, max(max_iter, SIGNIFICANCE_ROWS))


def steps_of_member(n_rows: int, max_iter: int) -> int:
    """Return the steps of a member for a table of `n_rows`, `max_iter` at most.

    Five a row: more show a small table nothing new. Only tables of some rows are passed over so
    often that 500 passes are less.
    """
    return min(max_iter, STEPS, max(FEWEST_STEPS, STEPS_A_ROW * n_rows), PASSES * n_rows)


def make_ensemble(
    pilot: np.ndarray,
    n_rows: int,
    *,
    gammas: Sequence[float] | None,
    C: float,
    effort: str,
    budget: int | None,
    maintenance: str,
    projection_size: int,
    max_iter: int,
    seed: int,
    n_jobs: int | None = 1,
) -> Ensemble:
    """Decide which models to train from pilot rows (m, d) float32 of a table of `n_rows`.

    With `gammas` there is one model for each, of all features. Without, models lie around the
    middle gamma of `density_gamma` in up to 8 subspaces: of more than 3 features the leading 2, 3,
    4, 6, 8, 12 and 16 directions of `leading_directions`, and all of them up to 20. A density
    estimate needs more rows with every dimension, and a table's clusters often lie in few. Between
    few points, each many rows, no density can be estimated: kernels are so narrow there that every
    point is a peak.
    """
    d, points = pilot.shape[1], few_points(pilot)
    components = np.eye(d, dtype=np.float32) if gammas is not None else leading_directions(pilot)
    if gammas is not None:
        members = [Member(d, float(gamma), C) for gamma in gammas]
    else:
        rows, width = (pilot, density_gamma) if points is None else (points, parting_gamma)
        view = project(rows, components)
        members = list(_members(view, d, EFFORTS[effort], C, width, n_jobs))
    steps, ties = steps_of_member(n_rows, max_iter), points is not None
    return Ensemble(
        components, members, budget, maintenance, projection_size, steps, seed,
        rows_of_sample(n_rows, max_iter), ties,
    )  # fmt: skip


def _members(
    view: np.ndarray,
    d: int,
    effort: Effort,
    C: float,
    width: Callable[[np.ndarray], float],
    n_jobs: int | None,
) -> Iterator[Member]:
    if d <= FLAT:
        sizes, octaves, repeats = [d], effort.octaves, effort.repeats
    else:
        most = view.shape[1]
        sizes = sorted({q for q in effort.subspaces if q < most} | {most})
        octaves, repeats = effort.octaves_in_subspaces, effort.repeats_in_subspaces
    middles = on_threads(lambda q: width(view[:, :q].astype(np.float64)), sizes, n_jobs)
    for q, middle in zip(sizes, middles, strict=True):
        for octave in list(octaves) * repeats:
            yield Member(q, middle * 2.0**octave, C)
