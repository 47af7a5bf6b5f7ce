"""Streams of the sample have the blocks of a table in memory, whatever the partitions."""

import weakref

import numpy as np
import pytest

from distsvc.models.rows import sampling
from distsvc.models.rows.scaling import Scaling
from distsvc.run.learning import stream, survey
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.stream import read_sample, sample_blocks
from distsvc.run.learning.survey import survey_table
from tests.small_runs import begin, small_job, three_clusters, write_table

N, SEED = 900, 3
X = three_clusters(N)
SCALING = Scaling(np.array([9.0, 8.0]), np.array([2.0, 3.0]), np.zeros(2))
ORIGIN = np.array([0.5, -0.5])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 64)


def surveyed(tmp_path, X, n_wanted, partition_rows=300, float64=False, **preprocess):
    """Return a run with a sample of about `n_wanted` rows, and its key ranges."""
    table = write_table(tmp_path / "t.parquet", X)
    cluster = {"partition_rows": partition_rows}
    job = small_job(table, {"seed": SEED}, cluster=cluster, preprocess=preprocess)
    steps = begin(job, tmp_path / "run").steps
    survey_table(steps, lambda n: sampling.key_blocks(n, n_wanted))
    steps.run.write(PREPARATION, Preparation(SCALING, ORIGIN, float64).result())
    return steps.run, sampling.key_blocks(N, n_wanted)


def in_memory(X):
    """Return the keys, ascending, and the prepared rows in their order."""
    keys = sampling.row_keys(SEED, np.arange(N))
    order = np.argsort(keys)
    return keys[order], Preparation(SCALING, ORIGIN, False)(X[order])


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize(("n_wanted", "n_blocks"), [(60, 1), (N, 15), (400, 7)])
@pytest.mark.parametrize("partition_rows", [1000, 300, 100])
def test_blocks_are_those_of_a_table_in_memory(tmp_path, n_wanted, n_blocks, partition_rows, epoch):
    run, ranges = surveyed(tmp_path, X, n_wanted, partition_rows)
    keys, Z = in_memory(X)
    expected = list(sampling.memory_blocks(Z, keys, SEED, epoch, ranges))
    found = list(sample_blocks(run, ranges, SEED, epoch))
    assert len(found) == len(expected) == n_blocks
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == np.float32
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("first", [0, 1, 6, 7])
def test_a_stream_may_begin_at_any_block(tmp_path, first, monkeypatch):
    run, ranges = surveyed(tmp_path, X, 400)
    whole, read, order = list(sample_blocks(run, ranges, SEED, 2)), [], sampling.epoch_order

    def noted(seed, epoch, number, n):
        read.append(number)
        return order(seed, epoch, number, n)

    monkeypatch.setattr(sampling, "epoch_order", noted)
    rest = list(sample_blocks(run, ranges, SEED, 2, first))
    assert [block.tobytes() for block in rest] == [block.tobytes() for block in whole[first:]]
    assert read == list(range(first, 7))
    keys, Z = in_memory(X)
    memory = sampling.memory_blocks(Z, keys, SEED, 2, ranges, first)
    assert [block.tobytes() for block in memory] == [block.tobytes() for block in rest]


@pytest.mark.parametrize("partition_rows", [1000, 300, 100])
@pytest.mark.parametrize("n_wanted", [N, 400])
def test_the_whole_sample_lies_in_the_order_of_keys(tmp_path, n_wanted, partition_rows):
    run, _ = surveyed(tmp_path, X, n_wanted, partition_rows, float64=True)
    found = read_sample(run, dtype="float64")[1]
    keys = sampling.row_keys(SEED, np.arange(N))
    chosen = np.argsort(keys)[: (keys <= np.uint64(sampling.key_threshold(N, n_wanted) - 1)).sum()]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, (X[chosen] - SCALING.centre) / SCALING.scale - ORIGIN)


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_many_parts_are_gathered_into_fewer(tmp_path, monkeypatch, most, missing):
    monkeypatch.setattr(survey, "MAX_SAMPLE_PARTS", most)
    run, ranges = surveyed(tmp_path, X, 400, 100, missing=missing)
    assert len(run.plan.partitions) == 9
    found = survey.parts(run, survey.sampling_phase(run), survey.GATHER)
    assert found == [f"gather/{k:05d}" for k in range({1: 1, 2: 2, 4: 3}[most])]
    keys, Z = in_memory(X)
    expected = list(sampling.memory_blocks(Z, keys, SEED, 1, ranges))
    found = list(sample_blocks(run, ranges, SEED, 1))
    assert [block.tobytes() for block in found] == [block.tobytes() for block in expected]


def test_each_part_is_released_before_the_next_is_read(monkeypatch):
    """A page that is touched may map 2 MB of its file, and a sample has up to 50 parts."""
    calls, slice_by_key = [], sampling.slice_by_key

    def read(keys, low, high):
        calls.append("read")
        return slice_by_key(keys, low, high)

    monkeypatch.setattr(sampling, "slice_by_key", read)
    monkeypatch.setattr(stream, "release_pages", lambda array: calls.append("released"))
    keys = np.arange(90, dtype=np.uint64)
    parts = [(keys[n::3], keys[n::3, None].astype(np.float32)) for n in range(3)]
    blocks = stream.keyed_blocks(parts, lambda X, keys: X, [(0, 40), (40, 90)], seed=0, epoch=0)
    assert np.concatenate(list(blocks))[:, 0].tolist() == list(range(90))
    assert calls == 6 * ["read", "released", "released"]


def test_rows_in_memory_are_copied_from_one_mapped_part_at_a_time(tmp_path, monkeypatch):
    run, ranges = surveyed(tmp_path, X, 400, 100)
    mapped, most = [], []

    def keyed_rows(run, name):
        most.append(sum(part() is not None for part in mapped))
        keys, rows = survey.keyed_rows(run, name)
        mapped.append(weakref.ref(rows.base))
        return keys, rows

    monkeypatch.setattr(stream, "keyed_rows", keyed_rows)
    keys, rows = read_sample(run, ranges)
    assert len(mapped) == 2 * 9
    assert max(most) == 1
    assert all(part() is None for part in mapped)
    own = sampling.slice_by_key(in_memory(X)[0], ranges[0][0], ranges[-1][1])
    assert np.array_equal(keys, in_memory(X)[0][own])
    assert rows.tobytes() == in_memory(X)[1][own].tobytes()
