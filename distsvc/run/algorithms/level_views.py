"""Rows of wide tables along the models' directions, stored by a separate pass.

Models use at most 20 components of a row. If a table has many more columns, one pass projects the
rows of the sample and stores the small result, so that wide rows are not read again. If columns are
few, the survey stores the sample as it is, without this pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from distsvc.models.rows.sampling import Ranges, key_threshold
from distsvc.models.support_vector.level_tree.directions import MOST_COMPONENTS
from distsvc.models.support_vector.level_tree.ensemble import Ensemble
from distsvc.run.learning.aside import learned_blocks
from distsvc.run.learning.preparation import learned
from distsvc.run.learning.stream import keyed_blocks, sample_blocks
from distsvc.run.learning.survey import Collected, gather, gathered, keyed_rows, parts
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps

ENSEMBLE = "ensemble"

WIDE = 2 * MOST_COMPONENTS
"""Maximum number of columns of tables whose rows are not projected in advance."""


@dataclass(frozen=True)
class Training:
    """Models to train, with the rows that they learn from.

    Attributes
    ----------
    ensemble : Ensemble
    n_rows : int
        Number of rows in the table.
    ranges : list of (int, int)
        Key ranges of the rows that models learn from.
    viewed : bool
        Whether projected rows are stored.
    view : ndarray of shape (m, q), float32
        Projected pilot.

    """

    ensemble: Ensemble
    n_rows: int
    ranges: Ranges
    viewed: bool
    view: np.ndarray

    @classmethod
    def read(cls, run: RunDirectory) -> Training:
        """Return the training stored in a run."""
        found = run.read(ENSEMBLE)
        known, arrays = found.facts, found.arrays
        ensemble = Ensemble.restored(known["ensemble"], arrays["components"])
        ranges = [(low, high) for low, high in known["ranges"]]
        return cls(ensemble, known["n_rows"], ranges, known["viewed"], arrays["view"])

    def write(self, run: RunDirectory) -> None:
        """Store the training for all tasks."""
        facts = {"ensemble": self.ensemble.facts(), "n_rows": self.n_rows, "ranges": self.ranges}
        arrays = {"components": self.ensemble.components, "view": self.view}
        run.write(ENSEMBLE, Result(facts | {"viewed": self.viewed}, arrays))

    def collected(self) -> Collected:
        """Return an empty sample of projected rows."""
        last = key_threshold(self.n_rows, self.ensemble.sample_rows) - 1
        return Collected(len(self.ensemble.components), "float32", last=last)

    def blocks(
        self, run: RunDirectory, epoch: int, ranges: Ranges, first: int
    ) -> Iterator[np.ndarray]:
        """Yield the projected blocks (n, q) float32 of an epoch, from index `first` on."""
        if self.viewed:
            kept = [keyed_rows(run, name) for name in parts(run, VIEWS, GATHER_VIEWS)]
            yield from keyed_blocks(
                kept, lambda rows, _: rows, ranges, self.ensemble.seed, epoch, first
            )
            return
        for block in sample_blocks(run, ranges, self.ensemble.seed, epoch, first):
            yield self.ensemble.view(block)


def keep_views(steps: Steps) -> None:
    """Store the projected rows of the sample."""
    steps.do(VIEWS)
    gather(steps, GATHER_VIEWS)


def view_partition(run: RunDirectory, number: int) -> Result:
    """Return a partition's projected rows of the sample, in the order of their keys."""
    training, n_rows = Training.read(run), 0
    ensemble, kept = training.ensemble, training.collected()
    for block, keys in learned_blocks(run, number):
        n_rows += len(block.rows)
        wanted = kept.wants(keys)
        X = block.X if wanted.all() else block.X[wanted]
        kept.add(ensemble.view(learned(run, X, keys[wanted])), keys[wanted])
    return Result(large=kept.arrays(), rows=n_rows)


def gather_views(run: RunDirectory, number: int) -> Result:
    """Merge the projected samples of neighbouring partitions, in the order of keys."""
    return gathered(run, VIEWS, number, Training.read(run).collected())


VIEWS = Phase("views", view_partition)
GATHER_VIEWS = Phase("gather-views", gather_views)
