"""Processes that tests start, and the options of commands."""

import subprocess
import sys


def python(*arguments):
    """Run Python in a process of its own, and return its exit code and what it printed."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def options(command) -> set[str]:
    return {o for p in command.params for o in (*p.opts, *p.secondary_opts)}


def used(arguments) -> set[str]:
    return {argument for argument in arguments if argument.startswith("--")}
