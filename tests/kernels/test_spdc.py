import numpy as np
import pytest

from distsvc.kernels.spdc import stream_rows
from distsvc.models.baselines.spdc import StreamState
from tests import reference


def rows(n=300, d=3, seed=0):
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
def test_twin(function, amnesia, d):
    X, state = rows(d=d), tree_of_three(1000, d)
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
    X, whole, parts = rows(), tree_of_three(1000), tree_of_three(60)
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


def test_the_direction_becomes_the_first_component():
    X = rows(20_000, 5)
    state = StreamState(1, 5, 20_001)
    stream_rows(X, 0, *arguments(state))
    values, vectors = np.linalg.eigh(np.cov(X.T))
    length = np.linalg.norm(state.leading[0])
    assert length == pytest.approx(values[-1], rel=0.1)
    assert abs(state.leading[0] @ vectors[:, -1]) / length > 0.999


def test_equal_rows_have_no_direction():
    state = StreamState(1, 3, 100)
    stream_rows(np.full((50, 3), 0.3, np.float32), 0, *arguments(state))
    assert not state.leading.any()
    assert not state.windows.any()
