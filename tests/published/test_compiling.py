"""Kernels that are compiled ahead."""

import os
import subprocess
import sys

import pytest

from distsvc.errors import OutputPermissionError
from distsvc.published import compiling
from distsvc.run.work.progress import Progress

CODE = """
import importlib, pkgutil
from distsvc import kernels
from distsvc.published.compiling import compile_kernels
from distsvc.run.work.progress import Progress

print(compile_kernels(Progress(quiet=True)))
for found in pkgutil.iter_modules(kernels.__path__):
    module = importlib.import_module(f"distsvc.kernels.{found.name}")
    for name, one in vars(module).items():
        if type(getattr(one, "_cache", None)).__name__ == "_Cache" and not one.overloads:
            print(name)
"""


def test_all_kernels_of_jobs_are_called():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder, *others = done.stdout.split()
    assert os.path.isdir(folder)
    assert others == []


@pytest.mark.parametrize("folder", [None, "/proc"])
def test_without_a_folder_that_can_be_written_it_says_so(monkeypatch, folder):
    monkeypatch.setattr(compiling, "cache_folder", lambda: folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputPermissionError, match=r"compiled code .* set NUMBA_CACHE_DIR"):
        compiling.compile_kernels(Progress(quiet=True))
