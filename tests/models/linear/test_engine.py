"""The phases of a job on a linear model, and the restored result of a phase."""

import json

import numpy as np
import pytest

from distsvc import LinearOneClassSVM, LinearSVDD
from distsvc.models.linear.engine import MEMORY_BYTES, BallEngine, OneClassEngine
from distsvc.models.linear.working_set import Candidates, WorkingSet, gradients
from tests.models.linear.test_working_set import descended

N, D = 2000, 4
BOTH = pytest.mark.parametrize(
    ("engine_type", "make"),
    [(OneClassEngine, LinearOneClassSVM), (BallEngine, LinearSVDD)],
    ids=["plane", "ball"],
)


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).gamma(3.0, size=(N, D)) + 0.5


def engine_for(engine_type, **parameters):
    make = LinearSVDD if engine_type is BallEngine else LinearOneClassSVM
    engine = engine_type(make(**parameters).get_params(), seed=0)
    engine.set_width(D)
    return engine


def outer_steps(engine, X):
    """The working set at the end of outer steps over X, and the passes it took."""
    u, rho, scale = engine.begin_outer(len(X))
    G = gradients(X, u, scale, engine.is_ball)
    outside = rho > G
    alpha, rows = outside.astype(float), np.arange(len(X))
    linear = -float((X[outside] ** 2).sum()) if engine.is_ball else 0.0
    found = WorkingSet(engine.is_ball, engine.total(len(X)), X[outside].sum(axis=0), linear)
    inside, beyond = (
        Candidates.lowest(keys, rows, X, alpha, wanted, 60)
        for keys, wanted in ((G, ~outside), (-G, outside))
    )
    assert found.settle(int(outside.sum()), inside, beyond)
    method = engine.method, engine.tol, engine.max_iter, engine.seed
    return found, descended(found, X, alpha, method, 60)


@BOTH
@pytest.mark.parametrize("compute_gap", [False, True])
def test_an_engine_restores_a_solution(engine_type, make, table, compute_gap):
    parameters = {"nu": 0.1, "tol": 1e-9, "compute_gap": compute_gap}
    first, later = (engine_for(engine_type, **parameters) for _ in range(2))
    first.notes.append("constant columns, which do not change the result: f7")
    first.fit_rows(table[:500])
    for step in range(2):
        facts, arrays = first.solved()
        later.restore(json.loads(json.dumps(facts)), arrays)
        assert_same(first, later)
        if step == 0:
            assert first.begin_outer(N)[0].tobytes() == later.begin_outer(N)[0].tobytes()
            assert first.begin_outer(N)[1:] == later.begin_outer(N)[1:]
            first.end_outer(*outer_steps(first, table))
    assert ("duality_gap" in later.fitted_facts()) == compute_gap
    assert later.fitted_facts()["n_passes"] == first.solution.n_passes >= 1


def assert_same(first, later):
    a, b = first.rule(np.ones(D)), later.rule(np.ones(D))
    assert (type(a), a.facts()) == (type(b), b.facts())
    assert {k: v.tobytes() for k, v in a.arrays().items()} == {
        k: v.tobytes() for k, v in b.arrays().items()
    }
    assert list(first.fitted_facts().items()) == list(later.fitted_facts().items())
    assert first.notes == later.notes
    assert first.solution.violation == later.solution.violation
    assert first.solution.converged is later.solution.converged


def test_an_origin_among_the_rows_gives_a_note(table):
    X = np.concatenate([table, -table])
    plane, ball = (
        engine_for(kind, nu=0.5, max_iter=100_000) for kind in (OneClassEngine, BallEngine)
    )
    plane.fit_rows(X)
    ball.fit_rows(X)
    assert [note[:10] for note in plane.notes] == ["the origin"]
    assert ball.notes == []


def test_rows_are_centred_only_for_a_ball_of_dense_rows(table):
    centres = []
    for kind, is_sparse in ((OneClassEngine, False), (BallEngine, False), (BallEngine, True)):
        engine = engine_for(kind)
        engine.set_width(D, sparse=is_sparse)
        engine.set_pilot(table[:100], N)
        centres.append(engine.centre)
    assert not centres[0].any()
    np.testing.assert_array_equal(centres[1], table[:100].mean(axis=0))
    assert not centres[2].any()


def test_key_ranges_of_rows_in_memory():
    engine = engine_for(OneClassEngine)
    fits = MEMORY_BYTES // (8 * D)
    assert engine.key_ranges(fits)[-1][1] == 2**64
    share = engine.key_ranges(2 * fits)[-1][1] / 2**64
    assert share == pytest.approx(0.5)
    share = engine_for(OneClassEngine, memory_rows=1000).key_ranges(10_000)[-1][1] / 2**64
    assert share == pytest.approx(0.1)
    engine.set_width(D, sparse=True)
    assert engine.key_ranges(10_000)[-1][1] / 2**64 == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("parameters", "total"),
    [({}, 1000.0), ({"nu": 0.1}, 200.0), ({"C": 0.01}, 100.0), ({"C": 3.0}, 1.0)],
)
def test_the_sum_of_alpha(parameters, total):
    assert engine_for(BallEngine, **parameters).total(N) == pytest.approx(total)


def test_a_c_too_small_for_few_rows_is_an_error():
    with pytest.raises(ValueError, match=r"C must be at least 1 / n = 0\.01 for 100 rows, found"):
        engine_for(BallEngine, C=0.001).total(100)
