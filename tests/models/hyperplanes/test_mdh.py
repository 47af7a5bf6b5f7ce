import itertools
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from distsvc import IncrementalMDH
from distsvc.models.hyperplanes.estimator import PUBLISHED
from distsvc.models.hyperplanes.engine import most_agreeing
from distsvc.models.hyperplanes.tree import elbow
from distsvc.models.sampling import PILOT_ROWS, lowest, row_keys

ONE_CLUSTER = "the answer is one cluster: none of the"
GROWTHS = "prune", "forward"
TOO_FEW_LEAVES = "clusters were asked for, but only"

one_cluster_is_fine = pytest.mark.filterwarnings("ignore:the answer is one cluster")
few_leaves_are_fine = pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW_LEAVES}")


def blobs(k=4, d=3, seed=0, n=600):
    """Gaussians in corners of a cube that are ten standard deviations apart."""
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.islice(itertools.product([0.0, 10.0], repeat=d), k)))
    y = rng.integers(k, size=n)
    return corners[y] + rng.normal(size=(n, d)), y


def gaussian(n=600, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def estimator(**kwargs):
    return IncrementalMDH(**{"n_init": 2, "random_state": 0, **kwargs})


def state(model):
    """Everything that a tree learned, as bytes."""
    tree = model.cluster_tree_
    names = ("ids", "V", "thresholds", "spreads", "b", "counts", "sums_of_squares", "splits")
    return [getattr(tree, name).tobytes() for name in names] + [model.labels_.tobytes()]


def learned(model):
    tree = model._stream.growing
    return [getattr(tree, n).tobytes() for n in ("means", "V", "b", "variances", "visits")]


@parametrize_with_checks([IncrementalMDH(), IncrementalMDH(**PUBLISHED)])
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ONE_CLUSTER)
        check(estimator)


# --- clusters are found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("k", "d"), [(2, 2), (3, 2), (4, 3), (5, 3), (8, 5), (3, 10)])
def test_separate_gaussians_are_recovered(k, d, seed):
    X, y = blobs(k, d, seed)
    for n_clusters in (None, k):
        model = IncrementalMDH(n_clusters=n_clusters, random_state=seed).fit(X)
        assert model.n_clusters_ == k
        assert adjusted_rand_score(y, model.labels_) >= 0.98
        assert model.agreement_ >= 0.95
        assert (model.valleys_ > 2.0).all()
        assert model.clearest_valley_ >= model.valleys_.max() > 8.0


@pytest.mark.parametrize(
    "parameters",
    [PUBLISHED, {"growth": "forward"}, {"elbow": "angle"}, {"clip": 0.0, "passes": 1}],
    ids=["published", "forward", "angle", "unclipped"],
)
def test_variants(parameters):
    assert set(parameters) <= set(IncrementalMDH().get_params())
    found = []
    for seed in range(5):
        X, y = blobs(seed=seed)
        model = IncrementalMDH(random_state=seed, **parameters).fit(X)
        assert model.n_clusters_ == 4
        found.append(adjusted_rand_score(y, model.labels_))
    assert min(found) >= 0.9
    assert np.mean(found) >= 0.98


def test_growth_decides_the_order_of_splits_only():
    X, _ = blobs()
    a, b = (estimator(n_init=1, growth=growth).fit(X).cluster_tree_ for growth in GROWTHS)
    assert a.V.tobytes() == b.V.tobytes()
    assert sorted(a.splits) == sorted(b.splits)
    assert a.splits.tolist() != b.splits.tolist()


def test_the_rule_of_the_elbow_is_the_one_asked_for():
    X, found = load_digits().data, []
    for seed, rule in itertools.product(range(6), ["weighted", "angle"]):
        model = estimator(n_init=1, valley=0.0, elbow=rule, random_state=seed).fit(X)
        found.append(model.n_clusters_)
        assert model.n_clusters_ == elbow(model.cluster_tree_.curve, rule)
    assert found[::2] != found[1::2]


def test_wine():
    data = load_wine()
    X = StandardScaler().fit_transform(data.data)
    models = [IncrementalMDH(n_clusters=3, random_state=seed).fit(X) for seed in range(5)]
    assert np.mean([adjusted_rand_score(data.target, m.labels_) for m in models]) > 0.55


@pytest.mark.parametrize("n_clusters", [None, 10])
def test_rows_sorted_by_class_are_no_worse(n_clusters):
    X, y = load_digits(return_X_y=True)

    def quality(rows):
        models = [
            IncrementalMDH(n_clusters=n_clusters, random_state=seed).fit(X[rows])
            for seed in range(8)
        ]
        return np.mean([normalized_mutual_info_score(y[rows], m.labels_) for m in models])

    by_class = quality(np.argsort(y, kind="stable"))
    shuffled = quality(np.random.default_rng(0).permutation(len(y)))
    assert abs(by_class - shuffled) < 0.04
    assert min(by_class, shuffled) > 0.6


def test_attributes():
    X, _ = blobs()
    model = estimator().fit(X)
    tree = model.cluster_tree_
    assert model.labels_.shape == (600,)
    assert model.labels_.dtype == np.int32
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    assert model.valleys_.shape == (model.n_clusters_ - 1,)
    np.testing.assert_allclose(model.centre_, X.mean(axis=0))
    assert model.n_samples_ == tree.counts[0] == 600
    assert model.n_features_in_ == 3
    assert model.notes_ == []
    facts = {
        "n_clusters": 4,
        "n_leaves": tree.n_leaves,
        "n_samples": 600,
        "agreement": model.agreement_,
        "restart": model.restart_,
        "clearest_valley": model.clearest_valley_,
        "n_passes": 5,
    }
    assert facts.items() <= model.fitted_facts().items()


def test_labels_are_what_predict_says():
    X, _ = blobs()
    model = estimator()
    assert (model.fit_predict(X) == model.labels_).all()
    assert (model.predict(X) == model.labels_).all()
    parts = [model.predict(part) for part in np.split(X, [1, 50, 211])]
    assert (np.concatenate(parts) == model.labels_).all()
    assert model.predict(X).dtype == np.int32


def distances_by_hand(model, X):
    tree, cut = model.cluster_tree_, set(model.cluster_tree_.splits[: model.n_clusters_ - 1])
    found = np.full(len(X), np.inf)
    for i, x in enumerate(X - model.centre_):
        node = 0
        while node in cut:
            gap = x @ tree.V[node].astype(np.float64) - tree.thresholds[node]
            found[i] = min(found[i], abs(gap) / tree.spreads[node])
            node = tree.children[node, int(gap >= 0.0)]
    return found


@pytest.mark.parametrize("n_clusters", [None, 2, 9])
def test_scores_are_distances_to_hyperplanes(n_clusters):
    model = estimator(n_clusters=n_clusters).fit(blobs()[0])
    X = np.concatenate([blobs(seed=7, n=200)[0], 100.0 * gaussian(50)])
    found = model.score_samples(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, distances_by_hand(model, X), rtol=1e-4, atol=1e-4)


def test_a_row_on_the_hyperplane_scores_zero():
    model = estimator(n_clusters=2).fit(blobs(2, 2)[0])
    tree = model.cluster_tree_
    root = tree.splits[0]
    on = model.centre_ + tree.thresholds[root] * tree.V[root]
    scores = model.score_samples([on, on + 2.0 * tree.spreads[root] * tree.V[root]])
    np.testing.assert_allclose(scores, [0.0, 2.0], atol=1e-4)


@one_cluster_is_fine
def test_one_cluster_scores_infinity():
    assert (estimator().fit(gaussian()).score_samples(gaussian(20)) == np.inf).all()


# --- cuts


@pytest.mark.parametrize("growth", GROWTHS)
def test_cuts_are_nested(growth):
    X, _ = blobs()
    model = estimator(growth=growth).fit(X)
    n_leaves = model.cluster_tree_.n_leaves
    assert n_leaves > 20
    before = model.cut(1)
    assert not before.any()
    for k in range(2, n_leaves + 1):
        labels = model.cut(k)
        sizes = np.bincount(labels)
        assert len(sizes) == k
        assert (np.diff(sizes) <= 0).all()
        assert sizes[-1] > 0
        assert len(set(zip(before, labels, strict=True))) == k
        assert (model.cut(k, X) == labels).all()
        before = labels
    assert (model.cut(n_leaves + 1) == before).all()
    assert (model.cut(10**6, X) == before).all()


def test_a_cut_is_what_a_fit_for_that_number_finds():
    X, _ = blobs()
    model = IncrementalMDH(n_init=1, random_state=0).fit(X)
    for k in (2, 3, 4, 7, 12):
        expected = IncrementalMDH(n_clusters=k, n_init=1, random_state=0).fit(X).labels_
        labels = model.cut(k)
        assert labels.dtype == np.int32
        assert (labels == expected).all()
    assert (model.cut(model.n_clusters_) == model.labels_).all()
    assert model.n_clusters_ == 4


def test_a_cut_changes_nothing():
    X, _ = blobs()
    model = estimator().fit(X)
    before = state(model)
    model.cut(9)
    model.cut(2, X)
    assert state(model) == before
    assert (model.predict(X) == model.labels_).all()


def test_a_cut_of_other_rows():
    model = estimator().fit(blobs()[0])
    X, y = blobs(seed=1)
    assert adjusted_rand_score(y, model.cut(4, X)) >= 0.98
    assert (model.cut(4, X) == model.predict(X)).all()
    with pytest.raises(ValueError, match="has 2 features, but IncrementalMDH is expecting 3"):
        model.cut(4, X[:, :2])


@pytest.mark.parametrize("n_clusters", [0, -1, 2.0, None, "all", True])
def test_no_number_of_clusters(n_clusters):
    model = estimator().fit(blobs()[0])
    with pytest.raises(ValueError, match=f"n_clusters must be a whole .* found {n_clusters!r}"):
        model.cut(n_clusters)


# --- one cluster


@one_cluster_is_fine
@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize("d", [2, 5, 10])
def test_one_cluster_is_the_answer(d, kind):
    found = []
    for n, seed in itertools.product([500, 1000, 3000], range(3)):
        X = getattr(np.random.default_rng(seed), kind)(size=(n, d))
        model = IncrementalMDH(random_state=seed).fit(X)
        found.append(model.n_clusters_)
        assert found[-1] > 1 or not (model.labels_.any() or model.valleys_.size)
    assert sum(k > 1 for k in found) <= 1


def test_one_cluster_is_noted():
    X = gaussian()
    with pytest.warns(UserWarning, match=rf"{ONE_CLUSTER} .*less than valley = 4\)") as caught:
        model = estimator().fit(X)
    assert model.notes_ == [str(warning.message) for warning in caught]
    assert not model.labels_.any()
    assert not model.predict(X).any()
    assert not model.cut(model.n_clusters_).any()
    assert set(model.cut(3)) == {0, 1, 2}
    assert model.cluster_tree_.n_leaves > 20


@pytest.mark.parametrize("parameters", [{"valley": 0.0}, {"n_clusters": 3}])
def test_one_cluster_is_not_the_answer_to_everyone(parameters):
    for seed in range(3):
        model = IncrementalMDH(random_state=seed, **parameters).fit(gaussian(seed=seed))
        assert model.n_clusters_ == parameters.get("n_clusters", model.n_clusters_) > 1
        assert model.notes_ == []
        assert set(model.labels_) == set(range(model.n_clusters_))


@one_cluster_is_fine
def test_the_bound_on_z():
    X, _ = blobs(2, 2)
    z = estimator().fit(X).valleys_.max()
    assert estimator(valley=0.99 * z).fit(X).n_clusters_ == 2
    assert estimator(valley=2.0 * z).fit(X).n_clusters_ == 1


# --- rows that are the same, rows that are others


def test_fits_repeat():
    X, _ = blobs()
    model = estimator()
    assert state(model.fit(X)) == state(model.fit(X)) == state(estimator().fit(X))


def test_another_seed_takes_rows_in_another_order():
    X, _ = blobs()
    a, b = estimator().fit(X), estimator(random_state=1).fit(X)
    assert a.cluster_tree_.V.tobytes() != b.cluster_tree_.V.tobytes()
    assert adjusted_rand_score(a.labels_, b.labels_) > 0.95
    generators = [np.random.RandomState(3) for _ in range(2)]
    a, b = (estimator(random_state=generator).fit(X) for generator in generators)
    assert state(a) == state(b)
    assert state(estimator(random_state=generators[0]).fit(X)) != state(a)


def test_the_kind_of_array_does_not_matter():
    X = blobs()[0].astype(np.float32)
    expected = estimator(n_clusters=9).fit(X)
    same = X.astype(np.float64), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.tolist()
    for other in same:
        found = estimator(n_clusters=9).fit(other)
        assert (found.labels_ == expected.labels_).all()
        assert (found.predict(X) == expected.labels_).all()
        assert (expected.predict(other) == expected.labels_).all()
        assert (found.score_samples(other) == expected.score_samples(X)).all()


def test_an_offset_does_not_matter():
    X, _ = blobs()
    expected = estimator().fit(X)
    found = estimator().fit(X + 1000.0)
    assert (found.labels_ == expected.labels_).all()
    grid = np.round(blobs(n=512)[0] * 1024.0) / 1024.0  # all sums of which are exact
    expected = estimator(n_clusters=9).fit(grid)
    assert state(estimator(n_clusters=9).fit(grid + 4096.0)) == state(expected)


def test_rows_are_not_written_to():
    X, _ = blobs()
    before = X.copy()
    X.flags.writeable = False
    model = estimator().fit(X)
    model.predict(X)
    estimator().partial_fit(X.astype(np.float32)).predict(X)
    assert (before == X).all()


def test_clones_pickles_and_pipelines():
    X, _ = blobs()
    model = estimator(depth=5, n_clusters=3, elbow="angle", clip=0.0)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert copied.get_params()["clip"] == 0.0
    again = pickle.loads(pickle.dumps(model.fit(X)))
    assert state(again) == state(model)
    assert (again.predict(X) == model.labels_).all()
    pipeline = make_pipeline(StandardScaler(), estimator())
    pipeline.set_params(incrementalmdh__n_clusters=3)
    labels = pipeline.fit_predict(X)
    assert set(labels) == {0, 1, 2}
    assert (pipeline.predict(X) == labels).all()


# --- parameters do what they say


def test_learning_from_some_of_the_rows():
    X, y = blobs(n=5000)
    model = estimator(max_samples=1000).fit(X)
    assert abs(model.n_samples_ - 1000) <= 4 * np.sqrt(1000 * 0.8)
    assert model.cluster_tree_.counts[0] == model.n_samples_
    assert model.labels_.shape == (5000,)
    assert (model.predict(X) == model.labels_).all()
    assert adjusted_rand_score(y, model.labels_) >= 0.98
    for max_samples in (5000, 10**9, None):
        assert estimator(max_samples=max_samples).fit(X).n_samples_ == 5000


def test_depth_bounds_the_leaves():
    X, _ = blobs()
    for depth in (2, 3, 5):
        leaves = estimator(depth=depth, valley=0.0).fit(X).cluster_tree_.n_leaves
        assert 2 ** (depth - 2) < leaves <= 2 ** (depth - 1)


def test_every_pass_takes_another_order():
    X, _ = blobs()
    seen = []
    for parameters in ({"passes": 1}, {"passes": 2}, {"passes": 3}):
        model = estimator(n_init=1, **parameters).fit(X)
        assert model.n_samples_ == 600
        seen.append(model.cluster_tree_.V.tobytes())
    assert len(set(seen)) == 3


def test_the_kept_restart_is_one_of_them():
    found = {estimator(n_init=3, n_clusters=5, random_state=s).fit(gaussian()) for s in range(12)}
    assert {model.restart_ for model in found} == {0, 1, 2}


@one_cluster_is_fine
def test_agreement():
    X = np.concatenate([blobs()[0], gaussian(1000, 3, 1) * 5.0])
    found = [estimator(n_init=n, n_clusters=7).fit(X).agreement_ for n in (1, 2, 5)]
    assert np.isnan(found[0])
    assert all(0.0 <= agreement < 0.99 for agreement in found[1:])


def mutual_information(a, b):
    """Normalised by the geometric mean of the entropies."""
    joint = np.array([[np.mean((a == i) & (b == j)) for j in set(b)] for i in set(a)])
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    inside = joint > 0.0
    shared = (joint * np.log(np.where(inside, joint, 1.0) / np.outer(p, q)))[inside].sum()
    return shared / np.sqrt((p * np.log(p)).sum() * (q * np.log(q)).sum())


def test_the_partition_that_agrees_most():
    rng = np.random.default_rng(0)
    odd = rng.integers(3, size=200)
    common = rng.integers(4, size=200)
    near = np.where(rng.random(200) < 0.1, rng.integers(4, size=200), common)
    renamed = np.array([2, 0, 3, 1])[common]
    partitions = [odd, near, common, renamed]
    best, agreement = most_agreeing(partitions)
    assert best in (2, 3)  # equals but for the names
    expected = np.mean([mutual_information(common, other) for other in (odd, near, renamed)])
    assert agreement == pytest.approx(expected)
    assert most_agreeing(partitions[:3][::-1])[0] == 2 - most_agreeing(partitions[:3])[0] < 2
    assert most_agreeing([odd, common])[0] == 0


def test_agreement_of_few():
    labels = np.array([0, 1, 1, 2])
    best, agreement = most_agreeing([labels])
    assert best == 0
    assert np.isnan(agreement)
    assert most_agreeing([labels, labels, labels]) == (0, pytest.approx(1.0))
    assert most_agreeing([np.zeros(4, int), np.zeros(4, int)]) == (0, pytest.approx(1.0))
    crossed = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert most_agreeing(crossed) == (0, pytest.approx(0.0))


@pytest.mark.parametrize("clip", [0.5, 1.0, 5.0])
def test_clip_bounds_b(clip):
    tree = estimator(clip=clip, alpha=0.3, penalty=0.1).partial_fit(blobs()[0]).growing_
    bound = clip * 0.3 * np.sqrt(tree.variances)
    assert (np.abs(tree.b) <= bound * (1 + 1e-12)).all()
    free = estimator(clip=0.0, alpha=0.3, penalty=0.1).partial_fit(blobs()[0]).growing_
    assert (np.abs(free.b) > bound).any() or clip == 5.0


def test_alpha_of_zero_keeps_hyperplanes_at_the_mean():
    model = estimator(alpha=0.0).fit(blobs()[0])
    assert not model.cluster_tree_.b.any()


def test_a_penalty_holds_hyperplanes_near_the_mean():
    X, _ = blobs(2, 2)
    far = [
        np.abs(tree.b / np.sqrt(np.maximum(tree.variances, 1e-300)))[0]
        for tree in (
            estimator(alpha=0.0, clip=0.0, penalty=penalty).partial_fit(X - 3.0).growing_
            for penalty in (0.0, 100.0)
        )
    ]
    assert far[1] < far[0]


# --- few rows, equal rows, missing directions


@one_cluster_is_fine
@few_leaves_are_fine
@pytest.mark.parametrize("parameters", [{}, {"valley": 0.0}, {"n_clusters": 3}, PUBLISHED])
@pytest.mark.parametrize(
    "X",
    [
        gaussian(2),
        gaussian(3),
        gaussian(10, 50),
        gaussian(200, 1),
        np.column_stack([np.zeros(300), gaussian(300, 1), np.ones(300)]),
        np.repeat(20.0 * gaussian(5, 2), 60, axis=0),
        np.concatenate([gaussian(), [[1e6, -1e6, 0.0]]]),
    ],
    ids=["two", "three", "wide", "line", "constant-features", "duplicates", "far"],
)
def test_awkward_rows(X, parameters):
    model = estimator(**parameters).fit(X)
    tree = model.cluster_tree_
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert (model.predict(X) == model.labels_).all()
    assert model.n_clusters_ <= tree.n_leaves <= len(X)
    assert np.isfinite(tree.curve).all()
    assert np.isfinite(tree.V).all()
    for k in range(1, tree.n_leaves + 1):
        sizes = np.bincount(model.cut(k))
        assert len(sizes) == k
        assert sizes.min() > 0


@pytest.mark.parametrize("place", [0.0, 7.25, -1e4])
@pytest.mark.parametrize("n", [2, 50])
def test_equal_rows_are_one_cluster(n, place):
    for parameters in ({}, {"valley": 0.0}, PUBLISHED, {"growth": "forward"}):
        model = estimator(**parameters).fit(np.full((n, 3), place))
        assert model.labels_.tolist() == [0] * n
        assert model.cluster_tree_.n_leaves == 1
        assert model.valleys_.shape == (0,)
        assert model.notes_ == []
        assert model.predict([[100.0, 0.0, -100.0]]).tolist() == [0]


def test_equal_rows_have_equal_labels():
    X = np.repeat(blobs(n=60)[0], 10, axis=0)
    model = estimator(n_clusters=12).fit(X)
    assert model.n_clusters_ == 12
    for part in (model.labels_, model.score_samples(X)):
        assert (part.reshape(60, 10) == part.reshape(60, 10)[:, :1]).all()


def test_two_clusters_on_a_line():
    X = np.concatenate([gaussian(200, 1), gaussian(300, 1, 1) + 20.0])
    model = estimator().fit(X)
    assert np.bincount(model.labels_).tolist() == [300, 200]
    assert model.predict([[-50.0], [50.0]]).tolist() == [1, 0]


def test_more_clusters_than_leaves_with_rows():
    X = np.repeat([[0.0, 0.0], [10.0, 10.0]], 100, axis=0)
    with pytest.warns(UserWarning, match=rf"^3 {TOO_FEW_LEAVES} 2 leaves of the tree have rows"):
        model = estimator(n_clusters=3).fit(X)
    assert model.n_clusters_ == 2
    assert np.bincount(model.labels_).tolist() == [100, 100]
    assert len(model.notes_) == 1


def test_a_tree_of_one_node():
    X, _ = blobs()
    for parameters in ({}, {"n_clusters": 1}, {"growth": "forward", "elbow": "angle"}):
        model = estimator(depth=1, **parameters).fit(X)
        assert not model.labels_.any()
        assert model.n_clusters_ == model.cluster_tree_.n_leaves == 1
        assert not model.cut(5).any()
        assert model.notes_ == []


def test_a_tree_of_one_hyperplane():
    X, y = blobs(2, 2)
    model = estimator(depth=2).fit(X)
    assert model.cluster_tree_.ids.tolist() == [1, 2, 3]
    assert adjusted_rand_score(y, model.labels_) >= 0.98


def test_the_deepest_tree():
    X, y = blobs(n=300)
    model = estimator(depth=16, n_init=1, passes=1).fit(X)
    assert adjusted_rand_score(y, model.labels_) >= 0.98
    assert model.cluster_tree_.n_leaves <= 300


# --- in blocks


def exact_pairs(n=1000):
    """Rows x, -x, ... of a grid, so that the mean of an even number of them is 0."""
    X = np.round(blobs(n=n // 2)[0] * 256.0) / 256.0
    return np.column_stack([X, -X]).reshape(n, 3)


def test_one_block_or_several():
    X = exact_pairs()
    whole = estimator().partial_fit(X)
    for cuts in ([2], [500], [10, 12, 700, 998]):
        parts = estimator()
        for block in np.split(X, cuts):
            assert parts.partial_fit(block) is parts
        assert learned(parts) == learned(whole)
        assert parts.growing_.counts.sum() == whole.growing_.counts.sum() == 1000


def test_the_first_pass_takes_the_rows_by_key():
    X, _ = blobs(n=1000)
    fitted = estimator(n_init=1, passes=1).fit(X)
    order = lowest(row_keys(0, np.arange(1000)), 1000)
    model = estimator().partial_fit(X[order])
    model.labels_ = model.predict(X)
    assert state(model) == state(fitted)


def test_the_cut_into_blocks_after_the_first_does_not_matter():
    X, _ = blobs(n=1000)
    a, b = estimator(), estimator()
    for block in np.split(X, [400, 700]):
        a.partial_fit(block)
    for block in np.split(X, [400, 401, 550, 999]):
        b.partial_fit(block)
    assert learned(a) == learned(b)
    assert a.reservoir_.rows.tobytes() == b.reservoir_.rows.tobytes()


def test_partial_fit_then_predict():
    X, y = blobs(n=3000)
    model, silent = estimator(), estimator()
    for block in np.array_split(X, 7):
        model.partial_fit(block)
        silent.partial_fit(block)
        model.predict(block)
    assert model.n_clusters_ == 4
    assert model.n_samples_ == 3000
    assert adjusted_rand_score(y, model.predict(X)) >= 0.98
    assert learned(model) == learned(silent)
    assert (silent.predict(X) == model.predict(X)).all()
    assert (silent.score_samples(X) == model.score_samples(X)).all()


def test_rows_of_one_block_are_counted_where_predict_sends_them():
    X, _ = blobs()
    model = estimator(n_clusters=6).partial_fit(X)
    labels = model.predict(X)
    cut = model.cut_
    assert np.bincount(labels).tolist() == sorted(
        cut.tree.counts[cut.labels >= 0].tolist(), reverse=True
    )


def test_one_row_at_a_time():
    X = exact_pairs(200)
    model, whole = estimator(n_clusters=2), estimator().partial_fit(X[:2])
    model.partial_fit(X[:2])
    for row in X[2:]:
        model.partial_fit(row[None])
    assert learned(model) == learned(whole.partial_fit(X[2:]))
    assert set(model.predict(X)) == {0, 1}


@one_cluster_is_fine
def test_a_stream_may_begin_with_one_row():
    X, _ = blobs()
    model = estimator().partial_fit(X[:1])
    assert model.predict(X[:1]).tolist() == [0]
    model.partial_fit(X[1:])
    assert (model.centre_ == X[0]).all()
    assert model.n_samples_ == 600
    assert np.isfinite(model._stream.growing.V).all()


def test_a_cut_of_a_stream_needs_rows():
    X, _ = blobs()
    for model in (estimator().partial_fit(X), estimator().fit(X).partial_fit(X)):
        with pytest.raises(ValueError, match="learned by partial_fit and not kept: give X"):
            model.cut(3)
        assert set(model.cut(3, X)) == {0, 1, 2}
        assert not hasattr(model, "labels_")


def test_fit_and_partial_fit_begin_anew():
    X, _ = blobs()
    fresh, fitted = estimator().partial_fit(X), estimator().fit(X)
    model = estimator().fit(X)
    for _ in range(2):
        model.partial_fit(X)
        assert learned(model) == learned(fresh)
        assert model.n_samples_ == 600
        assert (model.predict(X) == fresh.predict(X)).all()
        assert state(model.fit(X)) == state(fitted)
        assert (model.cut(7) == fitted.cut(7)).all()


@pytest.mark.parametrize("seed", range(3))
def test_old_rows_are_forgotten(seed):
    rng = np.random.default_rng(seed)
    keeping = estimator(n_clusters=2)
    following = estimator(n_clusters=2, max_effective_samples=500)
    for step in range(40):
        y = rng.integers(2, size=500)
        X = np.array([[0.0, 0.0], [10.0, 0.0]])[y] + step + rng.normal(size=(500, 2))
        keeping.partial_fit(X)
        following.partial_fit(X)
    for model, distance in ((keeping, 19.5), (following, 0.6)):
        root = model._stream.growing.means[0] + model.centre_
        np.testing.assert_allclose(X.mean(axis=0) - root, distance, atol=0.6)
    assert adjusted_rand_score(y, following.predict(X)) >= 0.98
    np.testing.assert_allclose(following.growing_.counts.sum(), 500.0)
    assert keeping.growing_.counts.sum() == 20_000


def test_a_stream_longer_than_the_pilot():
    X, y = blobs(n=PILOT_ROWS + 2000)
    model = estimator()
    for block in np.array_split(X, 3):
        model.partial_fit(block)
    assert len(model.pilot_) == PILOT_ROWS
    assert model.n_samples_ == PILOT_ROWS + 2000
    assert adjusted_rand_score(y, model.predict(X)) >= 0.98


def test_partial_fit_refuses():
    model = estimator().partial_fit(blobs()[0])
    with pytest.raises(ValueError, match="has 2 features, but IncrementalMDH is expecting 3"):
        model.partial_fit(np.zeros((5, 2)))
    before = learned(model)
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(np.full((5, 3), np.nan))
    assert learned(model) == before


# --- what is refused


def wrong(name, values, message):
    return [({name: value}, f"^{name} must be {message}.*found {value!r}$") for value in values]


COUNT = "a whole number of at least 1"
NOT_COUNTS = [0, -3, 1.5, 2.0, "3", np.nan, True]
NOT_NUMBERS = [-0.1, np.nan, np.inf, "0.1", True]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *wrong("depth", [*NOT_COUNTS, None], COUNT),
        *wrong("depth", [17, 1000], "at most 16"),
        *wrong("n_clusters", NOT_COUNTS, COUNT),
        *wrong("n_clusters", [129, 10**6], "at most 128"),
        *wrong("alpha", [*NOT_NUMBERS, None], "a number of at least 0"),
        *wrong("valley", [*NOT_NUMBERS, None], "a number of at least 0"),
        *wrong("bandwidth", [*NOT_NUMBERS, None, 0.0], "a positive number"),
        *wrong("clip", NOT_NUMBERS, "a number of at least 0"),
        *wrong("passes", NOT_COUNTS, COUNT),
        *wrong("n_init", [*NOT_COUNTS, None], COUNT),
        *wrong("max_effective_samples", NOT_COUNTS, COUNT),
        *wrong("max_samples", NOT_COUNTS, COUNT),
        *wrong("growth", ["grow", None, 1], "one of .*'prune', 'forward'"),
        *wrong("elbow", ["knee", None, 1], "one of .*'weighted', 'angle'"),
        ({"penalty": -0.1}, r"^penalty must lie in \[0, 100\], found -0.1$"),
        ({"penalty": np.nan}, r"^penalty must lie in \[0, 100\], found nan$"),
        ({"penalty": None}, r"^penalty must lie in \[0, 100\], found None$"),
        ({"penalty": 100.1}, r"^penalty must lie in \[0, 100\], found 100.1$"),
        ({"depth": 1, "n_clusters": 2}, "^n_clusters must be at most 1, found 2$"),
        ({"depth": 2, "n_clusters": 3}, "^n_clusters must be at most 2, found 3$"),
    ],
)
def test_invalid_parameters(parameters, message):
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(IncrementalMDH(**parameters), method)(gaussian(20))


@one_cluster_is_fine
@few_leaves_are_fine
@pytest.mark.parametrize(
    "parameters",
    [
        {"depth": np.int64(3), "n_clusters": 4},
        {"passes": 1, "n_init": 1, "max_effective_samples": 1},
        {"alpha": 0, "penalty": 0, "valley": 0},
        {"bandwidth": 1e-3, "clip": 1e-3, "max_samples": 100},
        {"bandwidth": 1e6, "alpha": 1e6, "penalty": 100, "valley": 1e6},
        {"n_clusters": 1},
    ],
)
def test_parameters_at_their_bounds(parameters):
    X, _ = blobs(n=100)
    model = estimator(**parameters).fit(X)
    assert 1 <= model.n_clusters_ <= parameters.get("n_clusters", 128)
    assert np.isfinite(model.cluster_tree_.V).all()
    assert np.isfinite(model.cluster_tree_.thresholds).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_invalid_rows(value, dtype):
    X = blobs()[0].astype(dtype)
    model = estimator().fit(X)
    X[3, 1] = value
    problem = "contains NaN" if np.isnan(value) else "contains infinity"
    for refusing in (
        estimator().fit,
        estimator().partial_fit,
        model.predict,
        model.score_samples,
        lambda X: model.cut(2, X),
    ):
        with pytest.raises(ValueError, match=problem):
            refusing(X)


def test_too_few_rows():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        estimator().fit(gaussian(1))


def test_it_must_be_fitted_first():
    for method in ("predict", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(IncrementalMDH(), method)(gaussian(5))
    with pytest.raises(NotFittedError):
        IncrementalMDH().cut(3)


@pytest.mark.parametrize(
    ("passes", "max_samples", "n_rows", "expected"),
    [(None, None, 600, 5), (None, None, 90_000, 3), (None, 1000, 90_000, 5),
     (None, None, 10**6, 1), (2, None, 600, 2)],
)  # fmt: skip
def test_the_number_of_passes(passes, max_samples, n_rows, expected):
    model = IncrementalMDH(passes=passes, max_samples=max_samples)
    assert model.n_passes(n_rows) == expected


def test_a_drifting_stream_is_not_one_cluster():
    """The pilot is as young as what the tree remembers."""
    rng = np.random.default_rng(0)
    model = IncrementalMDH(max_effective_samples=500, random_state=0)
    for step in range(40):
        y = rng.integers(2, size=500)
        X = np.column_stack([10.0 * y + step, np.zeros(500)]) + rng.normal(size=(500, 2))
        model.partial_fit(X)
    assert adjusted_rand_score(y, model.predict(X)) > 0.9


def test_notes_are_of_the_latest_rows():
    model = IncrementalMDH(random_state=0).partial_fit(gaussian())
    model.predict(gaussian())
    assert any(ONE_CLUSTER in note for note in model.notes_)
    X, _ = blobs(n=4000)
    model.partial_fit(X)
    assert not hasattr(model, "n_clusters_")
    model.predict(X)
    assert not any(ONE_CLUSTER in note for note in model.notes_)


def test_rows_beyond_float32():
    X, _ = blobs()
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match="not finite in float32; scale the features"),
    ):
        estimator().fit(1e25 * X)


def test_a_negative_random_state():
    with pytest.raises(ValueError, match="random_state must be a whole number of at least 0"):
        IncrementalMDH(random_state=-1).fit(blobs()[0])
