from xml.etree import ElementTree

from distsvc.report.content.report import Sample, ScoreHistogram
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing
from tests.report.reports import make_report, texts


def test_svg_text_is_escaped_in_well_formed_xml():
    sample = make_report()["sample"] | {"axes": ["<script>&", "]]>--<b>"]}
    svg = figures.plane(Sample(**sample), [])
    written = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert {"<script>&", "]]>--<b>"} <= set(written)
    assert "<script" not in svg


def drawn_scores(**scores):
    return texts(figures.score_histogram(ScoreHistogram(**scores)))


def test_boundary_of_the_scores():
    scores = {"edges": [0.0, 1.0, 2.0], "counts": [3, 4]}
    usual = drawn_scores(edges=[-1.0, 1.0], counts=[3])
    assert "boundary, f = 0" in usual
    titled = drawn_scores(**scores, boundary=0.5, title="distance " * 12)
    assert "boundary, 0.5" in titled
    assert sum(text.startswith("distance") for text in titled) == 2  # lines
    plain = figures.score_histogram(ScoreHistogram(**scores, boundary=None, title="distance"))
    assert not any("boundary" in text for text in texts(plain))
    assert drawing.GREY not in plain
    assert drawn_scores(edges=[1.0, 1.0], counts=[3], boundary=None)
