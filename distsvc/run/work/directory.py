"""A run is a directory of small, named, complete files; driver and workers share nothing else.

A file is written once. So it may be kept in memory by its path, and to ask whether a step is done
is to ask whether its file is there.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from distsvc.errors import DataError
from distsvc.models.rules.fields import Facts
from distsvc.run.work.plan import Plan
from distsvc.storage.places.arrays import (
    map_array,
    read_arrays,
    read_json,
    write_array,
    write_arrays,
    write_json,
)
from distsvc.storage.places.store import Store, store_of

KEPT = 128
"""Results that a process keeps in memory."""

KEPT_SHAPES = 4096
"""Results of whose large arrays it keeps types and shapes."""


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
    `work` is the directory, and `address` its absolute path or URL.
    """

    def __init__(self, work: Store | str | Path):
        self.work = store_of(work) if isinstance(work, (str, Path)) else work
        self.address = self.work.address

    @property
    def name(self) -> str:
        """The run's own name, which no other run of the output has."""
        return self.address.rpartition("/")[2]

    def write_plan(self, plan: Plan) -> None:
        """Write ``plan.json``; again only for another number of rows in a block."""
        with self.work.created("plan.json") as path:
            write_json(path, plan.to_dict())
        _plan.cache_clear()

    @property
    def is_planned(self) -> bool:
        """Whether the plan is written."""
        return self.work.has("plan.json")

    @property
    def plan(self) -> Plan:
        """The plan, read once per process."""
        return _plan(self.address)

    @property
    def staging(self) -> str:
        """The folder for converted formats without row ranges, which all workers see."""
        return self.work.below("staging").address

    @property
    def output(self) -> Store:
        """The address at which the run is published."""
        return store_of(self.plan.output.path)

    def folder(self, kind: str) -> str:
        """Return the folder, in the output, of what this run publishes of a kind in `KINDS`."""
        return f"{kind}/{self.name}"

    def place(self, kind: str) -> Store:
        """Return that folder as a place."""
        return self.output.below(self.folder(kind))

    def has(self, name: str) -> bool:
        """Return whether a result is there; it is whole then."""
        return self.work.has(_file(name))

    def names(self, folder: str) -> list[str]:
        """Return the names of the results in a folder, in order, by one listing; all are whole."""
        found = (name.removeprefix("results/") for name in self.work.sizes(f"results/{folder}"))
        return [name.removesuffix(".npz") for name in found if name.endswith(".npz")]

    def write(self, name: str, result: Result) -> None:
        """Write a result; one that is there already stays as it is.

        `name` may be in a folder. ``<name>.npz`` comes last, so what is there is whole.
        """
        if self.has(name):
            return
        for key, array in result.large.items():
            with self.work.created(_large_file(name, key)) as path:
                write_array(path, array)
        large = {key: [array.dtype.str, array.shape] for key, array in result.large.items()}
        texts = {"facts": result.facts, "large": large} if large else {"facts": result.facts}
        known = {key: np.array(json.dumps(content)) for key, content in texts.items()}
        with self.work.created(_file(name)) as path:
            write_arrays(path, known | result.arrays)

    def load(self, name: str) -> Result:
        """Read a result without what is `large`; `DataError` when it is missing or damaged."""
        arrays = read_arrays(self.work.local(_file(name)))
        arrays.pop("large", None)
        return Result(self._content(name, arrays, "facts"), arrays)

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
        """Remove a result that nothing is `large` of, if it is there."""
        self.work.remove(_file(name))

    def map_large(self, name: str, key: str) -> np.ndarray:
        """Return a large array of a result; its pages are read when they are used.

        `DataError` when its type or shape are not those that were written.
        """
        path = self.work.local(_large_file(name, key))
        array = map_array(path)
        expected = _large(self.address, name).get(key)
        if [array.dtype.str, list(array.shape)] != expected:
            raise DataError(f"{path}: expected {expected}, found {array.dtype.str}, {array.shape}")
        return array

    def _content(self, name: str, arrays: dict[str, np.ndarray], key: str) -> Any:
        """Take what JSON holds out of a result's arrays."""
        try:
            return json.loads(str(arrays.pop(key)))
        except (KeyError, ValueError, RecursionError) as error:
            raise DataError(f"{self.address}/{_file(name)}: {key} can't be read: {error}") from None


def _file(name: str) -> str:
    return f"results/{name}.npz"


def _large_file(name: str, key: str) -> str:
    return f"results/{name}.{key}.npy"


@lru_cache(maxsize=4)
def _plan(address: str) -> Plan:
    return Plan.from_dict(read_json(store_of(address).local("plan.json")))


@lru_cache(maxsize=KEPT_SHAPES)
def _large(address: str, name: str) -> dict[str, list[Any]]:
    """Return types and shapes of the large arrays of a result, by name."""
    run = RunDirectory(address)
    found = read_arrays(run.work.local(_file(name)), only="large")
    return run._content(name, found, "large")


@lru_cache(maxsize=KEPT)
def _result(address: str, name: str) -> Result:
    return RunDirectory(address).load(name)
