"""Tests with the lowest and the newest dependencies, on every Python that is there.

Run it as ``python -m tests.matrix``; `uv` makes the environments, below a folder that is removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "dev"
PASSED, FAILED, ABSENT, UNSOLVED = "passed", "FAILED", "not there", "NO SOLUTION"


def uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Call uv, as a module of this Python or as a command."""
    own = subprocess.run([sys.executable, "-m", "uv", "--version"], capture_output=True)
    command = [sys.executable, "-m", "uv"] if own.returncode == 0 else ["uv"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True)


def outcome(python: str, resolution: str, tests: list[str], folder: Path) -> str:
    """Return what became of the tests on a Python with a resolution of the dependencies."""
    home = folder / f"{python.replace('/', '-')}-{resolution}"
    if uv("venv", "--quiet", "--no-python-downloads", "--python", python, str(home)).returncode:
        return ABSENT
    inside = str(home / "bin/python")
    install = ["pip", "install", "--quiet", "--resolution", resolution, "--python", inside]
    done = uv(*install, "--editable", f"{ROOT}[{EXTRAS}]")
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return UNSOLVED
    command = [inside, "-m", "pytest", "-q", "--numprocesses", "auto", "--maxprocesses", "8"]
    # Kernels are compiled for each numba of its own.
    environment = os.environ | {"NUMBA_CACHE_DIR": str(home / "kernels")}
    environment |= {"PYTHONDONTWRITEBYTECODE": ""}
    tested = subprocess.run([*command, "--dist", "loadfile", *tests], cwd=ROOT, env=environment)
    shutil.rmtree(home, ignore_errors=True)
    return FAILED if tested.returncode else PASSED


def main() -> int:
    """Print a table of the outcomes; return 1 where tests failed, or none were done."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--pythons", nargs="+", default=["3.11", "3.12", "3.13"])
    parser.add_argument("--resolutions", nargs="+", default=["lowest-direct", "highest"])
    parser.add_argument("--tests", nargs="+", default=["tests"])
    asked = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="distsvc-matrix-") as folder:
        for python in asked.pythons:
            for resolution in asked.resolutions:
                found[python, resolution] = outcome(python, resolution, asked.tests, Path(folder))
    for (python, resolution), what in found.items():
        print(f"{python:<12} {resolution:<14} {what}")
    done = set(found.values()) - {ABSENT}
    return 0 if done == {PASSED} else 1


if __name__ == "__main__":
    sys.exit(main())
