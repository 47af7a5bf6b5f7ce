import pytest

from distsvc.report.figures import clusters, levels, tree


@pytest.fixture
def no_figures(monkeypatch):
    """Leave out the figures that every page has; drawing takes longer than all the rest."""
    for name in ("plane", "score_histogram", "membership"):
        monkeypatch.setattr(clusters, name, lambda *_: None)


@pytest.fixture
def undrawn(no_figures, monkeypatch):
    """Leave out all figures, for tests of the page's text."""
    for module, name in (levels, "level_tree"), (tree, "tree"), (tree, "curve"):
        monkeypatch.setattr(module, name, lambda *_: None)
