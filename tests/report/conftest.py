import pytest

from distsvc.report import page
from distsvc.report.figures import levels, moves, tree


@pytest.fixture
def undrawn(monkeypatch):
    """Leave the figures out where a test looks only at the page's own text."""
    monkeypatch.setattr(page, "_figures", lambda _: dict.fromkeys(page.FIGURES))
    drawings = (levels, "level_tree"), (tree, "tree"), (tree, "curve"), (moves, "alluvial")
    for module, name in drawings:
        monkeypatch.setattr(module, name, lambda *_: None)
