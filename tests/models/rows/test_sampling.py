from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import seed_of

MASK = 2**64 - 1


def split_mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def test_keys_are_those_of_split_mix():
    # the first outputs of the published generator for the seed 0
    golden = 0x9E3779B97F4A7C15
    assert split_mix(golden) == 0xE220A8397B1DCDAF
    assert split_mix(2 * golden & MASK) == 0x6E789E6AA1B965F4
    start = int(np.random.SeedSequence(7).generate_state(1, np.uint64)[0])
    rows = [0, 1, 12345, 2**40]
    expected = [split_mix((start + golden * row) & MASK) for row in rows]
    assert sampling.row_keys(7, np.array(rows)).tolist() == expected


@given(st.integers(0, 2**31), st.lists(st.integers(0, 2**62)))
def test_rows_follow_from_their_keys(seed, rows):
    rows = np.array(rows, np.int64)
    assert sampling.rows_of(seed, sampling.row_keys(seed, rows)).tolist() == rows.tolist()


@settings(deadline=None)
@given(st.integers(2, 10**10), st.integers(1, 10**7), st.booleans())
def test_key_blocks_are_one_range_cut_evenly(n_rows, n_wanted, hold_out):
    held_out = 2048 if hold_out and n_rows >= 40_960 else 0
    blocks = sampling.key_blocks(n_rows, n_wanted, held_out)
    assert blocks[0][0] == (sampling.key_threshold(n_rows, held_out) if held_out else 0)
    assert blocks[-1][1] == sampling.key_threshold(n_rows, held_out + n_wanted)
    assert all(b[1] == c[0] for b, c in pairwise(blocks))
    widths = [high - low for low, high in blocks]
    assert max(widths) - min(widths) <= 1
    assert max(widths) * n_rows / 2**64 <= sampling.BLOCK_ROWS * (1 + 1e-9)


@given(st.lists(st.integers(0, MASK), unique=True), st.integers(0, MASK), st.integers(1, 2**64))
def test_slice_by_key(keys, low, high):
    keys = np.array(sorted(keys), np.uint64)
    found = keys[sampling.slice_by_key(keys, low, high)].tolist()
    assert found == [k for k in keys.tolist() if low <= k < high]


def test_the_order_of_an_epoch():
    assert sampling.epoch_order(5, 0, 3, 10).tolist() == list(range(10))
    orders = {(e, b): sampling.epoch_order(5, e, b, 50) for e in (1, 2) for b in (0, 1)}
    assert all(sorted(order) == list(range(50)) for order in orders.values())
    assert len({order.tobytes() for order in orders.values()}) == 4
    assert (sampling.epoch_order(5, 1, 0, 50) == orders[1, 0]).all()
    assert (sampling.epoch_order(6, 1, 0, 50) != orders[1, 0]).any()


@given(st.lists(st.integers(0, MASK), unique=True), st.integers(0, 20))
def test_the_lowest_keys_are_in_order(keys, n):
    places = sampling.lowest(np.array(keys, np.uint64), n)
    assert [keys[p] for p in places] == sorted(keys)[:n]


def numbered(low, high):
    return np.repeat(np.arange(low, high, dtype=np.float32)[:, None], 2, axis=1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), max_size=8), st.integers(0, 2**32 - 1))
def test_a_long_stream_keeps_the_lowest_keys(cuts, seed):
    found = sampling.Reservoir.empty(seed, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "PILOT_ROWS", 30)
        for low, high in pairwise(sorted([0, 200, *cuts])):
            found.add(numbered(low, high))
    keys = sampling.row_keys(seed, np.arange(200))
    lowest = np.argsort(keys)[:30]
    assert found.n_seen == 200
    assert found.rows[:, 1].tolist() == lowest.tolist()
    assert (found.keys == keys[lowest]).all()


def test_a_reservoir_keeps_its_own_rows():
    X = numbered(0, 10)
    found = sampling.Reservoir.empty(0, 2)
    found.add(X)
    X[:] = -1.0
    assert (found.rows >= 0.0).all()


def test_a_whole_number_is_its_own_seed():
    assert seed_of(7) == 7
    assert seed_of(np.uint8(200)) == 200
    assert type(seed_of(np.int64(3))) is int


def test_a_generator_gives_the_next_seed():
    generator = np.random.RandomState(3)
    first, second = seed_of(generator), seed_of(generator)
    assert first != second
    assert first == seed_of(np.random.RandomState(3))
    assert 0 <= first < 2**31


def test_invalid_seeds_are_refused():
    with pytest.raises(ValueError, match="'tuesday'"):
        seed_of("tuesday")
