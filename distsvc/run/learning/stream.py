"""The sample's prepared rows: blocks in random order from the whole table, read ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import BLOCK_ROWS, Ranges
from distsvc.run.learning.preparation import Preparation, learned
from distsvc.run.learning.sizes import Sizes, Terms
from distsvc.run.learning.survey import keyed_rows, sample_keys, sample_parts
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.places.arrays import release_pages

HELD_BYTES = 2**27
"""Of a prepared sample that a learner holds, which others read again for every pass."""

KeyedRows = tuple[np.ndarray, np.ndarray]
"""The keys (n,) uint64 of a part of the sample, ascending, and its rows (n, d)."""

Made = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Turns rows (n, d) with their keys (n,) into what a learner sees."""


def sample_blocks(
    run: RunDirectory, ranges: Ranges, seed: int, epoch: int, first: int = 0
) -> Iterator[np.ndarray]:
    """Yield the blocks (n, d) float32 of an epoch, as `sampling.memory_blocks` does from memory.

    They begin with number `first`; those before are not read.
    """
    yield from keyed_blocks(list(_parts(run)), partial(learned, run), ranges, seed, epoch, first)


def held_blocks(
    run: RunDirectory, ranges: Ranges, seed: int
) -> Callable[[int, Ranges, int], Iterator[np.ndarray]]:
    """Return a function that yields the blocks of an epoch, of some ranges, like `sample_blocks`.

    Where the rows of all `ranges` are few they are prepared once and held, for any epoch.
    """
    if 4 * run.plan.shift.size * _count(run, ranges) > HELD_BYTES:
        return lambda epoch, some, first: sample_blocks(run, some, seed, epoch, first)
    keys, rows = held_rows(run, ranges)
    return lambda epoch, some, first: sampling.memory_blocks(rows, keys, some, seed, epoch, first)


def held_rows(run: RunDirectory, ranges: Ranges) -> KeyedRows:
    """Return the keys (n,) of the sample's rows in some ranges, ascending, and the rows (n, d).

    Rows are prepared, float32.
    """
    places = [(keys[own], X[own]) for keys, X, own in _in_ranges(run, ranges)]
    keys = np.concatenate([keys for keys, _ in places])
    order = np.argsort(keys)
    return keys[order], _in_order(run, places, order, "float32")


def keyed_blocks(
    parts: Sequence[KeyedRows], made: Made, ranges: Ranges, seed: int, epoch: int, first: int = 0
) -> Iterator[np.ndarray]:
    """Yield the blocks of an epoch, their rows turned by `made`, from number `first` on.

    Each part of the sample has its rows in the order of their keys, as the table has them. A block
    is a range of keys, so it takes its rows from all parts at once and is a uniform sample of the
    table, however that is sorted. While a block is in use the next one is read.
    """

    def load(number: int) -> np.ndarray:
        taken = []
        for part in parts:
            own = sampling.slice_by_key(part[0], *ranges[number])
            taken.append([np.array(array[own]) for array in part])
            for array in part:  # at once: a page that is touched may map 2 MB of its file
                release_pages(array)
        keys, X = map(np.concatenate, zip(*taken, strict=True))
        order = np.argsort(keys)
        order = order[sampling.epoch_order(seed, epoch, number, len(order))]
        return made(X[order], keys[order])

    numbers = range(first, len(ranges))
    if len(numbers) <= 1:  # nothing to read ahead, and a small table has thousands of passes
        yield from map(load, numbers)
        return
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        following = reader.submit(load, first)
        for number in numbers:
            block = following.result()
            if number + 1 < len(ranges):
                following = reader.submit(load, number + 1)
            yield block


def whole_sample(run: RunDirectory) -> np.ndarray:
    """Return all rows (n, d) of the sample, prepared, in the order of their keys.

    They are prepared part by part and put in their places, so that the rows are held once.
    """
    order = np.argsort(np.concatenate([keys for keys, _ in _parts(run)]))
    return _in_order(run, _parts(run), order, "float64")


def held_sample(sizes: Sizes, own: float) -> Terms:
    """Return the memory of `whole_sample`, and of a learner that takes `own` bytes beside it.

    While the rows are prepared there are a part as it is in its file, some of its rows prepared,
    and which of their values are missing.
    """
    preparing = sizes.part + 2.125 * _block(sizes) + 16 * sizes.sample_rows
    return {"the sample": sizes.sample, "learning from the sample": max(preparing, own)}


def held_stream(sizes: Sizes) -> Terms:
    """Return the memory of `sample_blocks`: one block being read, one in use, and their copies."""
    return {"blocks of the sample": 4 * _block(sizes)}


def held_blocks_bytes(sizes: Sizes, n_rows: int) -> Terms:
    """Return the memory of `held_blocks` for so many rows of the sample."""
    prepared = 4.0 * sizes.n_columns * n_rows
    if prepared > HELD_BYTES:
        return held_stream(sizes)
    mapped = float(sizes.raw_sample * n_rows) / max(sizes.sample_rows, 1)
    held = {"the sample, mapped": mapped, "the sample, prepared": prepared}
    return held | {"blocks of the sample": 3.0 * _block(sizes)}


def _block(sizes: Sizes) -> float:
    """Return the bytes of a block of the sample as float64."""
    return float(sizes.row_bytes * min(BLOCK_ROWS, sizes.sample_rows))


def _in_order(
    run: RunDirectory, parts: Iterable[KeyedRows], order: np.ndarray, dtype: str
) -> np.ndarray:
    """Return the raw rows of parts as learners see them, in an order (n,), some at a time."""
    preparation = Preparation.read(run)
    pieces = (
        preparation.learned(X[n : n + BLOCK_ROWS], keys[n : n + BLOCK_ROWS])
        for keys, X in parts
        for n in range(0, len(X), BLOCK_ROWS)
    )
    X = np.empty((len(order), preparation.n_learned), dtype)
    return sampling.in_places(X, pieces, order)


def _parts(run: RunDirectory) -> Iterator[KeyedRows]:
    """Return the keys (n,) and the raw rows (n, d) of every part of the sample."""
    return (keyed_rows(run, name) for name in sample_parts(run))


def _in_ranges(run: RunDirectory, ranges: Ranges) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
    """Yield the keys and raw rows of every part of the sample, and where the ranges are in them."""
    low, high = ranges[0][0], ranges[-1][1]
    return ((keys, X, sampling.slice_by_key(keys, low, high)) for keys, X in _parts(run))


def _count(run: RunDirectory, ranges: Ranges) -> int:
    return sum(own.stop - own.start for _, _, own in _in_ranges(run, ranges))


def raw_sample(run: RunDirectory, n_rows: int, most: int) -> Iterator[np.ndarray]:
    """Yield raw rows (n, d) float64 of the sample of a table of n_rows, about `most` in all.

    They are those with the lowest keys, whatever the cut of the table.
    """
    low, last = sample_keys(run)
    share = min(most / n_rows, 1.0)
    high = min(low + int(share * 2.0**64), last)
    for keys, X in _parts(run):
        rows = X[: np.searchsorted(keys, np.uint64(high), "right")]
        for first in range(0, len(rows), BLOCK_ROWS):
            yield np.array(rows[first : first + BLOCK_ROWS])
