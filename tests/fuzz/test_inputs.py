"""No damage to an input leads to anything but rows or a refusal in one line that names it."""

import os

import pytest

from tests.fuzz.inputs import WRITERS, outcome, read

N = int(os.environ.get("DISTSVC_FUZZ", "300"))
GROUPS = 6


@pytest.mark.parametrize("group", range(GROUPS))
def test_damaged_inputs(group):
    found = {seed: outcome(seed) for seed in range(group, N, GROUPS)}
    assert {s: what for s, what in found.items() if what[0] not in ("rows", "refused")} == {}
    assert {kind for kind, _ in found.values()} == {"rows", "refused"}


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_what_is_whole_is_read(write, tmp_path):
    assert read(write(tmp_path), tmp_path / "staging") in (60, 120)
