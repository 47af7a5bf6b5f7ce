"""The figures of every run, and the badges with the numbers of clusters."""

import itertools
from xml.etree import ElementTree

import numpy as np

from distsvc.report.content.report import ClusterRow, Sample, ScoreHistogram
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing
from distsvc.report.figures.clusters import BADGE, badges, plane
from tests.report.reports import make_report, texts


def test_svg_text_is_escaped_in_well_formed_xml():
    sample = make_report()["sample"] | {"axes": ["<script>&", "]]>--<b>"]}
    svg = figures.plane(Sample(**sample), [])
    written = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert {"<script>&", "]]>--<b>"} <= set(written)
    assert "<script" not in svg


def drawn_scores(**scores):
    return texts(figures.score_histogram(ScoreHistogram(**scores)))


def test_the_boundary_of_scores_has_a_caption():
    scores = {"edges": [0.0, 1.0, 2.0], "counts": [3, 4]}
    assert "boundary, f = 0" in drawn_scores(edges=[-1.0, 1.0], counts=[3])
    titled = drawn_scores(**scores, boundary=0.5, title="distance " * 12)
    assert "boundary, 0.5" in titled
    assert sum(text.startswith("distance") for text in titled) == 2  # lines
    plain = figures.score_histogram(ScoreHistogram(**scores, boundary=None, title="distance"))
    assert not any("boundary" in text for text in texts(plain))
    assert drawing.GREY not in plain
    assert drawn_scores(edges=[1.0, 1.0], counts=[3], boundary=None)


ROOM = (300.0, 280.0)


def blobs(k, n=40, seed=0, width=4.0):
    random = np.random.default_rng(seed)
    middles = random.uniform(15.0, 265.0, size=(k, 2))
    labels = np.repeat(np.arange(k), n)
    return middles[labels] + random.normal(size=(k * n, 2)) * width, labels


def test_badges_do_not_overlap_and_lie_inside_the_axes():
    places, labels = blobs(60)
    found = badges(places, labels, range(60), ROOM)
    assert len(found) >= 57
    for one, other in itertools.combinations(found, 2):
        assert np.abs(np.subtract(one.at, other.at)).max() >= 2 * BADGE
    at = np.array([one.at for one in found])
    assert (at >= BADGE).all()
    assert (at <= np.array(ROOM) - BADGE).all()


def test_a_badge_points_to_a_row_of_its_cluster_and_covers_few_rows():
    places, labels = blobs(5, seed=3)
    for one in badges(places, labels, range(5), ROOM):
        assert any((row == one.row).all() for row in places[labels == one.label])
        covered = np.abs(places - one.at).max(axis=1) < BADGE / 2
        assert covered.sum() <= 2
    assert badges(places, labels, [9], ROOM) == []


def test_each_cluster_has_its_number_in_the_figure():
    report = make_report(12, drawn=600)
    sample = Sample(**report["sample"])
    clusters = [ClusterRow(**row) for row in report["clusters"]]
    written = texts(plane(sample, clusters))
    assert [written.count(f"{k}") >= 1 for k in range(12)].count(False) == 0
