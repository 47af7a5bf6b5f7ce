"""Numbers of clusters beside their rows: apart from each other, inside the axes, off the rows."""

import itertools

import numpy as np

from distsvc.report.content.report import ClusterRow, Sample
from distsvc.report.figures.clusters import BADGE, badges, plane
from tests.report.reports import make_report, texts

ROOM = (300.0, 280.0)


def blobs(k, n=40, seed=0, width=4.0):
    random = np.random.default_rng(seed)
    middles = random.uniform(15.0, 265.0, size=(k, 2))
    labels = np.repeat(np.arange(k), n)
    return middles[labels] + random.normal(size=(k * n, 2)) * width, labels


def test_no_two_numbers_meet_and_all_are_inside():
    places, labels = blobs(60)
    found = badges(places, labels, range(60), ROOM)
    assert len(found) >= 57
    for one, other in itertools.combinations(found, 2):
        assert np.abs(np.subtract(one.at, other.at)).max() >= 2 * BADGE
    at = np.array([one.at for one in found])
    assert (at >= BADGE).all()
    assert (at <= np.array(ROOM) - BADGE).all()


def test_a_number_points_to_a_row_of_its_cluster_and_covers_few():
    places, labels = blobs(5, seed=3)
    for one in badges(places, labels, range(5), ROOM):
        assert any((row == one.row).all() for row in places[labels == one.label])
        covered = np.abs(places - one.at).max(axis=1) < BADGE / 2
        assert covered.sum() <= 2
    assert badges(places, labels, [9], ROOM) == []


def test_a_number_without_room_is_left_out():
    places = np.full((30, 2), 140.0)
    found = badges(places, np.arange(30), range(30), (150.0, 150.0))
    assert 0 < len(found) < 30


def test_each_number_of_the_picture_is_written_once():
    report = make_report(12, drawn=600)
    sample = Sample(**report["sample"])
    clusters = [ClusterRow(**row) for row in report["clusters"]]
    written = texts(plane(sample, clusters))
    assert [written.count(f"{k}") >= 1 for k in range(12)].count(False) == 0
