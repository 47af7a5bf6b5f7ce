"""Trouble with reading: at the n-th look at files of a run, the system says no.

Every opening for reading, every read, look, listing and mapping that Python makes is seen by
wrapping what makes it, and so are the openings of pyarrow where that is imported. Only the standard
library is used: workers import this before anything else.
"""

import builtins
import errno
import io
import json
import mmap
import os
import re
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

OWN = re.compile(r"/[0-9a-f]{12}-[0-9a-f]{8}(/|$)")
"""What the paths of a run's own files have, on a disk or among the copies of a store's objects."""
PUBLISHED = re.compile(r"/(labels|model|report)/[0-9a-f]{12}-[0-9a-f]{8}(/|$)")
WRITING = set("wax+")
SETTINGS = "DISTSVC_CHAOS_READS"
"""The environment variable with the arguments of `Reads`, in JSON."""
NATIVE = (
    ("pyarrow", "OSFile"),
    ("pyarrow.parquet", "read_metadata"),
    (
        "pyarrow.parquet",
        "read_table",
    ),
)


def path_of_number(number):
    """Return the path of an open file; of none, nothing."""
    return os.readlink(f"/proc/self/fd/{number}") if number >= 0 else ""


watching = ExitStack()
"""What stays until the process ends."""


class Reads:
    """Counts the looks at a run's own files; the one `at` a number, from 1, meets an error.

    `what` is an errno's name; with `lasting` all later looks meet it, too. `n` counts the looks.
    """

    def __init__(self, at=None, what="EIO", lasting=False):
        self.at, self.what, self.lasting = at, what, lasting
        self.n, self.pid = 0, os.getpid()

    def concerns(self, path):
        """Return a path as text if it is that of a run's own file, else None."""
        try:
            name = os.fsdecode(path)
        except TypeError:
            return None
        return name if OWN.search(name) and not PUBLISHED.search(name) else None

    def look(self, path):
        name = self.concerns(path)
        if name is None or os.getpid() != self.pid:
            return
        self.n += 1
        if self.n == self.at or (self.lasting and self.at is not None and self.n > self.at):
            number = getattr(errno, self.what)
            raise OSError(number, os.strerror(number), name)

    @contextmanager
    def watched(self):
        """Watch this process for a while."""
        with ExitStack() as stack:
            for owner, name, made in self._wrapped():
                stack.enter_context(mock.patch.object(owner, name, made, create=True))
            yield self

    def _wrapped(self):
        opened = self._opening(builtins.open)
        yield builtins, "open", opened
        yield io, "open", opened
        yield mmap, "mmap", self._looking(mmap.mmap, path_of_number)
        for name in ("stat", "lstat", "scandir", "listdir"):
            yield os, name, self._looking(getattr(os, name))
        for module, name in NATIVE:
            if module in sys.modules:
                owner = sys.modules[module]
                yield owner, name, self._looking(getattr(owner, name))

    def _looking(self, plain, path_of=lambda path: path):
        look = self.look

        def looking(path=".", *args, **options):
            look(path_of(path))
            return plain(path, *args, **options)

        class Looking(plain if isinstance(plain, type) else object):
            def __new__(cls, path, *args, **options):
                look(path_of(path))
                return super().__new__(cls, path, *args, **options)

        return Looking if isinstance(plain, type) else looking

    def _opening(self, plain):
        look = self.look

        class Read(io.FileIO):
            def readinto(self, buffer):
                look(self.name)
                return super().readinto(buffer)

            def readall(self):
                look(self.name)
                return super().readall()

        def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None,
                   closefd=True, opener=None):  # fmt: skip
            if self.concerns(file) is None or set(mode) & WRITING:
                return plain(file, mode, buffering, encoding, errors, newline, closefd, opener)
            look(file)
            stream = io.BufferedReader(Read(file, "r", closefd, opener))
            return stream if "b" in mode else io.TextIOWrapper(stream, encoding, errors, newline)

        return opened


@contextmanager
def in_children(at, what, lasting):
    """Have looks fail in the processes that are started meanwhile, which is counted in each."""
    here = Path(__file__).parent
    paths = [str(here / "injected"), str(here.parent), os.environ.get("PYTHONPATH", "")]
    settings = json.dumps({"at": at, "what": what, "lasting": lasting})
    news = {SETTINGS: settings, "PYTHONPATH": os.pathsep.join(paths)}
    with mock.patch.dict(os.environ, news):
        yield


def watch_from_environment():
    """Watch this process from now on, if its environment says so."""
    settings = json.loads(os.environ.pop(SETTINGS, "{}"))
    if settings:
        watching.enter_context(Reads(**settings).watched())
