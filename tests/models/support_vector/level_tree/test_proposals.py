from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from distsvc.models.support_vector.boundary.labelling import DecisionFunction
from distsvc.models.support_vector.level_tree import proposals as voting
from distsvc.models.support_vector.level_tree.proposals import (
    DEPTH_WEIGHT,
    PROPOSALS,
    VoteRows,
    _with_rows,
    cuts_into,
    elect,
    most_like,
    proposals,
    rand_indices,
)
from distsvc.models.support_vector.level_tree.tree import LevelTree
from tests import reference


@st.composite
def labellings(draw):
    n = draw(st.integers(2, 40))
    one = st.lists(st.integers(0, 6), min_size=n, max_size=n).map(np.array)
    return draw(st.lists(one, min_size=1, max_size=6))


@settings(deadline=None, max_examples=50)
@given(labellings())
def test_rand_indices_equal_those_of_scikit_learn_and_of_the_twin(labels):
    found = rand_indices(labels)
    assert found.shape == (len(labels), len(labels))
    assert (found == found.T).all()
    for i, p in enumerate(labels):
        for j, q in enumerate(labels):
            assert found[i, j] == pytest.approx(reference.rand_index(p, q), abs=1e-12)
        assert found[0, i] == pytest.approx(adjusted_rand_score(labels[0], p), abs=1e-12)


CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]], np.float32)


def pilot(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    return (CENTRES[y] + rng.normal(scale=0.5, size=(n, 2))).astype(np.float32), y


def tree_of(z, order=(0, 1, 2, 3), depths=(0.0, 0.0, 0.0)):
    """A tree of four clusters, whose splits have z and depths, in the order of the centres."""
    S = np.ascontiguousarray(CENTRES[list(order)].T)
    weights = np.array([1.0, 0.9, 0.8, 0.7], np.float32)
    tree = LevelTree.grow(DecisionFunction(S, weights, 0.5), pilot()[0], 5.0)
    assert tree.n_branches == 4
    assert tree.peaks.tolist() == [0, 1, 2, 3]
    return replace(tree, z=np.array([np.inf, *z]), depths=np.array([np.inf, *depths]))


def elected(trees, n_rows=400, rows=400, n_clusters=None):
    return elect(trees, VoteRows(pilot()[0]), n_rows, rows, n_clusters)


def labels_of(answer, trees):
    tree = trees[answer.member]
    return tree.voter(tree.parts(answer.kept)).labels(pilot()[0])


def test_the_vote_of_equal_trees():
    trees = [tree_of([9.0, 8.0, 7.0]) for _ in range(4)]
    answer = elected(trees)
    assert answer.n_clusters == 4
    assert answer.support == 1.0
    assert answer.supporters == [True] * 4
    assert answer.z == 7.0
    assert adjusted_rand_score(pilot()[1], labels_of(answer, trees)) == 1.0
    # above 3 all splits are equally good: no other number of clusters is a candidate
    assert [row["n_clusters"] for row in answer.candidates] == [4]
    assert answer.candidates[0] == {
        "n_clusters": 4, "standing": 1.0, "votes": 1.0, "separated": 0.0, "support": 1.0, "z": 7.0,
        "winner": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("z", "k"),
    [
        ([9.0, 0.2, 0.1], 2),
        ([9.0, 8.0, 0.1], 3),
        ([9.0, 8.0, 0.99], 3),
        ([2.0, 1.9, 1.8], 4),
        ([1.0, -5.0, -9.0], 2),
    ],
)
def test_the_cut_is_where_splits_become_clearly_less_significant(z, k):
    answer = elected([tree_of(z)] * 3)
    assert answer.n_clusters == k
    assert answer.z == sorted(z)[::-1][k - 2]
    assert (answer.support, answer.member) == (1.0, 0)


@pytest.mark.parametrize("z", [[0.9, 0.5, 0.1], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0]])
def test_no_significant_split_is_one_cluster(z):
    answer = elected([tree_of(z)] * 3)
    assert answer.n_clusters == 1
    assert answer.kept.tolist() == [True, False, False, False]
    assert answer.support == 1.0
    assert np.isnan(answer.z)
    assert answer.candidates == []
    assert answer.supporters == [True] * 3
    assert answer.rival is None


def test_the_majority_wins():
    # three trees find four clusters, two only the first split
    trees = [tree_of([9.0, 0.1, 0.0])] * 2 + [tree_of([9.0, 8.0, 7.0])] * 3
    answer = elected(trees)
    assert answer.n_clusters == 4
    assert answer.member == 2
    assert answer.support == pytest.approx(0.6)
    assert answer.supporters == [False, False, True, True, True]
    assert [row["n_clusters"] for row in answer.candidates] == [2, 4]
    assert [row["winner"] for row in answer.candidates] == [False, True]
    assert answer.candidates[0]["standing"] < answer.candidates[0]["votes"] < 1.0
    assert answer.candidates[0]["support"] == pytest.approx(0.4)
    assert answer.rival == voting.Rival(2, answer.candidates[0]["standing"])


def grid_of_centres(side, weights=None):
    """Return the tree of side^2 centres, all splits clear, and rows about these."""
    weights = np.ones(side**2) if weights is None else weights
    rng = np.random.default_rng(0)
    V = (10.0 * np.array([(i, j) for i in range(side) for j in range(side)])).astype(np.float32)
    X = (np.repeat(V, 30, axis=0) + rng.normal(size=(30 * side**2, 2))).astype(np.float32)
    tree = LevelTree.grow(DecisionFunction(V.T.copy(), weights.astype(np.float32), 0.5), X, 5.0)
    root = tree.parents < 0
    return replace(tree, z=np.where(root, np.inf, 9.0), depths=np.where(root, np.inf, 0.0)), X


def test_agreement_grows_with_the_score():
    # by which the answers of halves of labelled sets agree
    X = pilot()[0]
    trees = [tree_of([9.0, 8.0, 7.0])] * 3
    answer = elected(trees)
    for even, expected in (
        (answer.standing, 0.5),
        (answer.standing / 2.0, 2.0**2.6 / (1 + 2.0**2.6)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(voting, "EVEN_STANDING", even)
            assert elected(trees).agreement == pytest.approx(expected)
    given = elect(trees, VoteRows(X), 400, 400, 4)
    assert given.agreement == given.support == 1.0


def test_agreement_of_one_cluster_falls_with_the_best_score(monkeypatch):
    X = pilot()[0]
    wide = np.concatenate([X, np.zeros((len(X), 2), np.float32)], axis=1)
    trees = [tree_of([9.0, 8.0, 7.0])] * 3
    standing = elected(trees).standing
    found = [
        elect(trees, VoteRows(wide), 400, 400, least_standing=times * standing)
        for times in (1.01, 2.0, 100.0)
    ]
    assert [answer.n_clusters for answer in found] == [1, 1, 1]
    agreement = [answer.agreement for answer in found]
    assert agreement == sorted(agreement)
    assert agreement[1] == pytest.approx(0.5)
    assert agreement[2] > 0.99
    assert elected([tree_of([0.9, 0.5, 0.1])] * 3).agreement == 1.0


def test_many_clusters_have_a_lower_minimum_score(monkeypatch):
    trees = [tree_of([4.0, 0.0, 0.0])] * 2 + [tree_of([4.0, 3.5, 3.0])]
    found = elected(trees)
    four = found.standing * next(c["standing"] for c in found.candidates if c["n_clusters"] == 4)
    assert found.n_clusters == 2
    assert 0.8 * found.standing < four < found.standing
    monkeypatch.setattr(voting, "FLAT_STANDING", 1e9)
    for times, k in ((0.9, 2), (1.1, 1)):  # two clusters need twice as much as four
        monkeypatch.setattr(voting, "STANDING_OF_MANY", times * 4 * four)
        assert elected(trees).n_clusters == k


@pytest.mark.parametrize(("z", "k"), [(3.4, 1), (3.6, 2)])
def test_in_one_column_the_clearest_split_decides(z, k):
    S = np.array([[0.0, 10.0]], np.float32)
    X = np.repeat(S[0], 100)[:, None] + np.random.default_rng(0).normal(size=(200, 1))
    X = X.astype(np.float32)
    tree = LevelTree.grow(DecisionFunction(S, np.ones(2, np.float32), 0.5), X, 5.0)
    root = tree.parents < 0
    tree = replace(tree, z=np.where(root, np.inf, z), depths=np.where(root, np.inf, 0.0))
    assert elect([tree] * 3, VoteRows(X), 200, 200).n_clusters == k
    assert elect([tree] * 3, VoteRows(X), 200, 200, 2).n_clusters == 2


def test_z_is_scaled_to_the_reference_rows():
    trees = [tree_of([30.0, 5.0, 2.0])] * 3
    found = [elected(trees, 90_000, rows) for rows in (900, 9000, 90_000)]
    assert [answer.n_clusters for answer in found] == [2, 3, 4]
    assert found[0].z == pytest.approx(3.0)
    assert found[1].z == pytest.approx(5.0 * 0.1**0.5)
    assert found[2].z == 2.0
    # never up
    assert elected(trees, 400, 10**9).z == 2.0


def test_a_tree_makes_few_proposals():
    tree, X = grid_of_centres(4, np.linspace(1, 2, 16))
    root = tree.parents < 0
    tree = replace(tree, z=np.where(root, np.inf, np.linspace(3.0, 1.0, 16)))
    shallow = replace(tree, depths=np.where(root, np.inf, 0.0))
    assert len(proposals([shallow], 1.0, VoteRows(X))) == PROPOSALS
    falling = replace(tree, depths=np.where(root, np.inf, np.linspace(0.1, 3.0, 16) ** 2))
    assert len(proposals([falling], 1.0, VoteRows(X))) == 2 * PROPOSALS


def test_a_deep_split_is_proposed_although_others_are_more_significant():
    # all splits are equally significant, one of them is far deeper
    tree = tree_of([9.0, 8.0, 7.0], depths=(0.2, 2.7, 0.1))
    found = proposals([tree], 1.0, VoteRows(pilot()[0]))
    kept = {c.n_clusters: c for c in found}
    assert kept[2].kept.tolist() == [True, False, True, False]
    assert kept[2].weight == pytest.approx(DEPTH_WEIGHT * 2.5)
    # keeping all is proposed by both rankings, once
    assert [c.n_clusters for c in found].count(4) == 1
    assert kept[4].weight == pytest.approx(np.log(3.5 / 0.5) + DEPTH_WEIGHT * 0.1)


def test_separated_by_all_pairs():
    rng = np.random.default_rng(3)
    X, labels = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 3, 60)
    apart = labels[:, None] != labels
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :10]
    expected = np.take_along_axis(apart, near, axis=1).mean() / apart.mean()
    assert VoteRows(X).separated(labels) == pytest.approx(expected)


def test_more_clusters_than_any_tree_has_are_the_maximum():
    small = LevelTree.grow(
        DecisionFunction(np.ascontiguousarray(CENTRES[:2].T), np.ones(2, np.float32), 0.5),
        pilot()[0], 5.0,
    )  # fmt: skip
    small = replace(small, z=np.array([np.inf, 5.0]), depths=np.array([np.inf, 1.0]))
    trees = [small, tree_of([9.0, 8.0, 7.0])]
    answer = elected(trees, n_clusters=9)
    assert (answer.n_clusters, answer.member) == (4, 1)
    assert answer.support == 0.5


def test_a_cut_into_a_number_is_weighted_by_its_weakest_split():
    rows = VoteRows(pilot()[0])
    tree = tree_of([9.0, 0.5, 0.2], depths=(1.0, 0.5, 2.0))
    (significant,) = cuts_into([tree], 2, 1.0, rows)  # one split has z >= 1, and is the deepest so
    assert significant.weight == pytest.approx((2.0 + DEPTH_WEIGHT) * 9.0)
    assert significant.kept.tolist() == [True, True, False, False]
    found = cuts_into([tree_of([9.0, 5.0, 2.0], depths=(1.0, 0.5, 2.0))], 2, 1.0, rows)
    weights = {tuple(candidate.kept.tolist()): candidate.weight for candidate in found}
    assert weights[True, False, False, True] in (
        pytest.approx(DEPTH_WEIGHT * 2.0), pytest.approx((1.0 + DEPTH_WEIGHT) * 2.0)
    )  # fmt: skip
    (all_alike,) = cuts_into([tree_of([9.0, 5.0, 2.0])], 4, 0.5, rows)
    assert all_alike.weight == pytest.approx((2.0 + DEPTH_WEIGHT) * 1.0)


def test_a_small_cluster_merges_across_its_highest_saddle():
    """Four clusters, one of few rows, which is the most significant of all."""
    rng = np.random.default_rng(0)
    places = np.array([[0, 0], [6, 0], [12, 0], [16, 0]])
    y = np.repeat([0, 1, 2, 3], [200, 180, 160, 8])
    X = rng.permutation((places[y] + rng.normal(scale=0.5, size=(548, 2))).astype(np.float32))
    S = np.ascontiguousarray(places.T.astype(np.float32))
    f = DecisionFunction(S, np.array([1.0, 0.9, 0.8, 0.2], np.float32), 0.1)
    tree = LevelTree.grow(f, X, 5.0)
    assert tree.n_branches == 4
    order = [int(np.flatnonzero(tree.peaks == vector)[0]) for vector in range(4)]
    z, depths = np.full(4, np.inf), np.full(4, np.inf)
    z[order[1:]], depths[order[1:]] = [5.0, 4.0, 9.0], 0.0
    tree = replace(tree, z=z, depths=depths)
    found = cuts_into([tree], 3, 1.0, VoteRows(X))
    kept = {tuple(sorted(tree.peaks[c.kept].tolist())) for c in found}
    assert (0, 1, 3) in kept  # the most significant splits
    assert (0, 1, 2) in kept  # the few rows joined to their neighbour


def before(*joined):
    """Return the true labels of the pilot, some clusters joined."""
    y = pilot()[1].copy()
    for one, other in joined:
        y[y == other] = one
    return y


def elected_after(trees, labels, **more):
    return elect(trees, VoteRows(pilot()[0]), 400, 400, previous_labels=labels, **more)


def test_most_like_searches_all_trees():
    trees = [tree_of([9.0, 8.0, 7.0]), tree_of([9.0, 0.2, 0.1], order=(3, 1, 0, 2))]
    for labels in before(), before((0, 1)), before((2, 3), (0, 1)), before((0, 1), (0, 2)):
        cut, likeness = most_like(trees, labels * 7 + 2, 1.0, VoteRows(pilot()[0]))
        assert likeness == pytest.approx(1.0), np.unique(labels)
        assert adjusted_rand_score(cut.labels, labels) == likeness
        assert cut.n_clusters == len(np.unique(labels))
        assert cut.weight == 0.0


def test_clusters_without_rows_are_left_out():
    view, y = pilot()
    tree, rows = tree_of([9.0, 8.0, 7.0]), VoteRows(view[y != 2])
    kept = _with_rows(0, tree, np.ones(4, bool), rows)
    assert kept.sum() == 3
    assert np.bincount(rows.cut(0, tree, kept.tobytes())[0]).all()
    assert _with_rows(0, tree, np.ones(4, bool), VoteRows(view)).all()


def test_the_most_like_cut_has_no_more_clusters_than_the_labels():
    noisy = np.where(np.arange(400) % 9 == 0, 0, before((0, 1), (2, 3)))
    cut, likeness = most_like([tree_of([9.0, 8.0, 7.0])], noisy, 1.0, VoteRows(pilot()[0]))
    assert (cut.n_clusters, likeness < 1.0) == (2, True)


def test_a_change_is_clear_although_some_models_miss_it():
    """Two clusters were one, and models without the direction between them still merge them."""
    seeing, blind = tree_of([9.0, 8.0, 7.0]), tree_of([9.0, 8.0, 0.1])
    for n_blind, clear in (4, True), (6, False):
        answer = elected_after([seeing] * (12 - n_blind) + [blind] * n_blind, before((1, 3)))
        assert (answer.n_clusters, answer.last.n_clusters) == (4, 3)
        assert answer.agreement >= 0.9
        assert answer.clear == clear


def test_an_answer_nearly_as_good_does_not_replace_the_previous_one():
    """Six models have a split that six others lack."""
    trees = [tree_of([9.0, 8.0, 7.0])] * 6 + [tree_of([9.0, 8.0, 0.1])] * 6
    alone = elected(trees)
    assert alone.n_clusters == 4
    three = labels_of(elected(trees[6:]), trees[6:])
    answer = elected_after(trees, three)
    assert (answer.n_clusters, answer.clear, answer.last.n_clusters) == (4, False, 3)
    assert adjusted_rand_score(labels_of(answer.last, trees), three) == 1.0
    assert not elected_after(trees, labels_of(alone, trees)).clear


def test_a_previous_answer_that_no_tree_has_is_replaced():
    labels = np.random.default_rng(0).integers(0, 3, 400)
    answer = elected_after([tree_of([9.0, 8.0, 7.0])] * 3, labels)
    assert (answer.n_clusters, answer.clear, answer.last) == (4, True, None)


def test_a_previous_answer_of_one_cluster():
    clear = elected_after([tree_of([9.0, 8.0, 7.0])] * 3, np.zeros(400, int))
    assert (clear.n_clusters, clear.clear, clear.last.n_clusters) == (4, True, 1)
    doubtful = elected_after(
        [tree_of([9.0, 8.0, 7.0]), tree_of([0.9, 0.5, 0.1]), tree_of([0.9, 0.5, 0.1])],
        np.zeros(400, int),
    )
    assert (doubtful.clear, doubtful.last.n_clusters) == (doubtful.agreement >= 0.5, 1)


def test_a_given_number_of_clusters_ignores_the_previous_answer():
    trees = [tree_of([9.0, 8.0, 7.0])] * 3
    answer = elected_after(trees, before((0, 1)), n_clusters=4)
    assert (answer.last, answer.candidates) == (None, elected(trees, n_clusters=4).candidates)
