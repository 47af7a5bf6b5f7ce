import numpy as np
import pytest
from sklearn.datasets import make_blobs

from distsvc.models.rows import sampling
from distsvc.models.support_vector.boundary.kernel_width import density_gamma
from distsvc.models.support_vector.level_tree import ensemble
from distsvc.models.support_vector.level_tree.directions import MOST_COMPONENTS
from distsvc.models.support_vector.level_tree.ensemble import (
    EFFORTS,
    SUBSPACES,
    Ensemble,
    Member,
    least_mass,
    make_ensemble,
    steps_of_member,
)


def pilot(d, n=300, seed=0):
    """Rows whose features are correlated, and of falling spread along the principal components."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rng.normal(size=(n, d)) * 0.9 ** np.arange(d) @ rotation).astype(np.float32)


def plan_of(X, **changes):
    settings = {
        "gammas": None,
        "C": 2.0,
        "effort": "default",
        "budget": 200,
        "maintenance": "merge",
        "projection_size": 5,
        "max_iter": 200_000,
        "seed": 0,
    }
    return make_ensemble(X, len(X), **settings | changes)


def sizes(plan):
    return sorted({member.n_components for member in plan.members})


# --- which models


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("effort", EFFORTS)
def test_few_features_are_looked_at_as_they_are(d, effort):
    X = pilot(d)
    plan = plan_of(X, effort=effort)
    assert plan.view(X).tobytes() == X.tobytes()
    assert sizes(plan) == [d]
    middle = density_gamma(X.astype(np.float64))
    octaves = list(EFFORTS[effort].octaves) * EFFORTS[effort].repeats
    assert [member.gamma for member in plan.members] == [middle * 2.0**o for o in octaves]


@pytest.mark.parametrize(
    ("d", "expected"),
    [
        (4, [2, 3, 4]),
        (5, [2, 3, 4, 5]),
        (9, [2, 3, 4, 6, 8, 9]),
        (16, [2, 3, 4, 6, 8, 12, 16]),
        (40, [2, 3, 4, 6, 8, 12, 16, 20]),
    ],
)
def test_of_more_features_the_leading_components(d, expected):
    X = pilot(d)
    plan = plan_of(X)
    view = plan.view(X)
    q = min(d, MOST_COMPONENTS)
    assert sizes(plan) == expected
    assert view.shape == (300, q)
    assert plan.components.dtype == np.float32
    np.testing.assert_allclose(plan.components @ plan.components.T, np.eye(q), atol=1e-5)
    spread = np.cov(view.T.astype(np.float64))
    np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=1e-4)
    assert (np.diff(np.diag(spread)) < 0).all()
    largest = np.linalg.eigvalsh(np.cov(X.T.astype(np.float64)))[::-1][:q]
    np.testing.assert_allclose(np.diag(spread), largest, rtol=1e-4)
    for member in plan.members:
        seen = view[:, : member.n_components].astype(np.float64)
        octave = np.log2(member.gamma / density_gamma(seen))
        assert min(abs(octave - o) for o in EFFORTS["default"].octaves_in_subspaces) < 1e-9


@pytest.mark.parametrize("d", [2, 4, 9, 40])
def test_more_effort_is_more_models(d):
    X = pilot(d)
    fast, default, thorough = (
        plan_of(X, effort=effort) for effort in ("fast", "default", "thorough")
    )
    assert len(fast.members) < len(default.members) < len(thorough.members)
    assert set(fast.members) <= set(default.members) <= set(thorough.members)
    assert set(SUBSPACES) >= set(sizes(default)) - {min(d, MOST_COMPONENTS)}


def test_the_sign_of_a_component_is_settled():
    X = pilot(6)
    a, b = plan_of(X), plan_of(-X)
    np.testing.assert_allclose(a.components, b.components, atol=1e-5)
    heaviest = np.abs(a.components).argmax(axis=1)
    assert (a.components[np.arange(6), heaviest] > 0).all()


@pytest.mark.parametrize("d", [2, 9, 40])
def test_given_gammas_are_one_model_each_of_all_features(d):
    X = pilot(d)
    plan = plan_of(X, gammas=[0.5, 2, 0.5], C=7.0, effort="thorough")
    assert plan.members == [Member(d, 0.5, 7.0), Member(d, 2.0, 7.0), Member(d, 0.5, 7.0)]
    assert plan.view(X).tobytes() == X.tobytes()


def test_c_budget_and_steps_are_those_given():
    plan = plan_of(pilot(9), C=13.0, budget=77, maintenance="removal", max_iter=123, seed=5)
    assert {member.C for member in plan.members} == {13.0}
    assert (plan.budget, plan.maintenance, plan.steps, plan.seed) == (77, "removal", 123, 5)


@pytest.mark.parametrize(
    ("n_rows", "steps"),
    [(1, 500), (8, 4_000), (800, 4_000), (1_000, 5_000), (4_000, 20_000), (10**9, 20_000)],
)
def test_a_small_table_has_fewer_steps(n_rows, steps):
    assert steps_of_member(n_rows, 10**9) == steps
    assert steps_of_member(n_rows, 100) == 100


def test_a_constant_feature_is_no_obstacle():
    X = pilot(5)
    X[:, 2] = 0.0
    plan = plan_of(X)
    assert all(0.0 < member.gamma < np.inf for member in plan.members)
    np.testing.assert_allclose(plan.components[:4, 2], 0.0, atol=1e-6)


def test_a_plan_survives_being_written_as_plain_values():
    plan = plan_of(pilot(9))
    again = Ensemble.restored(plan.facts(), plan.components)
    assert vars(again) == vars(plan)  # arrays have no equality of their own
    assert plan.facts()["components"] is None


# --- how they are trained


def stream(X, keys):
    order = np.argsort(keys)

    def blocks(epoch, ranges, first):
        return sampling.memory_blocks(X[order], keys[order], ranges, 0, epoch, first)

    return blocks


def growing(X, **changes):
    X = np.float32(X)
    keys = sampling.row_keys(0, np.arange(len(X)))
    plan = plan_of(X, **changes)
    view = plan.view(X)
    ranges = sampling.key_blocks(len(X), len(X))
    return lambda number: plan.grow(number, view, ranges, stream(view, keys))


def test_a_member_sees_its_leading_components_only():
    X = pilot(9)
    grow = growing(X)
    members = plan_of(X).members
    for number in (0, len(members) - 1):
        tree = grow(number)
        assert tree.S.shape == (members[number].n_components, tree.a.size)
        assert tree.gamma == members[number].gamma
        assert tree.a.size <= 200
        assert (tree.a > 0).all()


def test_equal_members_are_trained_on_different_streams():
    X = make_blobs(500, centers=3, random_state=0)[0]
    grow = growing(X, gammas=[0.5, 0.5])
    first, second, again = grow(0), grow(1), grow(0)
    assert first.a.tobytes() == again.a.tobytes()
    assert first.a.tobytes() != second.a.tobytes()


def test_steps_are_neither_more_nor_fewer_than_planned(monkeypatch):
    fed = []
    feed = ensemble.StochasticGradient.feed
    monkeypatch.setattr(
        ensemble.StochasticGradient, "feed", lambda self, X: (fed.append(len(X)), feed(self, X))[1]
    )
    growing(pilot(2, n=300), max_iter=1000)(0)
    assert sum(fed) == 1000
    assert fed[-1] == 100
    fed.clear()
    growing(pilot(2, n=900))(0)
    assert sum(fed) == 4500


def test_a_tiny_table_is_passed_over_so_often_and_no_more(monkeypatch):
    passes = set()
    order = sampling.epoch_order
    monkeypatch.setattr(
        sampling, "epoch_order", lambda seed, e, *rest: (passes.add(e), order(seed, e, *rest))[1]
    )
    growing(pilot(2, n=2))(1)
    assert len(passes) == ensemble.PASSES


# --- which rows test the splits


def planned(n_members):
    return Ensemble(np.eye(2), [Member(2, 1.0, 2.0)] * n_members, 200, "merge", 5, 20_000, 0)


@pytest.mark.parametrize("n_rows", [2, 99_999, 100_000])
def test_every_row_of_a_small_table_tests_every_member(n_rows):
    keys = sampling.row_keys(0, np.arange(10))
    for number in range(3):
        assert planned(3).rows_for(number, keys, n_rows) == slice(None)
    assert planned(1).rows_for(0, keys, 10**9) == slice(None)


@pytest.mark.parametrize(
    ("n_members", "n_rows", "share"),
    [(10, 200_000, 0.5), (10, 10**6, 0.1), (10, 10**9, 0.1), (3, 10**7, 1 / 3), (20, 10**6, 0.1)],
)
def test_each_member_is_tested_on_a_share(n_members, n_rows, share):
    keys = sampling.row_keys(1, np.arange(20_000))
    plan = planned(n_members)
    taken = [plan.rows_for(number, keys, n_rows) for number in range(n_members)]
    for rows in taken:
        assert rows.dtype == bool
        assert rows.mean() == pytest.approx(share, abs=0.02)
        assert rows.mean() * n_rows > 0.9 * min(ensemble.SIGNIFICANCE_ROWS, n_rows)
    # together they are spread evenly over all rows
    uses = np.sum(taken, axis=0)
    assert set(uses) <= {int(share * n_members), int(share * n_members) + 1}
    assert uses.mean() == pytest.approx(share * n_members, abs=0.05)


def test_shares_wrap_around_the_end_of_the_keys():
    keys = np.array([0, 1, 2**62, 2**63, 2**64 - 2, 2**64 - 1], np.uint64)
    last = planned(4).rows_for(3, keys, 200_000)  # the half from three quarters on
    assert last.tolist() == [True, True, False, False, True, True]
    first = planned(4).rows_for(0, keys, 200_000)
    assert first.tolist() == [True, True, True, False, False, False]


def test_rows_do_not_depend_on_the_partition():
    keys = sampling.row_keys(1, np.arange(1000))
    plan = planned(4)
    parts = [plan.rows_for(2, part, 10**6) for part in np.split(keys, [1, 400])]
    assert np.concatenate(parts).tolist() == plan.rows_for(2, keys, 10**6).tolist()


# --- the mass of a component


@pytest.mark.parametrize(
    ("n_rows", "n_components", "expected"),
    [
        (2, 2, 5.0),
        (277, 2, 5.0),  # 0.3 sqrt(278) is the first above 5
        (10_000, 3, 30.0),
        (10_000, 4, 30.0),  # 0.2 % are 20 rows
        (40_000, 3, 60.0),
        (40_000, 4, 80.0),
        (40_000, 8, 80.0),
        (40_000, 9, 400.0),
        (400, 9, 6.0),
        (600, 9, pytest.approx(0.3 * 600**0.5)),
        (10_000, 20, 100.0),
    ],
)
def test_least_mass_at_its_joints(n_rows, n_components, expected):
    assert least_mass(n_rows, n_components) == expected


def test_least_mass_never_falls():
    values = np.array([[least_mass(n, q) for q in range(1, 21)] for n in (2, 300, 5000, 10**6)])
    assert (np.diff(values, axis=0) >= 0).all()
    assert (np.diff(values, axis=1) >= 0).all()
