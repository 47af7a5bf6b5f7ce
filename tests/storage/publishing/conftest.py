import os

import pytest


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Hundreds of runs are published here; none has to survive a loss of power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
