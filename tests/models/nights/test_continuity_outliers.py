"""Clusters that appear far from all others, whose rows the model before labels all the same."""

import numpy as np

from distsvc.models.nights.continuity import continued

OVERLAP = np.array([[400, 0, 600], [0, 500, 0]])
"""A new cluster, the third, of which the model before makes a part of its first."""

INSIDE = np.array([[390, 0, 3], [0, 480, 0]])


def test_a_new_cluster_takes_no_id_from_the_one_that_was_nearest():
    assert continued([4, 7], 9, OVERLAP, 0.5).ids.tolist() == [9, 7, 4]
    assert continued([4, 7], 9, OVERLAP, 0.5, INSIDE).ids.tolist() == [4, 7, 9]


def test_it_has_appeared_and_its_rows_have_moved():
    found = continued([4, 7], 9, OVERLAP, 0.5, INSIDE)
    told = {story.id: (story.event, story.before, story.after) for story in found.stories}
    assert told == {4: ("survived", 1000, 400), 7: ("survived", 500, 500), 9: ("appeared", 0, 600)}
    assert found.moved([4, 7]) == 0.4


def test_a_table_that_the_model_before_knows_nothing_of_has_new_ids_only():
    found = continued([4, 7], 9, OVERLAP, 0.5, np.zeros_like(OVERLAP))
    assert found.ids.tolist() == [9, 10, 11]
    assert {story.event for story in found.stories} == {"appeared", "disappeared"}
    assert found.moved([4, 7]) == 1.0
