"""Processes that tests start."""

import subprocess
import sys


def python(*arguments):
    """Run Python in a process of its own, and return its exit code and what it printed."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
