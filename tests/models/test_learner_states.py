"""A learner that is restored from a state continues bit by bit as before."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.errors import DataError
from distsvc.models.hyperplanes.engine import Stream, TreeEngine
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Position
from distsvc.models.support_vector.boundary import stochastic_gradient
from distsvc.models.support_vector.boundary.stochastic_gradient import (
    DescentProgress,
    StochasticGradient,
)
from tests.normal_rows import normal


def fed(place, blocks, piece, most):
    """The rows (n,) of two epochs from a place on, at most so many pieces of so many rows."""
    found = []
    while place.epoch < 2:
        stream = place.pieces(blocks[place.epoch][place.block :], lambda: piece)
        found += itertools.islice(stream, most - len(found))
        if len(found) == most:
            break
    return np.concatenate([np.zeros(0, int), *found])


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), min_size=2, max_size=2),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(1, 12),
)
def test_no_row_is_left_out_or_fed_twice_wherever_it_stops(sizes, piece, other, most):
    numbers = iter(range(1000))
    blocks = [[np.array([next(numbers) for _ in range(n)], int) for n in of] for of in sizes]
    place = Position()
    before = fed(place, blocks, piece, most)
    after = fed(Position.restored(place.facts()), blocks, other, 10**6)
    assert np.concatenate([before, after]).tolist() == list(range(sum(map(sum, sizes))))


def test_learners_in_memory_store_no_state():
    assert NO_CHECKPOINT.last(lambda facts, arrays: 1) is None
    NO_CHECKPOINT.keep(1, lambda: pytest.fail("the state was made"))


def descent(d=3, **changes):
    return StochasticGradient(d, 1.0, 10.0, **{"budget": 15} | changes)


@pytest.mark.parametrize(
    "parameters",
    [{"maintenance": name} for name in stochastic_gradient.STRATEGIES]
    + [{"budget": None, "average": True}, {"theta": 1e-9}],
)
@pytest.mark.parametrize("n", [0, 1, 70])
def test_a_restored_descent_continues(parameters, n):
    X, whole, first = normal(200, 3), descent(**parameters), descent(**parameters)
    whole.feed(X[:n])
    whole.forget_average()
    whole.feed(X[n:])
    first.feed(X[:n])
    first.forget_average()
    then = descent(**parameters)
    then.restore(*first.state())
    then.feed(X[n:])
    assert then.coefficients.tobytes() == whole.coefficients.tobytes()
    (facts, arrays), (expected, others) = then.state(), whole.state()
    assert facts == expected
    assert {k: v.tobytes() for k, v in arrays.items()} == {
        k: v.tobytes() for k, v in others.items()
    }


def test_a_descent_with_slow_steps_has_smaller_pieces(monkeypatch):
    monkeypatch.setattr(stochastic_gradient, "DESCENT_PIECE", 450)
    plain, with_norm = descent(), descent(theta=1e-9)
    assert plain.piece_rows == 150
    for of in (plain, with_norm):
        of.feed(normal(200, 3))
        assert of.n_vectors == 15
    assert (plain.piece_rows, with_norm.piece_rows) == (10, 1)


def of_descent():
    begun = descent()
    begun.feed(normal(200, 3))
    course = DescentProgress(begun, Position(), [0.5])
    return course.state, lambda: DescentProgress(descent(), Position(), []).restored


def of_tree():
    engine = TreeEngine(IncrementalMDH(depth=3).get_params(), 0)
    tree = engine.seedling(3)
    engine.learn(tree, normal(200, 3))
    return Stream(Position(), 200, tree).state, lambda: engine._restored


LEARNERS = {"descent": of_descent, "tree": of_tree}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_state_of_another_form_is_refused(name):
    make, restorer = LEARNERS[name]()
    facts, arrays = make()
    restorer()(facts, arrays)
    for field in facts:
        for value in ({k: v for k, v in facts.items() if k != field}, facts | {field: "x"}):
            with pytest.raises(DataError):
                restorer()(value, arrays)
    for field, array in arrays.items():
        without = {k: v for k, v in arrays.items() if k != field}
        changes = [without, arrays | {field: array.astype("c16")}]
        changes.append(arrays | {field: array[:-1]})
        for changed in changes:
            with pytest.raises(DataError):
                restorer()(facts, changed)
