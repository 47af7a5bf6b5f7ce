"""The sample's prepared rows: blocks in random order from the whole table, read ahead."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from distsvc.models import sampling
from distsvc.models.sampling import Ranges
from distsvc.run.directory import RunDirectory
from distsvc.run.preparation import prepared
from distsvc.run.survey import sampling_phase


def sample_blocks(run: RunDirectory, ranges: Ranges, seed: int, epoch: int) -> Iterator[np.ndarray]:
    """Yield the blocks (n, d) float32 of an epoch, as `sampling.memory_blocks` does from memory.

    Each partition's rows of the sample lie in the order of their keys, as the table has them. A
    block is a range of keys, so it takes its rows from all partitions at once and is a uniform
    sample of the table, however that is sorted. While a block is in use the next one is read.
    """
    parts = list(_parts(run))

    def load(number: int) -> np.ndarray:
        places = [sampling.slice_by_key(keys, *ranges[number]) for keys, _ in parts]
        keys = np.concatenate([k[s] for (k, _), s in zip(parts, places, strict=True)])
        X = np.concatenate([x[s] for (_, x), s in zip(parts, places, strict=True)])
        order = np.argsort(keys)
        return prepared(run, X[order[sampling.epoch_order(seed, epoch, number, len(order))]])

    if len(ranges) == 1:  # nothing to read ahead, and a small table has thousands of passes
        yield load(0)
        return
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        following = reader.submit(load, 0)
        for number in range(len(ranges)):
            block = following.result()
            if number + 1 < len(ranges):
                following = reader.submit(load, number + 1)
            yield block


def whole_sample(run: RunDirectory) -> np.ndarray:
    """Return all rows (n, d) of the sample, prepared, in the order of their keys.

    They are prepared part by part and put in their places, so that the rows are held once.
    """
    order = np.argsort(np.concatenate([keys for keys, _ in _parts(run)]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    X = np.empty((len(order), run.plan.shift.size))
    first = 0
    for _, part in _parts(run):
        X[place[first : first + len(part)]] = prepared(run, part)
        first += len(part)
    return X


def _parts(run: RunDirectory) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the keys (n,) and the raw rows (n, d) of every partition's part of the sample."""
    phase = sampling_phase(run)
    for number in range(len(run.plan.partitions)):
        name = phase.result(number)
        yield run.map_large(name, "keys"), run.map_large(name, "X")
