"""The identity of this process, and whether another one is alive."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

from pydantic import JsonValue

SEEN_BY = "host", "boot", "namespace"
"""Properties that two processes share if they are visible to each other."""


def who() -> dict[str, JsonValue]:
    """Return the part of a record that identifies this process."""
    process = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": _boot(),
        "namespace": _namespace(),
        "process": process,
        "started": started(process),
    }


@cache
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _namespace() -> str:
    """Return the number of the PID namespace of this process, if any."""
    with suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return ""


def started(process: int | None) -> str | None:
    """Return when a process of this machine began; None if it does not exist or has ended."""
    if process is None:
        return None
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]  # nobody has asked yet how it ended
    except (OSError, IndexError):
        pass
    try:
        os.kill(process, 0)
    except PermissionError:
        return ""
    except OSError:
        return None
    return ""
