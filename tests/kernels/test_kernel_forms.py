"""A kernel has one compiled form, whatever calls it: workers that fill a cache write one file."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_jobs_call_every_kernel_with_one_set_of_types(tmp_path):
    command = [sys.executable, "-m", "tests.kernels.kernel_forms", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    *several, last = done.stdout.splitlines()
    assert several == []
    assert int(last.split()[0]) > 20, last
