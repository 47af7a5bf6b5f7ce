"""Faults inside a process: at its n-th change of files below a folder, something happens.

An audit hook sees every opening for writing, rename, removal and new folder that Python makes,
whoever calls it; writes and `fsync` are watched by wrapping `open` and `os.fsync`. What native code
opens and writes itself is not seen. Only the standard library is used: this is imported before
anything else in a driver.
"""

import builtins
import errno
import io
import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

SETTINGS = "DISTSVC_CHAOS_FAULT"
"""The environment variable with the settings, in JSON.

``under``: the folder that is watched. ``at``: the number of the change, from 1, before which it
happens; none where changes are only written to the file ``log``, each with the time on the clock
that `time.monotonic` reads. ``what``: an errno's name, which that change fails with; ``FULL``, as
ENOSPC, but from there on for whatever needs room; a signal's name, which the process sends itself,
``after`` so many seconds if that is given; or ``SWAP``, which calls `swap` with ``swap``'s
arguments.
"""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NEEDS_ROOM = {"open", "write", "os.mkdir", "os.link", "os.symlink", "fsync"}
PATHS = {
    "os.rename": (1, 3), "os.mkdir": (0, 2), "os.remove": (0, 1), "os.rmdir": (0, 1),
    "os.link": (1, 3), "os.symlink": (1, 2), "os.truncate": (0, None),
}  # fmt: skip
"""Of each audited call, which argument is the path that changes, and which its folder."""


class Watch:
    """Counts the changes below a folder, and does what was asked for at one of them."""

    def __init__(self, settings):
        self.under = os.path.realpath(settings["under"])
        self.at, self.what = settings.get("at"), settings.get("what")
        self.swap, self.after = settings.get("swap"), settings.get("after", 0.0)
        self.n, self.pid, self.busy = 0, os.getpid(), False
        log = settings.get("log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.log = os.open(log, flags) if log else None

    def concerns(self, path, folder=None):
        """Return a path as absolute text where it is watched, else None."""
        try:
            name = os.fsdecode(path)
        except TypeError:
            return None
        if isinstance(folder, int) and folder >= 0 and not os.path.isabs(name):
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        name = os.path.abspath(name)
        return name if name == self.under or name.startswith(self.under + os.sep) else None

    def hook(self, event, args):
        """Take one audit event."""
        if self.busy or (event != "open" and event not in PATHS) or os.getpid() != self.pid:
            return
        if event == "open":
            if isinstance(args[0], int) or not args[2] & WRITING:
                return
            path = self.concerns(args[0])
        else:
            place, folder = PATHS[event]
            path = self.concerns(args[place], None if folder is None else args[folder])
        if path is not None:
            self.happens(event, path)

    def happens(self, event, path):
        """Count a change that is about to be made."""
        self.n += 1
        if self.log is not None:
            os.write(self.log, f"{time.monotonic():.4f} {event} {path}\n".encode())
        if self.at is None or self.n < self.at:
            return
        if self.what == "FULL":
            if event in NEEDS_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        elif self.n > self.at:
            return
        elif self.what == "SWAP":
            self.busy = True
            swap(**self.swap)
            self.busy = False
        elif self.what.startswith("SIG"):
            self.end(getattr(signal, self.what))
        else:
            number = getattr(errno, self.what)
            raise OSError(number, os.strerror(number), path)

    def end(self, number):
        """Send this process a signal, at once or after a while."""
        if not self.after:
            os.kill(self.pid, number)
            return
        timer = threading.Timer(self.after, os.kill, (self.pid, number))
        timer.daemon = True
        timer.start()


def install(settings):
    """Watch this process from now on."""
    watch = Watch(settings)
    plain_open, plain_fsync = io.open, os.fsync

    class Watched(io.FileIO):
        def write(self, data):
            watch.happens("write", os.fsdecode(self.name))
            return super().write(data)

    def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None,
               closefd=True, opener=None):  # fmt: skip
        named = isinstance(file, (str, bytes, os.PathLike))
        if not (named and set(mode) & set("wax+") and watch.concerns(file)):
            return plain_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = Watched(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        return buffer if "b" in mode else io.TextIOWrapper(buffer, encoding, errors, newline)

    def synced(fd):
        path = watch.concerns(
            os.readlink(f"/proc/self/fd/{fd if type(fd) is int else fd.fileno()}")
        )
        if path is not None and os.getpid() == watch.pid:
            watch.happens("fsync", path)
        plain_fsync(fd)

    builtins.open = io.open = opened
    os.fsync = synced
    sys.addaudithook(watch.hook)


def install_from_environment():
    """Watch this process if its environment says so; of its children, changes are only logged."""
    settings = json.loads(os.environ.pop(SETTINGS, "{}"))
    if settings:
        install(settings)
    if settings.get("log"):
        os.environ[SETTINGS] = json.dumps({"under": settings["under"], "log": settings["log"]})


def swap(old, new, in_place):
    """Make the files of folder `old` those of folder `new`, written over or replaced one by one."""
    old, new = Path(old), Path(new)
    wanted = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    for path in [path for path in old.rglob("*") if path.is_file()]:
        if path.relative_to(old) not in wanted:
            path.unlink()
    for name in sorted(wanted):
        target = old / name
        if target.is_file() and target.read_bytes() == (new / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if in_place:
            target.write_bytes((new / name).read_bytes())
        else:
            shutil.copy(new / name, f"{target}.swapped")
            os.replace(f"{target}.swapped", target)
