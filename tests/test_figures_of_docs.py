"""The figures of the documentation are drawn by code, and each is on a page."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from docs.figures import FIGURES, IMAGES

PAGES = Path(__file__).parents[1] / "docs/how"


def test_every_figure_is_there_and_on_a_page():
    shown = {
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"\]\(\.\./images/(how-[-\w]+)\.png\)", page.read_text())
    }
    assert shown == set(FIGURES) == {path.stem for path in IMAGES.glob("how-*.png")}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn(name):
    figure = FIGURES[name]()
    assert all(axes.has_data() for axes in figure.axes)
    plt.close(figure)
