import pytest

from distsvc.kernels import jit


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache's folder, empty."""
    monkeypatch.setattr(jit, "_FOLDER", tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"
