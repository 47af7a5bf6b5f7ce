import pytest


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, no_signals):
    monkeypatch.chdir(tmp_path)
