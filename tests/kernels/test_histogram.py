import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from distsvc.kernels.histogram import count_between
from tests import reference

VALUES = st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1.0, 5e-324, np.nan, np.inf, -np.inf]) | st.floats()
LEVEL_OR_RISING = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), min_size=3, max_size=3)


@reference.forms(count_between)
def test_twin_count_between(form):
    @settings(deadline=None, max_examples=100)
    @given(
        arrays(np.float64, st.tuples(st.integers(0, 12), st.just(2)), elements=VALUES),
        st.lists(LEVEL_OR_RISING.map(sorted), min_size=2, max_size=2),
    )
    def check(X, edges):
        counts = np.ones((2, 5), np.int64)
        form(X, np.array(edges), counts)
        np.testing.assert_array_equal(counts - 1, reference.counts_between(X, edges))

    check()


def test_a_value_at_an_edge_is_above_it():
    edges = np.array([[0.0, 1.0, 1.0]])
    X = np.array([[-0.5], [0.0], [0.5], [1.0], [1.5], [np.nan], [np.inf], [-np.inf]])
    counts = np.zeros((1, 5), np.int64)
    count_between(X, edges, counts)
    assert counts.tolist() == [[2, 2, 0, 3, 1]]
