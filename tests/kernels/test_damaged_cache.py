"""Trouble with the cache of compiled code costs time and stops nothing."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from distsvc.kernels import jit

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)

SOURCE = "def twice(x):\n    return 2.0 * x.sum()\n"


@pytest.fixture
def twice(tmp_path, folder, monkeypatch):
    """Make the kernel anew, as a new process would."""
    (tmp_path / "twice_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)

    def make():
        sys.modules.pop("twice_module", None)
        import twice_module

        return jit.kernel(twice_module.twice)

    yield make
    sys.modules.pop("twice_module", None)


def called(kernel):
    assert kernel(np.ones(3)) == 6.0
    return sum(kernel.stats.cache_hits.values())


def entry(folder, suffix):
    [path] = folder.rglob(f"*{suffix}")
    return Path(path)


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1 :]


DAMAGES = [(suffix, change) for suffix in (".nbi", ".nbc") for change in (truncated, bytes.upper)]


@pytest.mark.parametrize(
    ("suffix", "change"), [*DAMAGES, (".nbc", flipped), (".nbi", lambda _: b"")]
)
def test_a_damaged_entry_is_made_again(twice, folder, caplog, suffix, change):
    assert [called(twice()), called(twice())] == [0, 1]
    path = entry(folder, suffix)
    path.write_bytes(change(path.read_bytes()))
    assert called(twice()) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "compiled code is damaged and made again"
    ]
    assert caplog.records[0].fields["kernel"] == "twice"
    assert called(twice()) == 1
    assert len(list(folder.rglob("*.nb?"))) == 2


def test_a_full_disk_keeps_the_code_in_memory(twice, folder, caplog, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    kernel = twice()
    monkeypatch.setattr(os, "replace", full)
    assert called(kernel) == 0
    assert [record.getMessage() for record in caplog.records] == ["compiled code is not kept"]
    assert list(folder.rglob("*.nb*")) == []


def test_a_folder_that_is_full_from_the_start_is_not_used(twice, folder, caplog, monkeypatch):
    monkeypatch.setattr(jit.UserProvidedCacheLocator, "from_function", lambda *_: None)
    assert called(twice()) == 0
    assert [record.getMessage() for record in caplog.records] == ["compiled code is not kept"]
    assert list(folder.rglob("*.nb*")) == []


def test_equal_sources_share_compiled_code_wherever_they_are(tmp_path, folder, monkeypatch):
    def hits(checkout, factor):
        place = tmp_path / checkout / "kernels"
        place.mkdir(parents=True)
        (place / "shared_factor.py").write_text(f"FACTOR = {factor}\n")
        source = (
            "from shared_factor import FACTOR\n\n\ndef twice(x):\n    return FACTOR * x.sum()\n"
        )
        (place / "shared_twice.py").write_text(source)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(place)
            for name in ("shared_factor", "shared_twice"):
                patch.delitem(sys.modules, name, raising=False)
            import shared_twice

            kernel = jit.kernel(shared_twice.twice)
        return kernel(np.ones(3)), sum(kernel.stats.cache_hits.values())

    assert hits("one", 2.0) == (6.0, 0)
    assert hits("two", 2.0) == (6.0, 1)
    assert hits("three", 4.0) == (12.0, 0), "code of another module has changed"
