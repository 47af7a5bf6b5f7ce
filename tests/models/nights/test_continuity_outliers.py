"""Clusters that appear far from all others, and clusters whose rows were outside from the start."""

import numpy as np
import pytest

from distsvc.models.nights.continuity import (
    LabelOverlap,
    Return,
    match_clusters,
    match_returned,
    rows_in_ranges,
)

OVERLAP = np.array([[400, 0, 600], [0, 500, 0]])
"""Overlap with a new third cluster, which the earlier model labels as its first."""

INSIDE = np.array([[390, 0, 3], [0, 480, 0]])
COUNTS = np.array([[450, 10], [600, 20]])

SMALL = np.array([[20, 180], [1700, 100]])
"""Rows inside and outside of two earlier clusters; most of the first are outside."""


def named(overlap, inside, counts, match=0.5):
    """Return the matching, and event and sizes by id."""
    found = match_clusters(
        [4, 7], 9, LabelOverlap(*map(np.array, (overlap, inside, counts))), match
    )
    return found, {one.id: (one.event, one.before, one.after) for one in found.stories}


def test_a_new_cluster_does_not_take_the_id_of_the_nearest():
    assert named(OVERLAP, OVERLAP, COUNTS)[0].ids.tolist() == [9, 7, 4]
    assert named(OVERLAP, INSIDE, COUNTS)[0].ids.tolist() == [4, 7, 9]


@pytest.mark.parametrize("inside", [[[0, 0], [0, 1700]], [[21, 0], [0, 1700]], [[0, 2], [0, 1700]]])
def test_a_cluster_of_mostly_outliers_continues(inside):
    """None of its rows, some, or only rows of other clusters are inside the earlier model."""
    found, told = named([[195, 5], [3, 1797]], inside, SMALL)
    assert found.ids.tolist() == [4, 7]
    assert told[4] == ("survived", 200, 198)
    assert found.stories[0].jaccard == pytest.approx(195 / 203)


def test_a_new_cluster_beside_mostly_outliers_has_a_new_id():
    """The earlier model gives it the label of the nearest cluster, which is mostly outside."""
    found, told = named([[200, 0, 700], [0, 1700, 0]], [[5, 0, 9], [0, 1650, 0]], SMALL)
    assert found.ids.tolist() == [4, 7, 9]
    assert told[9] == ("appeared", 0, 700)


def test_few_rows_in_an_old_place_are_no_return():
    overlap, counts = np.array([[0, 510], [400, 0]]), np.array([[500, 10], [400, 0]])
    few = LabelOverlap(overlap, np.array([[0, 60], [400, 0]]), counts)
    most = LabelOverlap(overlap, np.array([[0, 480], [400, 0]]), counts)
    everywhere = np.array(True)
    assert match_returned([5, 7], {5}, {1}, few, everywhere, 0.3) == {}
    assert match_returned([5, 7], {5}, {1}, most, everywhere, 0.3) == {1: Return(5, 480 / 510)}
    assert match_returned([5, 7], {9}, {1}, most, everywhere, 0.3) == {}


def test_a_cluster_near_an_old_place_is_no_return():
    rows = LabelOverlap(np.array([[0, 510], [400, 0]]), np.array([[0, 480], [400, 0]]), COUNTS)
    low, high = np.array([[-3.0, 0.0], [5.0, 4.0]]), np.array([[-1.0, 9.0], [8.0, 9.0]])
    near, among = np.array([[6.0, 3.0], [-2.0, 1.0]]), np.array([[6.0, 4.0], [-2.0, 1.0]])
    assert rows_in_ranges(low, high, near).tolist() == [[False, False], [True, False]]
    assert match_returned([5, 7], {5}, {1}, rows, rows_in_ranges(low, high, near), 0.3) == {}
    found = match_returned([5, 7], {5}, {1}, rows, rows_in_ranges(low, high, among), 0.3)
    assert found == {1: Return(5, 480 / 510)}


def test_a_cluster_of_mostly_outliers_returns():
    overlap, inside = np.array([[0, 190], [1800, 0]]), np.array([[0, 3], [1700, 0]])
    found = match_returned(
        [5, 7], {5}, {1}, LabelOverlap(overlap, inside, SMALL), np.array(True), 0.3
    )
    assert found == {1: Return(5, 1.0)}
