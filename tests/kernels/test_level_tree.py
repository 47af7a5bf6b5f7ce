import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels import level_tree
from distsvc.kernels.level_tree import FIXED_POINT_UNITS
from tests import reference


def graph(n, seed, ties=False):
    """A connected graph, its edges by falling height and none above its ends."""
    rng = np.random.default_rng(seed)
    heights = (rng.integers(1, 5, n) if ties else rng.uniform(1, 2, n)).astype(np.float32)
    mass = rng.integers(0, 4, n).astype(np.float64)
    path = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    more = rng.integers(0, n, (2 * n, 2))
    pairs = rng.permutation(np.vstack([path, more[more[:, 0] != more[:, 1]]]).astype(np.int64))
    lower = heights[pairs].min(axis=1, initial=np.inf)
    drop = rng.integers(0, 2, len(pairs)) if ties else rng.uniform(0.01, 1, len(pairs))
    edge_heights = (lower - drop).astype(np.float32)
    order = np.argsort(-edge_heights, kind="stable")
    return heights, mass, pairs[order], edge_heights[order]


def merged(heights, *others, form=level_tree.merge_components):
    return form(heights, np.argsort(-heights, kind="stable"), *others)


def branches(args, found):
    tree, births, peaks, masses, parents, joints = found
    deaths = [-np.inf if j < 0 else float(args[3][tree[j]]) for j in joints]
    peak_of_parent = [None if p < 0 else int(peaks[p]) for p in parents]
    rows = zip(
        births.tolist(), deaths, peaks.tolist(), masses.tolist(), peak_of_parent, strict=True
    )
    return list(rows)


def same(a, b):
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 25), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 3.0, 8.0, 1e9]))
def test_twin_merge_components(n, seed, least_mass):
    args = *graph(n, seed), least_mass
    found = merged(*args)
    assert branches(args, found) == sorted(reference.level_tree(*args), key=lambda b: -b[0])
    assert same(found, merged(*args, form=reference.plain(level_tree.merge_components)))


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 25), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 3.0, 8.0]))
def test_with_ties_the_branches_are_the_components_of_every_level(n, seed, least_mass):
    args = *graph(n, seed, ties=True), least_mass
    heights, mass, pairs, edge_heights, _ = args
    found = merged(*args)
    assert same(found, merged(*args, form=reference.plain(level_tree.merge_components)))
    tree, *_, joints = found
    rows = branches(args, found)
    for level in sorted({*heights.tolist(), *edge_heights.tolist()}):
        components = reference.level_components(heights, pairs, edge_heights, level)
        born = [c for c in components if sum(mass[list(c)]) >= least_mass or len(c) == n]
        alive = np.array([birth >= level > death for birth, death, *_ in rows])
        assert alive.sum() == len(born)
        kept = np.ones(n - 1, bool)
        kept[joints[alive & (joints >= 0)]] = False
        part = level_tree.forest_parts(n, pairs[tree], kept)
        assert [len(set(part[list(c)])) for c in born] == [1] * len(born)
        assert len({part[min(c)] for c in born}) == len(born)


def test_of_branches_born_at_one_level_the_one_with_the_lower_peak_dies():
    # {0, 1} and {2, 3} are both born at the level 3; 2 is higher than 0
    heights = np.array([4.0, 3.0, 5.0, 3.0], np.float32)
    pairs = np.array([[0, 1], [2, 3], [1, 3]])
    edge_heights = np.array([3.0, 3.0, 1.0], np.float32)
    found = merged(heights, np.ones(4), pairs, edge_heights, 2.0)
    _, births, peaks, masses, parents, _ = found
    assert births.tolist() == [3.0, 3.0]
    dead = int(np.flatnonzero(parents >= 0)[0])
    assert (peaks[dead], masses[dead]) == (0, 2.0)
    assert (peaks[1 - dead], masses[1 - dead]) == (2, 4.0)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 25), st.integers(0, 2**32 - 1))
def test_twin_forest_parts(n, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)  # any tree: every vertex is joined to an earlier one
    edges = np.array([(order[i], order[rng.integers(i)]) for i in range(1, n)], np.int64)
    edges = edges.reshape(-1, 2)
    kept = rng.random(n - 1) < 0.6
    found = level_tree.forest_parts(n, edges, kept)
    assert found.dtype == np.int32
    assert found.tolist() == reference.forest_parts(n, edges, kept)
    assert found.tolist() == reference.plain(level_tree.forest_parts)(n, edges, kept).tolist()
    assert found.max() + 1 == (~kept).sum() + 1


def splits(d, s, n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in [(n, d), (d, s), (d, s)]]


@pytest.mark.parametrize("d", [1, 2, 5, 9])
@pytest.mark.parametrize("s", [1, 7])
@pytest.mark.parametrize("gamma", [0.05, 2.0])
def test_twin_add_differences(d, s, gamma):
    X, peaks, saddles = splits(d, s)
    X[3], X[5] = peaks[:, 0], saddles[:, -1]  # rows that are left out
    sums = np.zeros((4, s), np.int64)
    plain = sums.copy()
    level_tree.add_differences(X, peaks, saddles, gamma, sums)
    reference.plain(level_tree.add_differences)(X, peaks, saddles, gamma, plain)
    expected = reference.add_differences(X, peaks, saddles, gamma)
    assert sums[2].tolist() == plain[2].tolist() == expected[2].tolist()
    assert sums[2, 0] == 60 - 1 - (s == 1)
    for found in (sums[[0, 1, 3]], plain[[0, 1, 3]]):
        np.testing.assert_allclose(
            found / FIXED_POINT_UNITS, expected[[0, 1, 3]] / FIXED_POINT_UNITS, atol=1e-6 * len(X)
        )


def test_rows_on_the_peak_count_where_ties_do():
    X, peaks, saddles = splits(2, 3)
    X[:20] = peaks[:, 0]
    with_ties, without = (np.zeros((4, 3), np.int64) for _ in range(2))
    level_tree.add_differences(X, peaks, saddles, 1.0, with_ties, True)
    level_tree.add_differences(X, peaks, saddles, 1.0, without)
    assert with_ties[2].tolist() == [60, 60, 60]
    assert without[2].tolist() == [40, 60, 60]
    assert with_ties[:, 1:].tolist() == without[:, 1:].tolist()
    assert with_ties[3, 0] - without[3, 0] == 20 * level_tree.FIXED_POINT_UNITS


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(1, 20), st.lists(st.integers(0, 60), max_size=5))
def test_sums_do_not_depend_on_the_cut_or_the_order_of_rows(d, s, cuts):
    X, peaks, saddles = splits(d, s, seed=d)
    whole, parts = np.zeros((4, s), np.int64), np.zeros((4, s), np.int64)
    level_tree.add_differences(X, peaks, saddles, 0.7, whole)
    for part in reversed(np.split(X, sorted(cuts))):
        level_tree.add_differences(part[::-1].copy(), peaks, saddles, 0.7, parts)
    assert parts.tobytes() == whole.tobytes()


def test_sums_of_more_rows_than_are_added_up_at_a_time():
    X, peaks, saddles = splits(2, 2, n=level_tree.EXACT_SUM_ROWS + 3)
    n = len(X)
    whole, parts = np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64)
    level_tree.add_differences(X, peaks, saddles, 0.7, whole)
    for part in np.array_split(X, 3):
        level_tree.add_differences(part, peaks, saddles, 0.7, parts)
    assert whole[2].tolist() == [n, n]
    assert parts.tobytes() == whole.tobytes()


def voters(d, b, k, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(d, b)).astype(np.float32)
    a = rng.uniform(0.1, 1.0, b).astype(np.float32)
    inner = np.sort(rng.choice(np.arange(1, b), k - 1, replace=False)) if k > 1 else []
    return S, a, np.array([*inner, b], np.int64)


@pytest.mark.parametrize("d", [1, 2, 5, 9])
@pytest.mark.parametrize(("b", "k"), [(1, 1), (2, 2), (9, 3), (33, 33)])
def test_twin_vote(d, b, k):
    S, a, ends = voters(d, b, k)
    X = np.random.default_rng(1).normal(scale=2.0, size=(40, d)).astype(np.float32)
    expected = reference.group_sums(X, S, a, ends.tolist(), 0.6)
    best = np.sort(np.column_stack([np.zeros(len(X)), expected]), axis=1)
    clear = best[:, -1] > best[:, -2] * (1 + 1e-4)
    assert clear.sum() > 30
    for vote in (level_tree.vote, reference.plain(level_tree.vote)):
        groups = vote(X, S, a, ends, 0.6)
        assert groups.dtype == np.int32
        assert (groups == expected.argmax(axis=1))[clear].all()


def test_of_equal_groups_the_first_and_an_empty_one_never():
    S = np.array([[-1.0, 1.0, -1.0, 1.0]], np.float32)
    X = np.array([[0.0], [1.0], [-1.0]], np.float32)
    a = np.full(4, 0.5, np.float32)
    groups = level_tree.vote(X, S, a, np.array([2, 4]), 1.0)
    assert groups.tolist() == [0, 0, 0]
    groups = level_tree.vote(X, S, a, np.array([0, 1, 2, 4]), 1.0)
    assert 0 not in groups


@pytest.mark.parametrize("far", [50.0, 1e3, 1e18, 1e30, 3e38])
def test_far_rows_belong_to_the_nearest_group_as_long_as_distances_are_finite(far):
    S = np.array([[0.0, far / 10, 0.0], [0.0, 0.0, far / 10]], np.float32)
    X = np.array([[far, 0.0], [0.0, far], [-far, -far]], np.float32)
    a = np.array([1.0, 1e-3, 1e-3], np.float32)
    for vote in (level_tree.vote, reference.plain(level_tree.vote)):
        with np.errstate(over="ignore", invalid="ignore"):
            groups = vote(X, S, a, np.arange(1, 4), 5.0)
        if far < 1e19:
            assert groups.tolist() == [1, 2, 0]
        else:
            assert set(groups) <= {0, 1, 2}


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(2, 40), st.lists(st.integers(0, 60), max_size=5))
def test_a_vote_does_not_depend_on_the_block(d, b, cuts):
    S, a, ends = voters(d, b, 2, seed=b)
    X = np.random.default_rng(d).normal(scale=3.0, size=(60, d)).astype(np.float32)
    groups = level_tree.vote(X, S, a, ends, 0.8)
    parts = [level_tree.vote(part, S, a, ends, 0.8) for part in np.split(X, sorted(cuts))]
    assert np.concatenate(parts).tobytes() == groups.tobytes()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.integers(2, 80), st.integers(2, 9), st.floats(-6.0, 2.0))
def test_what_bounds_settle_is_what_sums_say(d, b, k, log_gamma):
    S, a, ends = voters(d, max(b, k), k, seed=b)
    X = np.random.default_rng(d).normal(scale=2.0, size=(200, d)).astype(np.float32)
    gamma = 10.0**log_gamma
    sums = reference.group_sums(X, S, a, ends.tolist(), gamma)
    others = np.sort(sums, axis=1)
    clear = (others[:, -1] > others[:, -2] * (1.0 + 1e-4)) & (others[:, -1] > 1e-25)
    assert (level_tree.vote(X, S, a, ends, gamma) == sums.argmax(axis=1))[clear].all()
