"""Holders that sleep before a change lose nothing of their successors' work."""

import pytest
from chaos.stale import HOLDERS, Pause, stale_holder, watching


@pytest.mark.parametrize("seed", range(len(HOLDERS)))
def test_a_holder_that_wakes_up_late_changes_nothing(seed):
    found = stale_holder(seed)
    assert found["problems"] == []
    assert found["what"] or found["kind"] in ("stale job", "stale backfill")


def test_a_change_that_comes_late_is_seen(tmp_path):
    path, told = tmp_path / "file", []
    pause = Pause(str(tmp_path), 1, lambda: told.append(path.exists()))
    with watching(pause, stored=False):
        path.touch()
        path.unlink()
    assert told == [True]
    assert pause.paused == "unlink"
