"""Streams of the sample's prepared rows in random order, and the sizes of a job."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import BLOCK_ROWS, Ranges
from distsvc.run.learning.preparation import Preparation, learner_rows
from distsvc.run.learning.survey import GATHER, keyed_rows, keys_of, parts, sampling_phase
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.places.arrays import release_pages

MAX_CACHED_BYTES = 2**27
"""Maximum size of a prepared sample in memory; a larger one is read again for every pass."""

MB = 1e6

Terms = dict[str, float]
"""Bytes of memory, by purpose."""

KeyedRows = tuple[np.ndarray, np.ndarray]
"""Keys (n,) uint64 of a part of the sample, in ascending order, and its rows (n, d)."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a job, from which its memory is estimated."""

    n_rows: int
    n_columns: int  # clustered columns
    partitions: int
    partition_rows: int  # rows of the largest partition
    block_rows: int
    sample_rows: int  # rows that the survey stores
    pilot_rows: int
    value_bytes: int = 8  # bytes of a value as read, 4 or 8

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of float64."""
        return 8 * self.n_columns

    @property
    def sample(self) -> int:
        return self.row_bytes * self.sample_rows

    @property
    def part(self) -> float:
        """Bytes of the raw sample rows that come from the largest partition."""
        sample = self.value_bytes * self.n_columns * self.sample_rows
        return sample * self.partition_rows / self.n_rows

    @property
    def block(self) -> int:
        """Bytes of a block of rows."""
        return self.value_bytes * self.n_columns * min(self.block_rows, self.partition_rows)


@dataclass(frozen=True)
class Memory:
    """Memory of the driver and of a worker."""

    driver: Terms = field(default_factory=dict)
    worker: Terms = field(default_factory=dict)  # empty without workers; of an algorithm: per task


def sample_blocks(
    run: RunDirectory, ranges: Ranges, seed: int, epoch: int, first: int = 0
) -> Iterator[np.ndarray]:
    """Yield the prepared rows of the sample in blocks (n, d), for one epoch.

    The rows of a block are shuffled by `seed` and `epoch`. The first block has number `first`.
    """
    yield from keyed_blocks(
        list(_parts(run)), partial(learner_rows, run), ranges, seed, epoch, first
    )


def cached_blocks(
    run: RunDirectory, ranges: Ranges, seed: int
) -> Callable[[int, Ranges, int], Iterator[np.ndarray]]:
    """Return a function that yields the same blocks as `sample_blocks`.

    Its arguments are `epoch`, `ranges` and `first`. If the sample is small, the function keeps the
    prepared rows in memory.
    """
    n_rows = sum(own.stop - own.start for _, _, own in _in_ranges(run, ranges))
    if 4 * run.plan.shift.size * n_rows > MAX_CACHED_BYTES:
        return lambda epoch, some, first: sample_blocks(run, some, seed, epoch, first)
    keys, rows = read_sample(run, ranges)
    return partial(sampling.memory_blocks, rows, keys, seed)


def read_sample(
    run: RunDirectory, ranges: Ranges | None = None, dtype: str = "float32"
) -> KeyedRows:
    """Return the sample's keys (n,) and prepared rows (n, d), ordered by key.

    If `ranges` of keys are given, return only rows in these ranges.
    """
    preparation, seed = Preparation.read(run), run.plan.seed
    keys = np.concatenate([keys[own] for keys, _, own in _in_ranges(run, ranges)])
    order = np.argsort(keys)
    # Each part is mapped only while its rows are prepared, piece by piece. Rows are stored once.
    parts = ((keys[own], X[own]) for keys, X, own in _in_ranges(run, ranges))
    pieces = (
        preparation.learner_rows(X[piece], sampling.rows_of(seed, part[piece]))
        for part, X in parts
        for piece in (slice(n, n + BLOCK_ROWS) for n in range(0, len(X), BLOCK_ROWS))
    )
    X = np.empty((len(order), preparation.n_learned), dtype)
    return keys[order], sampling.in_places(X, pieces, order)


def keyed_blocks(
    parts: Sequence[KeyedRows],
    prepare: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ranges: Ranges,
    seed: int,
    epoch: int,
    first: int = 0,
) -> Iterator[np.ndarray]:
    """Yield the blocks of an epoch, each converted by ``prepare(rows, keys)``.

    Block k has the rows of all `parts` whose keys are in ``ranges[k]``. The first block has number
    `first`.
    """
    # A block has the rows of all parts with keys in one range, so it is a uniform sample even of a
    # sorted table. While a block is in use, the next is read.

    def load(number: int) -> np.ndarray:
        taken = []
        for part in parts:
            own = sampling.slice_by_key(part[0], *ranges[number])
            taken.append([np.array(array[own]) for array in part])
            for array in part:  # reading a page may map 2 MB of its file
                release_pages(array)
        keys, X = map(np.concatenate, zip(*taken, strict=True))
        order = np.argsort(keys)
        order = order[sampling.epoch_order(seed, epoch, number, len(order))]
        return prepare(X[order], keys[order])

    numbers = range(first, len(ranges))
    if len(numbers) <= 1:  # nothing to read ahead; a small table has thousands of passes
        yield from map(load, numbers)
        return
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        following = reader.submit(load, first)
        for number in numbers:
            block = following.result()
            if number + 1 < len(ranges):
                following = reader.submit(load, number + 1)
            yield block


SCIKIT_LEARN: Terms = {"scikit-learn": 40 * MB}
"""Memory of the library in a process that imports it."""


def sample_memory(sizes: Sizes, own: float) -> Terms:
    """Return the memory that is needed to learn from the whole sample as float64.

    The learner itself needs `own` bytes.
    """
    preparing = sizes.part + 2.125 * _block(sizes) + 16 * sizes.sample_rows
    return {"the sample": sizes.sample, "learning from the sample": max(preparing, own)}


def stream_memory(sizes: Sizes) -> Terms:
    """Return the memory of `sample_blocks`: a block being read, one in use, and their copies."""
    return {"blocks of the sample": 4 * _block(sizes)}


def cached_blocks_memory(sizes: Sizes, n_rows: int) -> Terms:
    """Return the memory of `cached_blocks` for `n_rows` rows of the sample."""
    prepared = 4.0 * sizes.n_columns * n_rows
    if prepared > MAX_CACHED_BYTES:
        return stream_memory(sizes)
    held = {"the sample, prepared": prepared, "a part of the sample, mapped": sizes.part}
    # The keys, their order, and its inverse.
    return held | {"keys of the sample": 24.0 * n_rows, "blocks of the sample": 3.0 * _block(sizes)}


def _block(sizes: Sizes) -> float:
    return float(sizes.row_bytes * min(BLOCK_ROWS, sizes.sample_rows))


def _parts(run: RunDirectory) -> Iterator[KeyedRows]:
    return (keyed_rows(run, name) for name in parts(run, sampling_phase(run), GATHER))


def _in_ranges(
    run: RunDirectory, ranges: Ranges | None
) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
    """Yield the keys and the raw rows of each part of the sample.

    The third item is the slice of the rows whose keys are in `ranges`.
    """
    if not ranges:
        return ((keys, X, slice(None)) for keys, X in _parts(run))
    low, high = ranges[0][0], ranges[-1][1]
    return ((keys, X, sampling.slice_by_key(keys, low, high)) for keys, X in _parts(run))


def last_key_of(run: RunDirectory, n_rows: int, most: int) -> int:
    """Return a key such that about `most` rows of the sample have this key or a lower key.

    The sample is a part of `n_rows` rows.
    """
    own = run.read(keys_of(sampling_phase(run))).facts
    share = min(most / n_rows, 1.0)
    return int(min(own["low"] + int(share * 2.0**64), own["high"] - 1))


def raw_sample(run: RunDirectory, last_key: int) -> Iterator[KeyedRows]:
    """Yield the keys (n,) and raw rows (n, d) of the sample up to `last_key`, in blocks."""
    for keys, X in _parts(run):
        n_rows = int(np.searchsorted(keys, np.uint64(last_key), "right"))
        for first in range(0, n_rows, BLOCK_ROWS):
            block = slice(first, min(first + BLOCK_ROWS, n_rows))
            yield np.array(keys[block]), np.array(X[block])
