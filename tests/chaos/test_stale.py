"""Holders that sleep before a change lose nothing of their successors' work."""

import pytest
from chaos.stale import HOLDERS, stale_holder


@pytest.mark.parametrize("seed", range(len(HOLDERS)))
def test_a_holder_that_wakes_up_late_changes_nothing(seed):
    found = stale_holder(seed)
    assert found["problems"] == []
    assert found["what"] or found["kind"] in ("stale job", "stale backfill")
