"""A driver imports nothing slow."""

import subprocess
import sys


def test_a_driver_starts_without_slow_imports():
    heavy = "{'sklearn', 'matplotlib', 'scipy.stats', 'scipy.signal', 'distributed'}"
    code = f"import sys, distsvc.run.job; print(*{heavy} & sys.modules.keys())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""
