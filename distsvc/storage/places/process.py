"""The identity of this process, and its scratch folders among the system's temporary files.

A killed process leaves its folders behind. So the name of a folder identifies its process: host,
boot, PID namespace, number and start. New processes remove the folders of ended processes of the
same user, machine and container.
"""

import hashlib
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import JsonValue

SEEN_BY = "host", "boot", "namespace"
"""Keys of `who` that identify the machine, boot and container in which a process id is valid."""


def who() -> dict[str, JsonValue]:
    """Return the properties that identify this process."""
    process, boot, namespace = os.getpid(), "", ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    known: dict[str, JsonValue] = {"process": process, "started": started(process)}
    return {"host": socket.gethostname(), "boot": boot, "namespace": namespace} | known


def started(process: int | None) -> str | None:
    """Return the start time of a process of this machine; None if it does not run."""
    if process is None:
        return None
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]  # a zombie has ended
    except (OSError, IndexError):
        pass
    try:
        os.kill(process, 0)
    except PermissionError:
        return ""
    except OSError:
        return None
    return ""


_NAME = re.compile(r"distsvc-[a-z]+-(?P<place>[0-9a-f]{12})-(?P<process>\d+)-(?P<started>\d*)-\w+")


@contextmanager
def scratch(use: str) -> Iterator[Path]:
    """Yield a new private folder, which is removed at the end; `use` is a word for its name."""
    folder = new_scratch(use)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_scratch(use: str) -> Path:
    """Return a new private folder, which the caller removes; `use` is a word for its name."""
    remove_left()
    here = who()
    name = f"distsvc-{use}-{_place()}-{here['process']}-{here['started'] or ''}-"
    return Path(tempfile.mkdtemp(prefix=name))


def remove_left() -> None:
    """Remove the scratch folders that ended processes of this user left behind."""
    place, folder = _place(), tempfile.gettempdir()
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in filter(None, map(_NAME.fullmatch, names)):
        path, user = os.path.join(folder, name.string), getattr(os, "getuid", lambda: 0)()
        if name["place"] != place or started(int(name["process"])) == name["started"]:
            continue
        with suppress(OSError):
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == user:  # no link
                shutil.rmtree(path, ignore_errors=True)


def _place() -> str:
    here = who()
    said = "\n".join(str(here[key]) for key in SEEN_BY)
    return hashlib.sha256(said.encode()).hexdigest()[:12]
