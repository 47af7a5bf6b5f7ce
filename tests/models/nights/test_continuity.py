"""Clusters keep their ids from night to night, and no id is used twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.models.nights.continuity import LabelOverlap, match_clusters
from tests import reference

IDS = [4, 0, 7]


def shared(overlap, counts=None) -> LabelOverlap:
    """Return the overlap of two models without outliers; by default, of the same table."""
    overlap = np.array(overlap)
    counts = np.outer(overlap.sum(axis=1), [1, 0]) if counts is None else np.array(counts)
    return LabelOverlap(overlap, overlap, counts)


def stories(overlap, match=0.5, ids=tuple(IDS), next_id=9):
    found = match_clusters(list(ids), next_id, shared(overlap), match)
    told = {
        s.id: (s.event, round(s.jaccard, 4), s.before, s.after, s.others) for s in found.stories
    }
    assert list(told) == sorted(told)
    return found, told


def test_a_cluster_split_in_halves_keeps_its_id_in_neither():
    found, told = stories([[50, 0, 45], [0, 60, 0]], ids=[4, 0], match=0.6)
    assert (found.ids.tolist(), found.next_id) == ([9, 0, 10], 11)
    assert told[4] == ("absorbed", 0.5263, 95, 0, [9])
    found, told = stories([[50, 0, 45, 10], [0, 60, 0, 0]], ids=[4, 0], match=0.6)
    assert told[4] == ("split", 0.4762, 105, 0, [9, 10])
    assert told[9] == ("split", 0.4762, 0, 50, [4])
    assert told[10] == ("split", 0.4286, 0, 45, [4])
    assert told[11] == ("split", 0.0952, 0, 10, [4])
    assert told[0][0] == "survived"


def test_a_cluster_in_few_pieces_is_split_and_one_in_many_disappears():
    _, told = stories([[100, 0, 0], [0, 100, 0], [0, 0, 100], [9, 8, 9]], ids=[4, 0, 7, 5])
    assert told[5] == ("split", 0.0714, 26, 0, [4, 7, 0])
    many = np.vstack([np.diag([100] * 12), np.full(12, 3)])
    _, told = stories(many, ids=range(13), next_id=20)
    assert told[12] == ("disappeared", 0.0221, 36, 0, [])


@pytest.mark.parametrize(("left", "event"), [(2, "disappeared"), (30, "absorbed")])
def test_a_cluster_with_hardly_any_rows_left_disappears(left, event):
    """Two rows of a cluster that had a quarter of all rows are not a part of it."""
    overlap = np.array([[700, 0], [0, 268], [0, left]])
    rows = shared(overlap, counts=[[700, 0], [268, 0], [239, 0]])
    told = {one.id: one for one in match_clusters([4, 5, 6], 9, rows, 0.5).stories}
    assert (told[6].event, told[6].others) == (event, [] if left == 2 else [5])
    assert {told[4].event, told[5].event} == {"survived"}


def test_pairs_below_the_limit_do_not_prevent_a_match():
    """The largest sum of all indices, .45 + .49, would leave out the only pair above the limit."""
    overlap = shared([[60, 0], [20, 20]])
    assert match_clusters([0, 1], 2, overlap, 0.5).ids.tolist() == [0, 1]
    assert match_clusters([0, 1], 2, overlap, 0.6).ids.tolist() == [0, 2]


def test_jaccard_indices_by_hand():
    found = shared([[6, 2], [0, 4]]).jaccard()
    np.testing.assert_allclose(found, [[6 / 8, 2 / 12], [0.0, 4 / 6]])
    assert shared(np.zeros((2, 3), np.int64)).jaccard().tolist() == [[0.0] * 3] * 2


@settings(deadline=None, max_examples=150)
@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_ids_equal_those_of_the_slow_twin(data, k_before, k):
    rows = st.lists(st.sampled_from([0, 1, 3, 10, 30]), min_size=k, max_size=k)
    overlap = data.draw(st.lists(rows, min_size=k_before, max_size=k_before))
    match = data.draw(st.sampled_from([0.05, 0.3, 0.5, 0.75]))
    ids = data.draw(st.permutations(range(6)))[:k_before]
    found = match_clusters(ids, 6, shared(overlap), match)
    expected, next_id = reference.continued_ids(ids, 6, overlap, match)
    assert found.next_id >= 6
    jaccard = shared(overlap).jaccard()

    def total(of):
        return sum(jaccard[ids.index(one), j] for j, one in enumerate(of) if one < 6)

    assert total(found.ids.tolist()) == pytest.approx(total(expected))
    if match > 0.5:  # pairs above a half are the only ones of their clusters; at a half two may tie
        assert (sorted(found.ids), found.next_id) == (sorted(expected), next_id)


def random_overlap(random: np.random.Generator, k_before: int) -> np.ndarray:
    """Return a night in which clusters continue, split, merge, appear and disappear."""
    k = int(random.integers(1, 9))
    kind = random.integers(4)
    overlap = np.zeros((k_before, k), np.int64)
    for i in range(k_before):
        overlap[i, random.integers(k)] += random.integers(0, 500)
        if kind:
            overlap[i, random.integers(k)] += random.integers(0, 500)
        if kind == 2:
            overlap[i] += random.integers(0, 100, k)
    return overlap * (kind != 3 or random.random() < 0.5)


def history(random: np.random.Generator, nights: int) -> None:
    """Go through some nights; AssertionError where an id is given twice, or to two clusters.

    Some nights are not published, so that the next one goes on from an older one: of what such a
    night gave nobody has heard.
    """
    ids = list(range(int(random.integers(1, 9))))
    next_id, given = len(ids), set(ids)
    for _ in range(nights):
        match = (0.1, 0.5, 0.5, 0.9, 1.0)[random.integers(5)]
        found = match_clusters(ids, next_id, shared(random_overlap(random, len(ids))), match)
        if random.random() < 0.1:
            continue
        new = found.ids.tolist()
        assert len(set(new)) == len(new), "two clusters have one id"
        fresh = set(new) - set(ids)
        assert not fresh & given, "an id was given twice"
        assert min(fresh, default=next_id) >= next_id, "a fresh id is below one that was given"
        assert found.next_id == next_id + len(fresh) > max(given | fresh), "next_id is not above"
        told = {story.id: story for story in found.stories}
        assert len(told) == len(found.stories), "two stories of one cluster"
        assert set(told) == set(ids) | set(new), "a cluster without a story"
        assert {i for i in told if told[i].event == "survived"} == set(ids) & set(new)
        assert all(set(s.others) <= set(ids) | set(new) for s in told.values())
        ids, next_id, given = new, found.next_id, given | fresh


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_every_new_id_is_unused(seed, nights):
    history(np.random.default_rng(seed), nights)


def test_the_smaller_of_two_merged_clusters_is_absorbed():
    found, told = stories([[70], [30]], ids=[4, 0])
    assert (found.ids.tolist(), found.next_id) == ([4], 9)
    assert told == {0: ("absorbed", 0.3, 30, 0, [4]), 4: ("survived", 0.7, 70, 100, [])}
    assert found.moved([4, 0]) == 0.3


def test_a_cluster_of_rows_from_several_clusters_appears():
    found, told = stories([[100, 0, 0, 10], [0, 100, 0, 10], [0, 0, 100, 10]])
    assert found.ids.tolist() == [4, 0, 7, 9]
    assert told[9] == ("appeared", 0.0769, 0, 30, [])
