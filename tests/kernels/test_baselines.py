import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels.baselines import insert_rows, rebuild, stream_rows
from distsvc.models.baselines import bico
from distsvc.models.baselines.bico import CoresetTree
from distsvc.models.baselines.spdc import StreamState
from tests import reference


def rows(n=300, d=3, seed=0, n_groups=6):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=4.0, size=(n_groups, d))[rng.integers(n_groups, size=n)] + rng.normal(
        size=(n, d)
    )


def summary(points, weights, sums):
    """Features in the order of their first coordinate."""
    order = np.argsort(points[:, 0])
    return points[order], weights[order], sums[order]


def features(tree):
    return summary(tree.means[tree.used], tree.weights[tree.used], tree.sums[tree.used])


@pytest.mark.parametrize("d", [1, 3, 16, 40])
@pytest.mark.parametrize("size", [1, 7, 40, 500])
def test_twin_insert_rows(d, size, monkeypatch):
    X = rows(250, d, seed=size)
    tree = CoresetTree(size, d)
    tree.insert(X)
    twin = reference.Features(size)
    for x in X:
        twin.insert(x)
    expected = summary(
        np.array([np.mean(node[1], axis=0) for node in twin.all()]),
        np.array([float(len(node[1])) for node in twin.all()]),
        np.array([twin.cost(node[1]) for node in twin.all()]),
    )
    monkeypatch.setattr(bico, "insert_rows", reference.plain(insert_rows))
    monkeypatch.setattr(bico, "rebuild", reference.plain(rebuild))
    plain = CoresetTree(size, d)
    plain.insert(X)
    assert tree.threshold == pytest.approx(twin.threshold)
    assert tree.threshold == pytest.approx(plain.threshold)
    for found, uncompiled, known in zip(features(tree), features(plain), expected, strict=True):
        np.testing.assert_allclose(found, known, atol=1e-9)
        np.testing.assert_allclose(uncompiled, known, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 400), st.integers(1, 60), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e6])
)
def test_nothing_is_lost(n, size, seed, offset):
    # a coarse grid: many rows are equal
    X = np.random.default_rng(seed).integers(-4, 5, (n, 2)) + offset
    tree = CoresetTree(size, 2)
    tree.insert(X)
    means, weights, sums = tree.means[tree.used], tree.weights[tree.used], tree.sums[tree.used]
    assert len(weights) <= size
    assert weights.sum() == n
    centre = X.mean(axis=0)
    np.testing.assert_allclose(weights @ means / n, centre, rtol=1e-12, atol=1e-12 * offset)
    between = weights @ ((means - centre) ** 2).sum(axis=1)
    total = ((X - centre) ** 2).sum()
    assert sums.sum() + between == pytest.approx(total, rel=1e-9, abs=1e-7)
    assert (sums <= tree.threshold * (1.0 + 1e-12)).all()
    assert (sums >= 0.0).all()


def test_every_slot_is_in_the_tree_or_free():
    tree = CoresetTree(50, 3)
    tree.insert(rows(2000))
    reached, waiting = [], [len(tree.sibling)]
    while waiting:
        j = tree.child[waiting.pop()]
        while j >= 0:
            reached.append(int(j))
            waiting.append(j)
            j = tree.sibling[j]
    assert sorted(reached) == tree.used.tolist()
    assert sorted(reached + tree.free[: tree.n_free[0]].tolist()) == list(range(51))


def test_equal_rows_never_fill_the_tree():
    tree = CoresetTree(3, 2)
    tree.insert(np.repeat([[0.1, 0.2], [3.0, 4.0]], 500, axis=0))
    assert tree.threshold == 0.0
    assert tree.weights[tree.used].tolist() == [500.0, 500.0]
    assert tree.sums[tree.used].tolist() == [0.0, 0.0]


def test_rows_too_far_apart():
    with pytest.raises(ValueError, match="too large to be squared"):
        CoresetTree(2, 1).insert(np.array([[0.0], [1e200], [-1e200]]))


def stream(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * np.arange(d, 0, -1) + 1.0).astype(np.float32)


def tree_of_three(window, d=3):
    state = StreamState(5, d, window)
    state.directions[0, 0] = 1.0
    state.directions[2] = 1.0
    state.thresholds[:] = [0.5, 0.0, 1.5, 0.0, 0.0]
    state.children[[0, 2]] = [[1, 2], [3, 4]]
    return state


def arguments(state, amnesia=2.0):
    return (
        state.directions, state.thresholds, state.children, state.means, state.leading,
        state.counts, state.windows, state.filled, amnesia,
    )  # fmt: skip


@pytest.mark.parametrize(
    "function", [stream_rows, reference.plain(stream_rows)], ids=["kernel", "plain"]
)
@pytest.mark.parametrize("amnesia", [0.0, 2.0])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_twin_stream_rows(function, amnesia, d):
    X, state = stream(d=d), tree_of_three(1000, d)
    assert function(X, 0, *arguments(state, amnesia)) == (300, -1)
    known = reference.stream_rows(X, state.directions, state.thresholds, state.children, amnesia)
    assert sorted(known) == [1, 3, 4]
    for node, (mean, leading, places) in known.items():
        assert state.counts[node] == state.filled[node] == len(places)
        np.testing.assert_allclose(state.means[node], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.leading[node], leading, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(state.windows[node, : len(places)], places, rtol=1e-4, atol=1e-5)
    assert state.counts[[0, 2]].tolist() == [0, 0]


def test_it_stops_at_a_full_window_and_goes_on():
    X, whole, parts = stream(), tree_of_three(1000), tree_of_three(60)
    stream_rows(X, 0, *arguments(whole))
    done, stops = 0, []
    while done < len(X):
        done, leaf = stream_rows(X, done, *arguments(parts))
        if leaf >= 0:
            stops.append(leaf)
            assert parts.filled[leaf] == 60
            parts.filled[leaf] = 0
    assert len(stops) == (whole.counts // 60).sum()
    assert parts.leading.tobytes() == whole.leading.tobytes()
    assert parts.means.tobytes() == whole.means.tobytes()


def test_equal_rows_have_no_direction():
    state = StreamState(1, 3, 100)
    stream_rows(np.full((50, 3), 0.3, np.float32), 0, *arguments(state))
    assert not state.leading.any()
    assert not state.windows.any()
