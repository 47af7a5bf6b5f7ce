"""Patches that make one view give the answer."""

from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.automatic.stored_views import StoredViews

FAMILIES = ("support-vector", "graph")


def keep_columns(monkeypatch):
    """Let columns stay as stored, so that the standings of the views decide."""
    monkeypatch.setattr(AutomaticEngine, "model_columns", lambda *_: None)


def let(monkeypatch, family):
    """Let the view `family` give the answer whenever it has several clusters."""
    clearest, merits = StoredViews._clearest, StoredViews._merits

    def chosen(views, standing):
        return family if family in standing else clearest(views, standing)

    def measured(views, divisions):
        return {family: 1.0} if family in divisions else merits(views, divisions)

    keep_columns(monkeypatch)
    monkeypatch.setattr(StoredViews, "_clearest", chosen)
    monkeypatch.setattr(StoredViews, "_merits", measured)
