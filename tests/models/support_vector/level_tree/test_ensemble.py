import numpy as np
import pytest
from sklearn.datasets import make_blobs

from distsvc.job.parameters import completed
from distsvc.models.rows import sampling
from distsvc.models.rows.principal_components import MOST_COMPONENTS
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.boundary.kernel_width import density_gamma
from distsvc.models.support_vector.level_tree import ensemble
from distsvc.models.support_vector.level_tree.ensemble import (
    EFFORTS,
    Ensemble,
    Member,
    least_mass,
    make_ensemble,
    rows_of_sample,
)


def pilot(d, n=300, seed=0):
    """Rows whose features are correlated, and of falling spread along the principal components."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rng.normal(size=(n, d)) * 0.9 ** np.arange(d) @ rotation).astype(np.float32)


def plan_of(X, **changes):
    seed = changes.pop("seed", 0)
    given = Parameters(**completed("support-vector", changes))
    return make_ensemble(X, len(X), given, seed)


@pytest.mark.parametrize("effort", EFFORTS)
def test_the_first_round_has_the_middle_model_of_each_subspace(effort):
    plan = plan_of(pilot(9), effort=effort)
    first, others = plan.rounds
    assert sorted(first + others) == list(range(len(plan.members)))
    of_each = {}
    for member in plan.members:
        of_each.setdefault(member.n_components, []).append(member.gamma)
    assert len(first) == len(of_each)
    for number in first:
        member = plan.members[number]
        gammas = sorted(of_each[member.n_components])
        assert member.gamma == gammas[len(gammas) // 2]


def sizes(plan):
    return sorted({member.n_components for member in plan.members})


# --- which models


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("effort", EFFORTS)
def test_few_features_are_their_own_directions(d, effort):
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
def test_models_of_more_features_use_leading_components(d, expected):
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


@pytest.mark.parametrize("d", [2, 9, 40])
def test_each_given_gamma_has_a_model_of_all_features(d):
    X = pilot(d)
    plan = plan_of(X, gamma=[0.5, 2, 0.5], C=7.0, effort="thorough")
    assert plan.members == [Member(d, 0.5, 7.0), Member(d, 2.0, 7.0), Member(d, 0.5, 7.0)]
    assert plan.view(X).tobytes() == X.tobytes()


def test_given_c_budget_and_steps_are_used():
    plan = plan_of(pilot(9), C=13.0, budget=77, maintenance="removal", max_iter=123, seed=5)
    assert {member.C for member in plan.members} == {13.0}
    assert (plan.budget, plan.maintenance, plan.steps, plan.seed) == (77, "removal", 123, 5)


def test_an_ensemble_is_restored_from_its_facts():
    plan = plan_of(pilot(9))
    again = Ensemble.restored(plan.facts(), plan.components)
    assert vars(again) == vars(plan)  # arrays have no equality of their own
    assert plan.facts()["components"] is None


# --- how they are trained


def stream(X, keys):
    order = np.argsort(keys)

    def blocks(epoch, ranges, first):
        return sampling.memory_blocks(X[order], keys[order], 0, epoch, ranges, first)

    return blocks


def growing(X, **changes):
    X = np.float32(X)
    keys = sampling.row_keys(0, np.arange(len(X)))
    plan = plan_of(X, **changes)
    view = plan.view(X)
    ranges = sampling.key_blocks(len(X), len(X))
    return lambda number: plan.grow(number, view, ranges, stream(view, keys))


def test_a_member_uses_only_its_leading_components():
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


# --- which rows test the splits


def planned(n_members, sample_rows):
    members = [Member(2, 1.0, 2.0)] * n_members
    return Ensemble(np.eye(2), members, 200, "merge", 5, 20_000, 0, sample_rows)


def rows_testing(plan, number, n_rows, keys):
    """Which rows (n,) bool with these keys test a member: none twice."""
    ranges = plan.tested_ranges(number, n_rows)
    times = np.sum([[low <= int(key) < high for key in keys] for low, high in ranges], axis=0)
    assert times.max() <= 1
    return times == 1


@pytest.mark.parametrize("n_rows", [2, 99_999, 100_000])
def test_every_row_of_a_small_table_tests_every_member(n_rows):
    for number in range(3):
        ranges = planned(3, n_rows).tested_ranges(number, n_rows)
        assert (ranges[0][0], ranges[-1][1]) == (0, 2**64)
        assert [low for low, _ in ranges[1:]] == [high for _, high in ranges[:-1]]


@pytest.mark.parametrize("sample_rows", [100_000, 200_000, 500_000])
@pytest.mark.parametrize("n_rows", [500_000, 10**9])
def test_a_member_is_tested_on_100_000_rows_of_the_sample(sample_rows, n_rows):
    high = sampling.key_threshold(n_rows, sample_rows)
    keys = [high * i // 1000 for i in range(1000)] + [min(high, 2**64 - 1)]
    plan = planned(7, sample_rows)
    assert plan.tested_rows == 100_000
    taken = np.array([rows_testing(plan, number, n_rows, keys) for number in range(7)])
    share = 100_000 / sample_rows
    assert taken[:, :-1].mean(axis=1) == pytest.approx(share, abs=2e-3)
    assert taken[:, -1].any() == (sample_rows == n_rows)  # a row outside the sample tests none
    # together they are spread evenly over the sample
    assert set(taken[:, :-1].sum(axis=0)) <= {int(7 * share), int(7 * share) + 1}
    assert max(high - low for low, high in plan.tested_ranges(3, n_rows)) <= 1.1 * high / (
        sample_rows / sampling.BLOCK_ROWS
    )


def test_shares_wrap_around_the_end_of_the_sample():
    keys = [0, 1, 2**62, 2**63, 2**64 - 2, 2**64 - 1]
    plan = planned(4, 200_000)  # the half from three quarters on
    assert rows_testing(plan, 3, 200_000, keys).tolist() == [True, True, False, False, True, True]
    assert rows_testing(plan, 0, 200_000, keys).tolist() == [True, True, True, False, False, False]
    keys = [0, 2**61 - 1, 2**61, 2**62, 2**63 - 1, 2**63]
    assert rows_testing(plan, 3, 400_000, keys).tolist() == [True, True, False, False, True, False]


@pytest.mark.parametrize(
    ("n_rows", "max_iter", "expected"),
    [(50, 10, 50), (10**6, 10, 100_000), (10**6, 200_000, 200_000), (10**9, 10**6, 10**6)],
)
def test_rows_of_the_sample(n_rows, max_iter, expected):
    assert rows_of_sample(n_rows, max_iter) == expected


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
def test_least_mass_by_hand(n_rows, n_components, expected):
    assert least_mass(n_rows, n_components) == expected
