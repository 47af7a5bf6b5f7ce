"""Ward's method on centres, compared with scipy's on rows; the first splits of a tree."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, ward

from distsvc.models.baselines.merging import by_size, first_splits, merged_centres


def same_groups(a, b):
    """Return True if two numberings of rows have the same groups."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a)) == len(set(b))


def test_centres_are_merged_by_wards_method():
    random = np.random.default_rng(0)
    for m in (1, 2, 7, 30):
        rows = random.normal(size=(m, 3))
        for k in range(1, m + 1):
            groups = merged_centres(rows, np.ones(m), k)
            assert len(np.unique(groups)) == k
            if m > 1:
                assert same_groups(groups, fcluster(ward(rows), k, "maxclust"))


def test_a_centre_counts_as_often_as_it_has_rows():
    random = np.random.default_rng(1)
    centres, sizes = random.normal(size=(8, 2)), random.integers(1, 6, 8)
    rows = np.repeat(centres, sizes, axis=0)
    for k in range(1, 9):
        found = np.repeat(merged_centres(centres, sizes, k), sizes)
        assert same_groups(found, fcluster(ward(rows), k, "maxclust"))


def test_centres_stay_apart_if_there_are_fewer_than_groups():
    assert merged_centres(np.eye(3), np.ones(3), 5).tolist() == [0, 1, 2]


def test_the_first_splits_of_a_tree():
    # 0 -> 1, 2; then 2 -> 3, 4; then 1 -> 5, 6
    children = np.array([[1, 2], [5, 6], [3, 4], *[[-1, -1]] * 4])
    clusters = np.array([-1, -1, -1, 2, 0, 1, 3])  # 0 is node 4, 1 is 5, 2 is 3, 3 is 6
    assert first_splits(children, clusters, 1).tolist() == [0, 0, 0, 0]
    left, right = (1, 3), (0, 2)
    groups = first_splits(children, clusters, 2)
    assert len({groups[k] for k in left}) == len({groups[k] for k in right}) == 1
    groups = first_splits(children, clusters, 3)
    assert groups[1] == groups[3]
    assert len(set(groups.tolist())) == 3
    assert len(set(first_splits(children, clusters, 9).tolist())) == 4


def test_groups_are_numbered_by_size():
    assert by_size(np.array([0, 1, 2, 1]), np.array([5.0, 2.0, 9.0, 2.0])).tolist() == [1, 2, 0, 2]
    assert by_size(np.array([1, 0, 1]), np.array([2.0, 4.0, 2.0])).tolist() == [0, 1, 0]
