import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

from distsvc.kernels import jit
from distsvc.kernels.jit import cache_folder
from distsvc.kernels.rbf import weighted_sums
from distsvc.kernels.scaling import count_between

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="rules of POSIX systems")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty folder in place of the system's for temporary files."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_made_for_this_user_only(temporary):
    folder = cache_folder()
    assert folder == temporary / f"distsvc-kernels-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache_folder() == folder


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(temporary, mode):
    cache_folder().chmod(mode)
    assert cache_folder() is None


@pytest.mark.parametrize(
    ("owner", "name", "changed"),
    [
        (os, "getuid", lambda: 123456),  # of another user
        (os, "access", lambda path, mode: False),  # not writable; chmod does not stop root
        (tempfile, "tempdir", "/no/such/folder"),
    ],
)
def test_a_folder_that_can_not_be_used(temporary, monkeypatch, owner, name, changed):
    assert cache_folder() is not None
    monkeypatch.setattr(owner, name, changed)
    assert cache_folder() is None


def test_a_link_or_a_file_in_its_place_is_refused(temporary):
    place = temporary / f"distsvc-kernels-{os.getuid()}"
    (temporary / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(temporary / "elsewhere")
    assert cache_folder() is None
    place.unlink()
    place.write_text("")
    assert cache_folder() is None


def test_the_environment_decides(tmp_path, monkeypatch):
    given = tmp_path / "a" / "b"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(given))
    assert cache_folder() == given
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert cache_folder() is None


COUNT = """
import importlib, logging, os, pkgutil, sys, tempfile


def refuse(*_, **__):
    raise PermissionError("read only")


if len(sys.argv) > 1:  # by what numba tries a folder; no mode stops root
    os.makedirs = tempfile.TemporaryFile = refuse
import numpy as np
from numba.core.registry import CPUDispatcher
import distsvc.kernels
from distsvc.kernels.scaling import count_between
names = [m.name for m in pkgutil.iter_modules(distsvc.kernels.__path__, "distsvc.kernels.")]
found = [v for n in names for v in vars(importlib.import_module(n)).values()]
kernels = [v for v in found if isinstance(v, CPUDispatcher)]
assert len(kernels) > 10
assert not any(k.signatures for k in kernels)
logging.basicConfig(level=logging.INFO, format="%(message)s")
count_between(np.zeros((1, 1)), np.zeros((1, 9)), np.zeros((1, 11), np.int64))
print(sum(count_between._cache_hits.values()))
print("numba.misc.cffiimpl" in sys.modules)
"""


def test_nothing_compiles_at_import_and_a_cache_that_can_only_be_read_is_used(tmp_path):
    """A cached form is loaded without what compiling needs."""
    run = [sys.executable, "-c", COUNT]
    given = {"capture_output": True, "text": True, "check": True}
    given["env"] = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first = subprocess.run(run, **given)
    assert (first.stdout, first.stderr) == ("0\nTrue\n", "compiling\n")
    second = subprocess.run([*run, "read only"], **given)
    assert (second.stdout, second.stderr) == ("1\nFalse\n", "")


@pytest.mark.parametrize("kind", [jit.inlined, jit.unchecked])
def test_python_calls_an_inlined_function_without_compiling_it(kind):
    half = kind(lambda x: x / 2)
    assert half(1) == 0.5
    assert not getattr(half, "signatures", [])
    assert numba.njit(lambda x: half(x))(3) == 1.5
    assert half(5) == 2.5


def test_nan_and_infinity_are_kept():
    X = np.array([[np.nan], [np.inf], [0.0]], np.float32)
    found = weighted_sums(X, np.zeros((1, 1), np.float32), np.ones(1, np.float32), 1.0)
    assert found[1] < 1e-30
    assert found[2] == 1.0


def start(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_many_processes_may_start_at_once_on_an_empty_cache(tmp_path):
    code = """
import numpy as np
from distsvc.kernels.scaling import count_between
counts = np.zeros((2, 11), np.int64)
count_between(np.array([[0.3, 0.7], [0.1, 4.0]]), np.linspace(0, 1, 18).reshape(2, 9), counts)
print(counts.tolist())
"""
    processes = [start("-c", code, NUMBA_CACHE_DIR=str(tmp_path / "new")) for _ in range(3)]
    outputs = [process.communicate()[0] for process in processes]
    here = np.zeros((2, 11), np.int64)
    count_between(np.array([[0.3, 0.7], [0.1, 4.0]]), np.linspace(0, 1, 18).reshape(2, 9), here)
    assert outputs == [f"{here.tolist()}\n"] * 3
    assert list((tmp_path / "new").rglob("*.nbi"))


def test_kernels_as_plain_python_equal_their_twins():
    known = {Path(__file__).name, "test_hyperplanes.py"}  # all of the latter's are run as both
    others = [str(file) for file in sorted(HERE.glob("test_*.py")) if file.name not in known]
    once = "test_twin and not compiled"  # both forms of a kernel are the same one here
    arguments = "-m", "pytest", "-q", "-x", "-k", once, "-p", "no:cacheprovider", *others
    process = start(*arguments, NUMBA_DISABLE_JIT="1")
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert "passed" in output


def test_a_given_folder_that_others_may_write_to_is_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o777)
    assert jit.cache_folder() is None
    monkeypatch.setattr(jit, "_FOLDER", None)
    jit._warn_not_kept.cache_clear()
    with caplog.at_level("WARNING", "distsvc"):
        jit.kernel(lambda x: x + 1)(1)
    [record] = [one for one in caplog.records if one.getMessage() == "compiled code is not kept"]
    assert record.fields["because"] == (
        f"other users may write to {tmp_path / 'kept'}; chmod go-w {tmp_path / 'kept'}"
    )
    (tmp_path / "kept").chmod(0o755)
    assert jit.cache_folder() == tmp_path / "kept"
