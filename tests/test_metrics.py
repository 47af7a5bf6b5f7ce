import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from distsvc.metrics import (
    INDICES,
    clustering_report,
    compactness,
    contingency_table,
    davies_bouldin,
    indices_from_contingency,
    purity,
)


def blobs(n_rows, n_features=3, n_clusters=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_clusters, size=n_rows)
    return labels[:, None] * 3 + rng.normal(size=(n_rows, n_features)), labels


@pytest.mark.parametrize("seed", range(10))
def test_label_indices_agree_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    y_true = rng.integers(1 + seed, size=200)
    labels = np.where(rng.random(200) < 0.5, y_true, rng.integers(1 + seed // 2, size=200))
    found = indices_from_contingency(contingency_table(labels, y_true))
    for name, function in {
        "rand_index": sklearn_metrics.rand_score,
        "adjusted_rand_index": sklearn_metrics.adjusted_rand_score,
        "normalized_mutual_information": sklearn_metrics.normalized_mutual_info_score,
    }.items():
        assert found[name] == pytest.approx(function(y_true, labels), abs=1e-12), name


@pytest.mark.parametrize(
    ("labels", "y_true"),
    [
        ([0], [0]),
        ([0, 0, 0], [1, 1, 1]),
        ([0, 1, 2], [0, 1, 2]),
        ([0, 0, 0], [0, 1, 2]),
        ([0, 1, 2], [5, 5, 5]),
        ([0, 0, 1, 1], ["b", "b", "a", "a"]),
    ],
)
def test_extreme_partitions_follow_scikit_learn(labels, y_true):
    found = indices_from_contingency(contingency_table(labels, y_true))
    assert found["rand_index"] == sklearn_metrics.rand_score(y_true, labels)
    assert found["adjusted_rand_index"] == sklearn_metrics.adjusted_rand_score(y_true, labels)
    expected = sklearn_metrics.normalized_mutual_info_score(y_true, labels)
    assert found["normalized_mutual_information"] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_purity_is_never_below_the_largest_class(seed):
    """The paper's printed N_ij / N_j would break this."""
    rng = np.random.default_rng(seed)
    y_true = rng.choice(3, p=[0.8, 0.15, 0.05], size=500)
    labels = rng.integers(7, size=500)
    by_hand = sum(np.bincount(y_true[labels == k]).max() for k in range(7)) / 500
    assert purity(labels, y_true) == by_hand
    assert by_hand >= np.bincount(y_true).max() / 500
    assert purity(np.arange(500), y_true) == 1.0


@pytest.mark.parametrize("scale", [10**9, 4 * 10**9])
def test_pairs_do_not_overflow(scale):
    table = np.array([[scale // 2, scale // 10, 7], [3, scale // 4, scale // 7]], dtype=np.int64)
    cells = [int(n) for n in table.ravel()]
    n = sum(cells)

    def pairs(counts):
        return sum(Fraction(int(c)) * (int(c) - 1) / 2 for c in counts)

    both, total = pairs(cells), pairs([n])
    cluster, classes = pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = cluster * classes / total
    found = indices_from_contingency(table)
    assert found["rand_index"] == float((total + 2 * both - cluster - classes) / total)
    adjusted = (both - expected) / ((cluster + classes) / 2 - expected)
    assert found["adjusted_rand_index"] == pytest.approx(float(adjusted), rel=1e-14)
    assert found["purity"] == float(Fraction(scale // 2 + scale // 4, n))
    small = indices_from_contingency(table // 10**4)
    for name, value in found.items():
        assert value == pytest.approx(small[name], rel=1e-4)


def test_table_without_rows_defines_nothing():
    assert all(
        math.isnan(value) for value in indices_from_contingency(np.zeros((2, 2), int)).values()
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.5, 1.0]], "integer counts, found shape"),
        ([1, 2], "two dimensions"),
        ([[3, -1]], "no negative counts, found -1"),
    ],
)
def test_wrong_tables(table, message):
    with pytest.raises(ValueError, match=message):
        indices_from_contingency(np.array(table))


def test_hand_computed_compactness():
    X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [100.0, 0.0]])
    # unordered pairs 5, 5, 10: mean 20/3, three of four rows; the single row adds nothing
    assert compactness(X, [0, 0, 0, 1]) == pytest.approx(5.0)
    assert compactness(X, [0, 1, 2, 3]) == 0.0


def test_compactness_in_blocks(monkeypatch):
    X, labels = blobs(300)
    whole = compactness(X, labels)
    monkeypatch.setattr("distsvc.metrics.BLOCK_DISTANCES", 1000)
    assert compactness(X, labels) == pytest.approx(whole, rel=1e-13)
    assert compactness(X.astype(np.float32), labels) == pytest.approx(whole, rel=1e-5)


def test_sampled_compactness_is_near_the_exact_one():
    X, labels = blobs(4000)
    found = [compactness(X, labels, 500, seed) for seed in range(10)]
    np.testing.assert_allclose(found, compactness(X, labels), rtol=3e-3)
    assert found[0] == compactness(X, labels, 500, 0)
    assert found[0] != found[1]


def test_compactness_rejects_a_useless_limit():
    with pytest.raises(ValueError, match="max_rows must be at least 2, found 1"):
        compactness([[0.0]], [0], max_rows=1)


def test_hand_computed_davies_bouldin():
    X = np.array([[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0], [0.0, 9.0], [0.0, 13.0]])
    # spreads 1, 1 and 2 about (0, 1), (4, 1) and (0, 11); the worst neighbours are 1, 0 and 0
    first = (1.0 + 1.0) / 4.0
    expected = (first + first + (2.0 + 1.0) / 10.0) / 3.0
    assert davies_bouldin(X, [0, 0, 1, 1, 2, 2]) == pytest.approx(expected)


def test_davies_bouldin_needs_two_clusters_and_fewer_than_rows():
    X, labels = blobs(50)
    expected = sklearn_metrics.davies_bouldin_score(X, labels)
    assert davies_bouldin(X, labels) == pytest.approx(expected, rel=1e-12)
    same = np.repeat(X[:2], 5, axis=0), np.repeat([0, 1], 5)
    assert davies_bouldin(*same) == 0.0
    one = np.repeat([[0.0], [1.0], [0.0], [1.0], [5.0], [6.0]], 2, axis=1)
    halves = [0, 0, 1, 1, 2, 2]  # two clusters with one centre
    expected = sklearn_metrics.davies_bouldin_score(one, halves)
    assert davies_bouldin(one, halves) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(davies_bouldin(X, np.zeros(50, int)))
    assert math.isnan(davies_bouldin(X, np.arange(50)))
    assert math.isnan(davies_bouldin(X, np.where(labels == 0, 0, -1)))


def test_unlabelled_rows_are_one_cluster_or_dropped():
    X, labels = blobs(200)
    y_true = labels.copy()
    some = np.arange(200) % 5 == 0
    labels[some] = -1 - np.arange(some.sum())  # any negative number means the same
    report = clustering_report(X, labels, y_true)
    assert report["n_clusters"] == 4
    kept = ~some
    assert report["compactness"] == pytest.approx(compactness(X[kept], labels[kept]))
    assert report["davies_bouldin"] == pytest.approx(davies_bouldin(X[kept], labels[kept]))
    as_one = np.where(some, 99, labels)
    assert report["adjusted_rand_index"] == pytest.approx(
        sklearn_metrics.adjusted_rand_score(y_true, as_one)
    )
    assert report["purity"] == purity(as_one, y_true)


def test_report_names_every_index():
    X, labels = blobs(60)
    assert {"n_clusters", *INDICES} == set(clustering_report(X, labels, labels))
    assert set(clustering_report(X, labels)) == {"n_clusters", "compactness", "davies_bouldin"}
    lower = {name for name, index in INDICES.items() if index.direction == "lower"}
    assert lower == {"compactness", "davies_bouldin"}


def test_indices_without_labelled_rows_are_nan():
    report = clustering_report(np.zeros((3, 2)), [-1, -1, -1], [0, 0, 1])
    assert report["n_clusters"] == 0
    assert math.isnan(report["compactness"])
    assert math.isnan(report["davies_bouldin"])
    assert report["purity"] == 2 / 3


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"found shapes \(3, 2\) and \(2,\)"):
        clustering_report(np.zeros((3, 2)), [0, 1])
    with pytest.raises(ValueError, match="equal length"):
        purity([0, 1], [0, 1, 1])
