"""Processes that tests start, and the options of commands."""

import subprocess
import sys


def python(*arguments, timeout=60, **options):
    """Run Python in a process of its own; return its exit code and what it printed.

    `options` are those of `subprocess.run`.
    """
    given = {"capture_output": True, "text": True, "check": False, "timeout": timeout} | options
    return subprocess.run([sys.executable, *map(str, arguments)], **given)


def options(command) -> set[str]:
    return {o for p in command.params for o in (*p.opts, *p.secondary_opts)}


def used(arguments) -> set[str]:
    return {argument for argument in arguments if argument.startswith("--")}
