import pytest

from distsvc.report import page
from distsvc.report.figures import levels, moves, tree


@pytest.fixture
def no_figures(monkeypatch):
    """Leave out what the page draws of every run; it takes longer than all the rest."""
    parts = [part._replace(figure=lambda _: None) for part in page.PARTS]
    monkeypatch.setattr(page, "PARTS", parts)


@pytest.fixture
def undrawn(no_figures, monkeypatch):
    """Leave the figures out where a test looks only at the page's own text."""
    drawings = (levels, "level_tree"), (tree, "tree"), (tree, "curve"), (moves, "alluvial")
    for module, name in drawings:
        monkeypatch.setattr(module, name, lambda *_: None)
