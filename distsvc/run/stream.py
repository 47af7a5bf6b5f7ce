"""The sample's rows: blocks in random order over the whole table, read ahead of the learner."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from distsvc.models import sampling
from distsvc.models.scaling import Scaling
from distsvc.run.directory import RunDirectory, task_file
from distsvc.storage.arrays import map_array


def prepared(run: RunDirectory, X: np.ndarray) -> np.ndarray:
    """Return raw rows X (n, d) float64 scaled and centred as the kernels want them, float32.

    Linear models and baselines want float64.
    """
    facts, scaling = run.read("scaling")
    how = Scaling(scaling["centre"], scaling["scale"], scaling["fill"])
    if facts.get("wide"):
        return how.apply(X) - scaling["origin"]
    return how.to_kernels(X, scaling["origin"])


def sample_blocks(
    run: RunDirectory, n_partitions: int, ranges: list[tuple[int, int]], seed: int, epoch: int
) -> Iterator[np.ndarray]:
    """Yield the blocks (n, d) float32 of an epoch, as `sampling.memory_blocks` does from memory.

    Each partition's rows of the sample lie in the order of their keys, as the table has them. A
    block is a range of keys, so it takes its rows from all partitions at once and is a uniform
    sample of the table, however that is sorted. While a block is in use the next one is read.
    """
    names = [run.path / task_file("sample", n) for n in range(n_partitions)]
    parts = [(map_array(name / "keys.npy"), map_array(name / "X.npy")) for name in names]

    def load(number: int) -> np.ndarray:
        places = [sampling.slice_by_key(keys, *ranges[number]) for keys, _ in parts]
        keys = np.concatenate([k[s] for (k, _), s in zip(parts, places, strict=True)])
        X = np.concatenate([x[s] for (_, x), s in zip(parts, places, strict=True)])
        order = np.argsort(keys)
        return prepared(run, X[order[sampling.epoch_order(seed, epoch, number, len(order))]])

    if (
        len(ranges) == 1
    ):  # nothing to read ahead, and of a small table there are thousands of passes
        yield load(0)
        return
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        following = reader.submit(load, 0)
        for number in range(len(ranges)):
            block = following.result()
            if number + 1 < len(ranges):
                following = reader.submit(load, number + 1)
            yield block


def whole_sample(run: RunDirectory, n_partitions: int) -> np.ndarray:
    """Return all rows of the sample, prepared, in the order of their keys.

    They are prepared part by part and put in their places, so that the rows are held once.
    """
    names = [run.path / task_file("sample", n) for n in range(n_partitions)]
    order = np.argsort(np.concatenate([map_array(name / "keys.npy") for name in names]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    X = np.empty((len(order), run.plan.shift.size))
    first = 0
    for name in names:
        part = map_array(name / "X.npy")
        X[place[first : first + len(part)]] = prepared(run, part)
        first += len(part)
    return X
