"""Colours on light and dark pages, and the bytes of SVGs."""

import inspect
import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from distsvc.report.content.report import ClusterRow
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import drawing

COUNTS = [0, 3, 20, 40]


def luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_users_matplotlib_settings_have_no_effect():
    usual = figures.membership(COUNTS)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert figures.membership(COUNTS) == usual
        assert mpl.rcParams["font.size"] == 30


def test_one_pass_gives_the_paths_of_savefig():
    svg = io.StringIO()
    with mpl.rc_context(drawing.STYLE | {"svg.hashsalt": "membership"}):
        figure = inspect.unwrap(figures.membership)(COUNTS)
        figure.savefig(svg, format="svg", dpi=200, metadata={"Date": None})
    paths = re.compile(r'(?<= d=")[^"]*')
    saved = drawing._inline(svg.getvalue(), "membership")
    assert paths.findall(figures.membership(COUNTS)) == paths.findall(saved)


def test_colours_follow_ids_unless_two_ids_would_share_one():
    def colours(*labels):
        return drawing.cluster_colours([ClusterRow(label=k, rows=1, share=0.1) for k in labels])

    assert colours(2, 0, 1) == colours(0, 1, 2)
    assert colours(7, 23)[7] == colours(7)[7] == drawing.COLOURS[7]
    assert list(colours(23, 3, 43).values()) == list(drawing.COLOURS[:3])


@pytest.mark.parametrize("number", range(20))
def test_dark_colours_contrast_with_the_page_and_with_text(number):
    light, dark = drawing.COLOURS[number], drawing.DARK_COLOURS[number]
    card = drawing.THEME[drawing.CARD][1]
    assert contrast(dark, card) >= 3.0
    ink = drawing.ink_on(light)
    written = "#ffffff" if ink == "white" else ink
    assert contrast(dark, written) >= min(3.0, contrast(light, written))


def test_ink_is_legible_on_both_pages():
    for ink in (drawing.INK, drawing.SOFT, drawing.BOUNDARY_INK):
        name, dark = drawing.THEME[ink]
        assert contrast(ink, drawing.CARD) >= 4.5, name
        assert contrast(dark, drawing.THEME[drawing.CARD][1]) >= 4.5, name


def test_only_colours_of_styles_become_variables():
    svg = '<path id="#0072b2" style="fill: #0072b2; stroke: #123456"/><text>: #0072b2x</text>'
    themed = drawing.themed(svg)
    assert themed.startswith('<path id="#0072b2" style="fill: var(--c0); stroke: #123456"/>')
    assert ": #0072b2x" in themed


def test_points_take_few_bytes():
    @drawing.drawn
    def some(n):
        figure = Figure()
        axes = figure.add_subplot()
        drawing.dots(axes, np.arange(n) / n, np.arange(n) / n, drawing.COLOURS[0], 2.0)
        axes.autoscale_view()
        return figure

    few, many = some(1000), some(2000)
    assert len(re.findall(r"M\d+\.\d \d+\.\dh0", many)) == 2000
    assert (len(many) - len(few)) / 1000 < 17
