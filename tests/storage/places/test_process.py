"""Processes of the same machine are visible, and an ended process does not count as alive."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from distsvc.storage.places import process as scratches
from distsvc.storage.places.lease import Holder, is_gone
from distsvc.storage.places.process import SEEN_BY, new_scratch, remove_left, scratch, started, who


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
def test_processes_of_other_machines_are_not_judged(key, other):
    """A record of an older version has no namespace."""
    record = Holder.model_validate(who() | {"process": 2**22 + 1, "started": "7"})
    assert is_gone(record) is True
    assert is_gone(record.model_copy(update={key: other})) is None


KILLED = """
import os, signal
from distsvc.storage.places.process import new_scratch
(new_scratch("work") / "file").write_text("left")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_scratch_folders_are_private_and_removed(folder):
    with scratch("plan") as made:
        assert made.parent == folder
        assert made.stat().st_mode & 0o777 == 0o700
        (made / "file").write_text("x")
    assert names(folder) == []


def test_the_next_process_removes_folders_of_a_killed_one(folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(folder))
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", KILLED], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert len(names(folder)) == 1, "the second removes what the first left"
    with scratch("plan") as made:
        assert names(folder) == [made.name]


def test_folders_in_use_or_of_others_stay(folder, monkeypatch):
    living, mine = new_scratch("work"), scratches._place()
    stay = [living.name, "distsvc-work-notes", f"distsvc-work-{'0' * 12}-1-2-abcdefgh"]
    for name in stay[1:]:
        (folder / name).mkdir()
    gone, linked = (f"distsvc-work-{mine}-{2**22 + 1}-{n}-abcdefgh" for n in (1, 2))
    (folder / gone).mkdir()
    (folder / "kept").mkdir()
    (folder / linked).symlink_to(folder / "kept")
    (folder / f"{gone}x").write_text("a file")
    remove_left()
    assert names(folder) == sorted([*stay, "kept", linked, f"{gone}x"])
    (folder / gone).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(scratches.os, "getuid", lambda: 2**30)
        remove_left()
    assert (folder / gone).exists(), "another user's"
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    remove_left()


def test_a_process_that_has_the_number_of_a_dead_one_is_another(folder):
    made = new_scratch("work")
    began = started(int(made.name.split("-")[3]))
    older = Path(str(made).replace(f"-{began}-", "-7-"))
    older.mkdir()
    remove_left()
    assert names(folder) == [made.name]
