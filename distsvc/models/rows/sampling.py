"""Random samples of rows that do not depend on how a table is divided or in which order it is read.

Every row has a 64-bit key, a function of the seed and the row's number in the table. Keys order the
rows at random. The rows with keys below a threshold are a uniform sample without replacement. The
rows with the lowest keys are the pilot, from which settings are chosen.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Self

import numpy as np

from distsvc.job.parameters import RANDOM_STATE, RandomState
from distsvc.kernels.rows import hash_texts

SAMPLE_BYTES = 2**28
"""Maximum size of a sample as float32, in bytes."""

FEWEST_SAMPLED = 20_000
"""Number of rows that a sample may have even if it is then larger than `SAMPLE_BYTES`."""

Ranges = list[tuple[int, int]]
"""Half-open ranges [low, high) of row keys; each selects the rows of a block."""

BLOCK_ROWS = 8192
"""Mean number of rows in a learner's block."""

PILOT_ROWS = 10_000
"""Maximum number of pilot rows: the rows with the lowest keys, from which settings are chosen."""


def seed_of(random_state: RandomState) -> int:
    """Return `random_state` if it is an integer, otherwise a seed drawn from it."""
    RANDOM_STATE.check("random_state", random_state)
    if isinstance(random_state, Integral):
        return int(random_state)
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31))


def row_keys(seed: int, rows: np.ndarray) -> np.ndarray:
    """Return the keys (n,) uint64 of the rows with the numbers `rows` (n,) int64.

    Different rows have different keys.
    """
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return splitmix(start, rows)


def splitmix(start: np.ndarray, steps: np.ndarray | int) -> np.ndarray:
    """Return outputs (n,) uint64 of the random number generator SplitMix64.

    An output is `steps` steps after the state `start` (Steele, Lea and Flood 2014).
    """
    z = start + np.asarray(steps, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def text_keys(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return keys (n,) uint64 that depend only on the texts, by their hashes.

    `data` (m,) uint8 are the bytes of all texts. Text i is ``data[offsets[i] : offsets[i + 1]]``,
    with `offsets` (n + 1,) int64.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    hash_texts(np.array(data), np.array(offsets), hashes)  # writable: one compiled version
    return row_keys(0, hashes)


def rows_of(seed: int, keys: np.ndarray) -> np.ndarray:
    """Return the row numbers (n,) int64 of `keys` (n,) uint64; it inverts `row_keys`."""
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    z: np.ndarray = _unshifted(keys, 31) * np.uint64(pow(0x94D049BB133111EB, -1, 2**64))
    z = _unshifted(z, 27) * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 2**64))
    z = _unshifted(z, 30) - start
    return (z * np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))).astype(np.int64)


def most_rows(n_columns: int) -> int:
    """Return the maximum number of rows in a sample of `n_columns` columns."""
    return max(SAMPLE_BYTES // (4 * max(n_columns, 1)), FEWEST_SAMPLED)


def key_threshold(n_rows: int, n_wanted: int) -> int:
    """Return a key, at most 2^64, below which about `n_wanted` of the keys of `n_rows` rows lie."""
    return 2**64 if n_wanted >= n_rows else 2**64 * n_wanted // n_rows


def key_blocks(n_rows: int, n_wanted: int, n_held_out: int = 0) -> Ranges:
    """Return key ranges that divide a sample of `n_wanted` rows into blocks of about BLOCK_ROWS.

    About `n_held_out` rows with the lowest keys are not in the sample.
    """
    low = key_threshold(n_rows, n_held_out) if n_held_out else 0
    high = key_threshold(n_rows, n_held_out + n_wanted)
    return cut_keys(low, high, min(n_wanted, n_rows - n_held_out))


def cut_keys(low: int, high: int, n_rows: int) -> Ranges:
    """Divide the key range [low, high) of about `n_rows` rows into ranges of about BLOCK_ROWS."""
    n_blocks = max(-(-n_rows // BLOCK_ROWS), 1)
    edges = [low + (high - low) * b // n_blocks for b in range(n_blocks + 1)]
    return list(itertools.pairwise(edges))


def slice_by_key(sorted_keys: np.ndarray, low: int, high: int) -> slice:
    """Return the slice of ascending `sorted_keys` that lie in [low, high)."""
    first = np.searchsorted(sorted_keys, np.uint64(low))
    last = sorted_keys.size if high >= 2**64 else np.searchsorted(sorted_keys, np.uint64(high))
    return slice(int(first), int(last))


def epoch_order(seed: int, epoch: int, block: int, n: int) -> np.ndarray:
    """Return a random order (n,) of a block's rows in an epoch; epoch 0 keeps their order."""
    if epoch == 0:
        return np.arange(n)
    sequence = np.random.SeedSequence(seed, spawn_key=(epoch, block))
    return np.random.default_rng(sequence).permutation(n)


def memory_blocks(
    X: np.ndarray, keys: np.ndarray, seed: int, epoch: int, ranges: Ranges, first: int = 0
) -> Iterator[np.ndarray]:
    """Yield a block of X for each of the `ranges` of keys, from range number `first` on.

    The `keys` (n,) of X (n, d) ascend. Rows of a block are shuffled as in `epoch_order`.
    """
    for number in range(first, len(ranges)):
        block = X[slice_by_key(keys, *ranges[number])]
        if epoch > 0:
            block = block.take(epoch_order(seed, epoch, number, len(block)), axis=0)
        yield block


def in_order_of_keys(
    rows: list[np.ndarray], keys: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Join parts of a sample: return all rows (n, d) and keys (n,), sorted by key.

    The list `rows` is emptied: each part is freed once it is copied, which limits memory.
    """
    all_keys, shape, dtype = np.concatenate(keys), rows[0].shape[1:], rows[0].dtype
    order = np.argsort(all_keys)
    taken = (rows.pop(0) for _ in range(len(rows)))
    X = in_places(np.empty((len(order), *shape), dtype), taken, order)
    return X, all_keys[order]


def in_places(X: np.ndarray, parts: Iterable[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Set X (n, d) to ``concatenate(parts)[order]``, and return X."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first = 0
    for part in parts:
        X[place[first : first + len(part)]] = part
        first += len(part)
    return X


def lowest(keys: np.ndarray, n: int) -> np.ndarray:
    """Return the indices of the n lowest keys, the lowest key first."""
    if n < keys.size:
        places = np.argpartition(keys, n)[:n]
        return places[np.argsort(keys[places])]
    return np.argsort(keys)


@dataclass
class Reservoir:
    """The PILOT_ROWS rows of a stream with the lowest keys so far, by ascending key."""

    seed: int
    rows: np.ndarray
    keys: np.ndarray
    n_seen: int = 0

    @classmethod
    def empty(cls, seed: int, n_features: int) -> Self:
        return cls(seed, np.zeros((0, n_features), np.float32), np.zeros(0, np.uint64))

    def add(self, X: np.ndarray) -> None:
        keys = row_keys(self.seed, np.arange(self.n_seen, self.n_seen + len(X)))
        self.n_seen += len(X)
        rows, keys = np.concatenate([self.rows, X]), np.concatenate([self.keys, keys])
        kept = lowest(keys, PILOT_ROWS)
        self.rows, self.keys = rows[kept], keys[kept]


def _unshifted(z: np.ndarray, shift: int) -> np.ndarray:
    """Return x (n,) uint64 for z = x ^ (x >> shift): the inverse of a step of SplitMix64."""
    x = z.copy()
    for k in range(shift, 64, shift):
        x ^= z >> np.uint64(k)
    return x
