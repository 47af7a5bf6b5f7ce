import pytest

from distsvc.report import page
from distsvc.report.figures import levels, moves, tree


@pytest.fixture
def undrawn(monkeypatch):
    """Leave the figures out where a test looks only at the page's own text."""
    parts = [part._replace(figure=lambda _: None) for part in page.PARTS]
    monkeypatch.setattr(page, "PARTS", parts)
    drawings = (levels, "level_tree"), (tree, "tree"), (tree, "curve"), (moves, "alluvial")
    for module, name in drawings:
        monkeypatch.setattr(module, name, lambda *_: None)
