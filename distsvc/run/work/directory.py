"""A run is a directory of small, named, complete files; driver and workers share nothing else.

A file is written once. So it may be kept in memory by its path, and to ask whether a step is done
is to ask whether its file is there.

A file has a checksum, since a machine that loses its power may keep a file's name and not its
bytes: arrays that belong together have those of their archive, a large one has its own in that
archive, and the plan has one for itself and one for every converted file of the input. What is
damaged is never read as if it were whole. And a file that can't be reached is no file that is
missing: the disk's trouble ends a run, is never blamed on its data, and costs nothing that is done.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from distsvc.errors import DataError, DistsvcError, OutputPermissionError, TemporaryError
from distsvc.errors.faults import own_fault
from distsvc.models.rules.fields import Facts
from distsvc.run.work.plan import Plan
from distsvc.storage.places.arrays import (
    checksum,
    map_array,
    read_arrays,
    read_sealed,
    write_array,
    write_arrays,
    write_sealed,
)
from distsvc.storage.places.folder import Folder
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import STORED

KEPT = 128
"""Results that a process keeps in memory."""

KEPT_FORMS = 4096
"""Results of whose large arrays it keeps the forms, and which of them it has checked."""

FIRST = "first"
"""The folder of the first attempt; later ones have folders of their own names."""
_ATTEMPT = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")
PLAN, STAGING = "plan.json", "staging"


class LostWorkError(TemporaryError):
    """A file of a run is missing or damaged; the next start makes it again."""


@dataclass(frozen=True)
class Result:
    """The outcome of a task, or of a step of the driver; `facts` are what JSON can hold.

    Readers want parts of the arrays that are `large`: these become files of their own, which are
    mapped. `rows` were handled, for the display; they are not kept.
    """

    facts: Facts = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    large: dict[str, np.ndarray] = field(default_factory=dict)
    rows: int = 0


class RunDirectory:
    """Reads and writes the files of a run: ``plan.json``, and results by name in ``results/``.

    Each is there once its step is done. What is published is written to folders of the output.
    `work` is the directory, and `address` its absolute path or URL. Each start of a run is an
    `attempt` with a name of its own, which is that of the run the first time: what an attempt
    writes to be published lies in a folder of that name, where no other writes.

    All that reads raises `LostWorkError` for a file that is missing or damaged, and for one that
    can't be reached `TemporaryError`, or `OutputPermissionError` where it may not be read.
    """

    def __init__(self, work: Store | str | Path, attempt: str = ""):
        if isinstance(work, (str, Path)):
            address, named, found = str(work).rpartition("#")
            if named and _ATTEMPT.fullmatch(found):
                work, attempt = address, found
            work = store_of(work)
        self.work, self.address = work, work.address
        self.attempt = attempt or self.name

    @property
    def task_address(self) -> str:
        """The address that tasks get: with the attempt, unless it is the first."""
        return self.address + (f"#{self.attempt}" if self.attempt != self.name else "")

    @property
    def name(self) -> str:
        """The run's own name, which no other run of the output has."""
        return self.address.rpartition("/")[2]

    def write_plan(self, plan: Plan) -> None:
        """Write ``plan.json``; again only for another number of rows in a block."""
        content = {"plan": plan.to_dict(), "staged": self._staged()}
        with self.work.created(PLAN) as path:
            write_sealed(path, content)
        _plan.cache_clear()

    @property
    def is_planned(self) -> bool:
        """Whether the plan is written."""
        with self.reached(PLAN):
            return self.work.has(PLAN)

    @property
    def plan(self) -> Plan:
        """The plan, read once per process."""
        return _plan(self.address)

    def planned(self) -> dict[str, Any]:
        """Return what ``plan.json`` holds: the plan, and checksums of the files it is about.

        `LostWorkError` where one of these is missing or damaged, too.
        """
        with self._whole(PLAN) as path:
            content = read_sealed(path)
        if content["staged"] != self._staged():
            raise LostWorkError(f"{self.address}/{STAGING} is damaged")
        return content

    @property
    def staging(self) -> str:
        """The folder for converted formats without row ranges, which all workers see."""
        return self.work.below(STAGING).address

    @property
    def output(self) -> Store:
        """The address at which the run is published."""
        return store_of(self.plan.output.path)

    @property
    def stored(self) -> Store:
        """The folder, in the output, of all that this run writes to be published."""
        return self.output.below(f"{STORED}/{self.name}")

    def folder(self, kind: str) -> str:
        """Return the folder, in `stored`, of what this attempt writes of a kind.

        Results name it: those of two undisturbed runs have the same bytes.
        """
        return f"{FIRST if self.attempt == self.name else self.attempt}/{kind}"

    def place(self, kind: str) -> Store:
        """Return that folder as a place."""
        return self.stored.below(self.folder(kind))

    def has(self, name: str) -> bool:
        """Return whether a result is there; it is whole then."""
        with self.reached(_file(name)):
            return self.work.has(_file(name))

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the results in a folder, in order, by one listing; all are whole."""
        with self.reached(f"results/{folder}"):
            found = self.work.sizes(f"results/{folder}")
        names = (name.removeprefix("results/") for name in found)
        return [name.removesuffix(".npz") for name in names if name.endswith(".npz")]

    def write(self, name: str, result: Result) -> None:
        """Write a result; one that is there already stays as it is.

        `name` may be in a folder. ``<name>.npz`` comes last, so what is there is whole.
        """
        if self.has(name):
            return
        large = {}
        for key, array in result.large.items():
            with self.work.created(_large_file(name, key)) as path:
                large[key] = [array.dtype.str, array.shape, write_array(path, array)]
        texts = {"facts": result.facts, "large": large} if large else {"facts": result.facts}
        known = {key: np.array(json.dumps(content)) for key, content in texts.items()}
        with self.work.created(_file(name)) as path:
            write_arrays(path, known | result.arrays)

    def load(self, name: str) -> Result:
        """Read a result without what is `large`; one that is damaged is removed."""
        with self._whole(_file(name)) as path:
            arrays = read_arrays(path)
            arrays.pop("large", None)
            return Result(_content(arrays, "facts"), arrays)

    def read(self, name: str) -> Result:
        """Return a result that several tasks need; its file is read once per process.

        Facts and arrays are the caller's own: what a task changes of them, no other task sees. (To
        make them read-only instead would have every kernel compiled twice.) An array keeps its
        memory layout: the order of a kernel's sums, and so an answer's last bits, depend on it.
        """
        kept = _result(self.address, name)
        arrays = {key: array.copy(order="K") for key, array in kept.arrays.items()}
        return Result(copy.deepcopy(kept.facts), arrays)

    def remove(self, name: str) -> None:
        """Remove a result, if it is there; what is `large` of it does not count then."""
        with self.reached(_file(name)):
            self.work.remove(_file(name))

    def map_large(self, name: str, key: str) -> np.ndarray:
        """Return a large array of a result; its pages are read when they are used.

        Its checksum is compared once per process. If it is another, or the type or the shape is,
        the result is removed.
        """
        dtype, shape, expected = _large(self.address, name)[key]
        file = _large_file(name, key)
        with self._whole(file, of=name) as path:
            _compare(path, expected)
            array = map_array(path)
            if [array.dtype.str, list(array.shape)] != [dtype, shape]:
                raise DataError(f"expected {dtype}, {shape}, found {array.dtype}, {array.shape}")
        return array

    def lost(self) -> list[str]:
        """Remove the results that are damaged; return what is wrong with each."""
        found = []
        for name in self.names():
            try:
                self.load(name)
                for key in _large(self.address, name):
                    self.map_large(name, key)
            except LostWorkError as error:
                found.append(str(error))
        return found

    @contextmanager
    def reached(self, file: str) -> Iterator[None]:
        """Turn what keeps a file of the run from being read into an error that keeps the work."""
        try:
            yield
        except (TemporaryError, OutputPermissionError):
            raise
        except (OSError, MemoryError, DistsvcError) as error:
            raise own_fault(error, f"{self.address}/{file}") from error

    @contextmanager
    def _whole(self, file: str, of: str | None = None) -> Iterator[Path]:
        """Yield where a file can be read; a result, the large array `of` one, too, goes if damaged.

        A file that can't be reached may be whole, so it stays.
        """
        where = f"{self.address}/{file}"
        with self.reached(file):
            path = self.work.local(file)
        try:
            yield path
        except (DataError, OSError) as error:
            reason = _reason(error)
            missing = isinstance(reason, FileNotFoundError)
            if reason is not None and not missing:
                raise own_fault(reason, where) from error
            if file.startswith("results/"):
                self.remove(of or file.removeprefix("results/").removesuffix(".npz"))
            said = str(error).removeprefix(f"{path} can't be read: ")
            what = "is not there" if missing else f"is damaged: {said}"
            again = "the same command makes it again and goes on"
            raise LostWorkError(f"{where} {what}; {again}") from error

    def _staged(self) -> dict[str, int]:
        """Return the checksums of the converted files, by name; a store keeps whole what it has."""
        with self.reached(STAGING):
            names = self.work.sizes(STAGING) if isinstance(self.work, Folder) else ()
            return {name: checksum(self.work.local(name)) for name in names}


def _file(name: str) -> str:
    return f"results/{name}.npz"


def _large_file(name: str, key: str) -> str:
    return f"results/{name}.{key}.npy"


def _content(arrays: dict[str, np.ndarray], key: str) -> Any:
    """Take what JSON holds out of a result's arrays."""
    try:
        return json.loads(str(arrays.pop(key)))
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{key} can't be read: {error}") from None


def _reason(error: BaseException) -> BaseException | None:
    """Return what the system said where an error comes of that; None where the bytes are wrong."""
    following: BaseException | None = error
    while following is not None:
        if isinstance(following, MemoryError) or getattr(following, "errno", None):
            return following
        following = following.__cause__ or following.__context__
    return None


@lru_cache(maxsize=4)
def _plan(address: str) -> Plan:
    run = RunDirectory(address)
    with run._whole(PLAN) as path:
        return Plan.from_dict(read_sealed(path)["plan"])


@lru_cache(maxsize=KEPT_FORMS)
def _large(address: str, name: str) -> dict[str, list[Any]]:
    """Return types, shapes and checksums of the large arrays of a result, by name."""
    with RunDirectory(address)._whole(_file(name)) as path:
        found = read_arrays(path, only="large")
        return _content(found, "large") if found else {}


@lru_cache(maxsize=KEPT)
def _result(address: str, name: str) -> Result:
    return RunDirectory(address).load(name)


@lru_cache(maxsize=KEPT_FORMS)
def _compare(path: Path, expected: int) -> None:
    """Compare a file with its checksum, the first time; `DataError` if it has another."""
    if checksum(path) != expected:
        raise DataError(f"{path.name} has another checksum")
