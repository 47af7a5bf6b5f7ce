"""Rows of wide tables as the models of a level tree see them, kept by a reading of their own.

Models see a row by 20 components at most. Where a table has many more columns, one reading projects
all rows that any model learns from or tests splits on. What it leaves is small; the rows themselves
would be read again and again. Where columns are few, the sample and another reading cost less.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from distsvc.models.rows.sampling import BLOCK_ROWS, Ranges
from distsvc.models.support_vector.level_tree.directions import MOST_COMPONENTS
from distsvc.models.support_vector.level_tree.ensemble import Ensemble
from distsvc.run.learning.aside import learned_blocks
from distsvc.run.learning.preparation import prepared
from distsvc.run.learning.stream import KeyedRows, keyed_blocks, sample_blocks
from distsvc.run.learning.survey import MOST_PARTS, Collected, shared_parts
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps

ENSEMBLE = "ensemble"

WIDE = 2 * MOST_COMPONENTS
"""Columns, at most, of tables whose rows are not kept as models see them."""

Seen = tuple[np.ndarray, np.ndarray]
"""Keys (n,) uint64 and viewed rows (n, q) float32."""


def ensemble_of(run: RunDirectory) -> tuple[Ensemble, dict[str, Any], np.ndarray]:
    """Return the models to train, facts of the sample, and the pilot's viewed rows."""
    found = run.read(ENSEMBLE)
    ensemble = Ensemble.restored(found.facts["ensemble"], found.arrays["components"])
    return ensemble, found.facts, found.arrays["view"]


def keep_views(steps: Steps) -> None:
    """Keep the rows that models learn from, or test their splits on, as they see them."""
    steps.do(VIEWS)
    if steps.n_partitions > MOST_PARTS:
        steps.do(GATHER_VIEWS, -(-steps.n_partitions // shared_parts(steps.run.plan)))


def view_partition(run: RunDirectory, number: int) -> Result:
    """Keep a partition's rows as models see them, in the order of their keys."""
    ensemble, facts, _ = ensemble_of(run)
    kept, n_rows = Collected(len(ensemble.components), "float32"), 0
    for block, keys in learned_blocks(run, number):
        n_rows += len(block.rows)
        wanted = _of_sample(keys, facts) | ensemble.tested_by_any(keys, facts["n_rows"])
        X = block.X if wanted.all() else block.X[wanted]
        kept.add(ensemble.view(prepared(run, X)), keys[wanted])
    return Result(large=kept.arrays(), rows=n_rows)


def gather_views(run: RunDirectory, number: int) -> Result:
    """Put neighbouring partitions' viewed rows of the sample together, in the order of keys."""
    ensemble, facts, _ = ensemble_of(run)
    share, kept = shared_parts(run.plan), Collected(len(ensemble.components), "float32")
    for partition in range(len(run.plan.partitions))[number * share : (number + 1) * share]:
        keys, X = _mapped(run, VIEWS.result(partition))
        chosen = _of_sample(keys, facts)
        kept.add(X[chosen], keys[chosen])
    arrays = kept.arrays()
    return Result(large=arrays, rows=len(arrays["keys"]))


VIEWS = Phase("views", view_partition)
GATHER_VIEWS = Phase("gather-views", gather_views)


def sample_views(
    run: RunDirectory, ensemble: Ensemble, viewed: bool, ranges: Ranges, epoch: int, first: int
) -> Iterator[np.ndarray]:
    """Yield the blocks of an epoch as models see them, (n, q) float32, from number `first` on."""
    if viewed:
        parts = list(_parts(run))
        yield from keyed_blocks(parts, np.asarray, ranges, ensemble.seed, epoch, first)
        return
    for block in sample_blocks(run, ranges, ensemble.seed, epoch, first):
        yield ensemble.view(block)


def partition_views(
    run: RunDirectory, ensemble: Ensemble, viewed: bool, number: int
) -> Iterator[Seen]:
    """Yield the rows of a partition; where they are kept, only those that are wanted."""
    if viewed:
        keys, X = _mapped(run, VIEWS.result(number))
        for first in range(0, len(keys), BLOCK_ROWS):
            piece = slice(first, first + BLOCK_ROWS)
            yield np.array(keys[piece]), np.array(X[piece])
        return
    for block, keys in learned_blocks(run, number):
        yield keys, ensemble.view(prepared(run, block.X))


def _of_sample(keys: np.ndarray, facts: dict[str, Any]) -> np.ndarray:
    low, high = facts["ranges"][0][0], facts["ranges"][-1][1]
    return (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))


def _parts(run: RunDirectory) -> Iterator[KeyedRows]:
    share, n = shared_parts(run.plan), len(run.plan.partitions)
    phase = VIEWS if share == 1 else GATHER_VIEWS
    for number in range(-(-n // share)):
        yield _mapped(run, phase.result(number))


def _mapped(run: RunDirectory, name: str) -> KeyedRows:
    return run.map_large(name, "keys"), run.map_large(name, "X")
