import pytest

from distsvc.report import page


@pytest.fixture
def undrawn(monkeypatch):
    """Leave the figures out where a test looks only at the page's own text."""
    monkeypatch.setattr(page, "_figures", lambda _: dict.fromkeys(page.FIGURES))
