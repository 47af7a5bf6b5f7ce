"""The directory of a run: small, named files that driver and workers share, each written once.

A step is done if its file exists. Every file has a checksum, because a power loss may keep a file's
name and lose its bytes. A file that can't be reached ends the run without losing finished work; it
is never treated as missing, and never blamed on the data.
"""

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
from distsvc.run.work.plan import STORED_PLAN, Plan
from distsvc.storage.places.arrays import (
    checksum,
    map_array,
    read_arrays,
    read_regular,
    sealed,
    unsealed,
    write_array,
    write_arrays,
    write_content,
)
from distsvc.storage.places.folder import Folder
from distsvc.storage.places.store import Store, store_of
from distsvc.storage.publishing.manifest import STORED

_ATTEMPT = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")
PLAN, STAGING = "plan.json", "staging"


class LostWorkError(TemporaryError):
    """A file of a run is missing or damaged, and will be written again."""


@dataclass(frozen=True)
class Result:
    """Result of a task or of a step of the driver."""

    facts: Facts = field(default_factory=dict)  # JSON values
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    large: dict[str, np.ndarray] = field(default_factory=dict)  # arrays with files of their own
    rows: int = 0  # processed rows; not stored


class RunDirectory:
    """The files of a run: ``plan.json``, and results by name in ``results/``.

    Methods that read raise `LostWorkError` for a missing or damaged file. They raise
    `TemporaryError` or `OutputPermissionError` for a file that can't be reached or read. Each start
    of the run is an `attempt`, which has its own folder for files to publish.
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
        """The address from which a task makes its own `RunDirectory`.

        ``#attempt`` is appended, except for the first attempt.
        """
        return self.address + (f"#{self.attempt}" if self.attempt != self.name else "")

    @property
    def name(self) -> str:
        """The name of the run, unique in its output."""
        return self.address.rpartition("/")[2]

    def write_plan(self, plan: Plan) -> None:
        """Write ``plan.json``.

        If it exists, the new plan may differ from it only in `block_rows`.
        """
        content = {"plan": STORED_PLAN.dump_python(plan, mode="json"), "staged": self._staged()}
        with self.work.created(PLAN) as path:
            write_content(path, sealed(content))
        _plan.cache_clear()

    @property
    def is_planned(self) -> bool:
        with self.reached(PLAN):
            return self.work.has(PLAN)

    @property
    def plan(self) -> Plan:
        """The plan, read once per process."""
        return _plan(self.address)

    def planned(self) -> dict[str, Any]:
        """Return the content of ``plan.json``; `LostWorkError` if converted files are damaged."""
        with self._whole(PLAN) as path:
            content = unsealed(read_regular(path), path)
        if content["staged"] != self._staged():
            raise LostWorkError(f"{self.address}/{STAGING} is damaged")
        return content

    @property
    def staging(self) -> str:
        """The folder of converted input files, visible to all workers."""
        return self.work.below(STAGING).address

    @property
    def stored(self) -> Store:
        """The folder in the output with all files that this run may publish."""
        return store_of(self.plan.output.path).below(f"{STORED}/{self.name}")

    def folder(self, kind: str) -> str:
        """Return the folder, relative to `stored`, in which this attempt writes files of a kind.

        For the report, the folder is ``first/report`` in the first attempt.
        """
        # Results contain this path; ``first`` makes the results of uninterrupted runs equal.
        return f"{'first' if self.attempt == self.name else self.attempt}/{kind}"

    def place(self, kind: str) -> Store:
        return self.stored.below(self.folder(kind))

    def has(self, name: str) -> bool:
        """Return True if a result exists; it is then complete."""
        with self.reached(_file(name)):
            return self.work.has(_file(name))

    def names(self, folder: str = "") -> list[str]:
        with self.reached(f"results/{folder}"):
            found = self.work.sizes(f"results/{folder}")
        names = (name.removeprefix("results/") for name in found)
        return [name.removesuffix(".npz") for name in names if name.endswith(".npz")]

    def write(self, name: str, result: Result) -> None:
        """Write a result, unless there is a result with this name.

        Large arrays are written first, so that a result is complete once its file exists.
        """
        if self.has(name):
            return
        large = {}
        for key, array in result.large.items():
            with self.work.created(_large_file(name, key)) as path:
                large[key] = write_array(path, array)
        texts = {"facts": result.facts, "large": large} if large else {"facts": result.facts}
        known = {key: np.array(json.dumps(content)) for key, content in texts.items()}
        with self.work.created(_file(name)) as path:
            write_arrays(path, known | result.arrays)

    def load(self, name: str) -> Result:
        """Read a result without its large arrays.

        If the result is damaged, remove it and raise `LostWorkError`.
        """
        with self._whole(_file(name)) as path:
            arrays = read_arrays(path)
            arrays.pop("large", None)
            return Result(_content(arrays, "facts"), arrays)

    def read(self, name: str) -> Result:
        """Return a copy of a result that several tasks need; its file is read once per process."""
        # Read-only arrays would make numba compile every kernel twice. Copies keep the layout: the
        # order of a kernel's sums, and the last bits of an answer, depend on it.
        kept = _result(self.address, name)
        arrays = {key: array.copy(order="K") for key, array in kept.arrays.items()}
        return Result(copy.deepcopy(kept.facts), arrays)

    def remove(self, name: str) -> None:
        """Remove a result, if it exists. The files of its large arrays stay, but have no effect."""
        with self.reached(_file(name)):
            self.work.remove(_file(name))

    def map_large(self, name: str, key: str) -> np.ndarray:
        """Map a large array of a result into memory; its checksum is compared once per process."""
        with self._whole(_large_file(name, key), of=name) as path:
            _compare(path, _large(self.address, name)[key])
            return map_array(path)

    def lost(self) -> list[str]:
        """Remove damaged results; return the reason for each."""
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
        """Turn an error about a file into a `TemporaryError` or an `OutputPermissionError`.

        These errors end the run and keep its finished work.
        """
        try:
            yield
        except (TemporaryError, OutputPermissionError):
            raise
        except (OSError, MemoryError, DistsvcError) as error:
            raise own_fault(error, f"{self.address}/{file}") from error

    @contextmanager
    def _whole(self, file: str, of: str | None = None) -> Iterator[Path]:
        """Yield a file's local path, and check in the block that the file is whole.

        If the block finds a missing or damaged file, remove the result that needs the file, and
        raise `LostWorkError`. The result is `of`, by default the file itself.
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
            reason_text = str(error).removeprefix(f"{path} can't be read: ")
            what = "is missing" if missing else f"is damaged: {reason_text}"
            raise LostWorkError(f"{where} {what}; the same command writes it again") from error

    def _staged(self) -> dict[str, int]:
        """Return the checksums of converted input files, by name.

        In a bucket, files are always complete. Then the result is empty.
        """
        with self.reached(STAGING):
            names = self.work.sizes(STAGING) if isinstance(self.work, Folder) else ()
            return {name: checksum(self.work.local(name)) for name in names}


def _file(name: str) -> str:
    return f"results/{name}.npz"


def _large_file(name: str, key: str) -> str:
    return f"results/{name}.{key}.npy"


def _content(arrays: dict[str, np.ndarray], key: str) -> Any:
    """Remove the array `key`, which contains JSON, from a result's arrays; return its value."""
    try:
        return json.loads(str(arrays.pop(key)))
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{key} can't be read: {error}") from None


def _reason(error: BaseException) -> BaseException | None:
    """Return the operating system's error that caused an error; None for damaged content."""
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
        return STORED_PLAN.validate_python(unsealed(read_regular(path), path)["plan"])


@lru_cache(maxsize=4096)
def _large(address: str, name: str) -> dict[str, int]:
    """Return the checksum of each large array of a result."""
    with RunDirectory(address)._whole(_file(name)) as path:
        found = read_arrays(path, only="large")
        return _content(found, "large") if found else {}


@lru_cache(maxsize=128)
def _result(address: str, name: str) -> Result:
    return RunDirectory(address).load(name)


@lru_cache(maxsize=4096)
def _compare(path: Path, expected: int) -> None:
    """Raise `DataError` if a file has a wrong checksum; each file is read once per process."""
    if checksum(path) != expected:
        raise DataError(f"{path.name} has a wrong checksum")
