"""Tests make a family have the answer."""

from distsvc.models.automatic.engine import AutomaticEngine

FAMILIES = ("support-vector", "graph")


def keep_columns(monkeypatch):
    """Let columns stay as stored, so that the families decide by their standings."""
    monkeypatch.setattr(AutomaticEngine, "model_columns", lambda *_: None)


def let(monkeypatch, family):
    """Let a family have the answer wherever it was asked, and found clusters."""
    clearest, merits = AutomaticEngine._clearest, AutomaticEngine._merits

    def chosen(engine, standing):
        return family if family in standing else clearest(engine, standing)

    def measured(engine, divisions):
        return {family: 1.0} if family in divisions else merits(engine, divisions)

    keep_columns(monkeypatch)
    monkeypatch.setattr(AutomaticEngine, "_clearest", chosen)
    monkeypatch.setattr(AutomaticEngine, "_merits", measured)
