import pytest

from distsvc.report.figures import clusters, levels, nights, tree


@pytest.fixture
def no_figures(monkeypatch):
    """Leave out the figures of every run; they take longer than all the rest."""
    for name in ("plane", "score_histogram", "membership"):
        monkeypatch.setattr(clusters, name, lambda *_: None)


@pytest.fixture
def undrawn(no_figures, monkeypatch):
    """Leave all figures out where a test looks only at the page's own text."""
    drawings = (levels, "level_tree"), (tree, "tree"), (tree, "curve"), (nights, "alluvial")
    for module, name in drawings:
        monkeypatch.setattr(module, name, lambda *_: None)
