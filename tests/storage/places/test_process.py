"""Processes are seen from where they run, and no ended one counts as alive."""

import os
import subprocess
import sys

import pytest

from distsvc.storage.places.lease import Holder, is_gone
from distsvc.storage.places.process import SEEN_BY, started, who


def test_a_process_is_seen_until_it_ends():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begun = started(child.pid)
    here = Holder.model_validate(who() | {"process": child.pid, "started": begun})
    assert is_gone(here) is False
    assert is_gone(here.model_copy(update={"started": "7"})) is True
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(here) is True, "it has ended, though nobody has asked how"
    child.wait()
    assert is_gone(here) is True
    assert started(None) is None


@pytest.mark.parametrize("key", SEEN_BY)
@pytest.mark.parametrize("other", ["elsewhere", None])
def test_what_runs_elsewhere_is_not_judged(key, other):
    """A record of an older version has no namespace."""
    record = Holder.model_validate(who() | {"process": 2**22 + 1, "started": "7"})
    assert is_gone(record) is True
    assert is_gone(record.model_copy(update={key: other})) is None
